"""Recorded drives sent through MQTT like any vehicle's frames, faster or slower than they were driven."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import orjson

from edge_simulator.recordings.drive_checks import compare_speeds, gaps, repeats
from edge_simulator.recordings.drive_frames import Prepared, prepare
from edge_simulator.recordings.drive_mapping import Meaning
from edge_simulator.recordings.drives import Recording, look_into, read
from edge_simulator.runfiles import RunFiles
from edge_simulator.sending.publishing import Publishing
from edge_simulator.sending.run import Plan, Say, Sender, Stopped
from edge_simulator.telemetry.outbox import Device, Outgoing, Sequences, identity
from infra.contract.errors import ConfigError
from infra.contract.frame import MAX_INT, SCHEMA

Start = Literal["now", "kept"] | int
"""``now``, ``kept``, or the UTC time (ms) at which the recordings are to begin."""
YEAR_MS = 365 * 86_400_000
NAMED = 5
"""Bad rows and values that the summary names; all are counted."""


@dataclass(frozen=True, slots=True)
class Convoy:
    """Drives that are sent together, from ``origin_ms`` on the wall clock, ``speed`` times as fast.

    Drives of one file keep their times relative to each other.
    """

    meaning: Meaning
    recordings: Sequence[Recording]
    drives: Sequence[Prepared]
    speed: float
    start: Start
    origin_ms: int

    @property
    def vehicle_ids(self) -> list[str]:
        """Vehicle ids in the order of the drives."""
        return [drive.vehicle_id for drive in self.drives]

    def frames(self) -> list[Outgoing]:
        """All frames by the wall time they are due at."""
        items: list[Outgoing] = []
        for number, drive in enumerate(self.drives):
            shift, boot_id = self.shift_ms(drive), self.boot_id(drive)
            for seq, rows in enumerate(drive.groups()):
                due = self._due_ms(drive, rows.stop - 1)
                sent = due if self.start == "now" else drive.t_ms[rows.stop - 1] + shift
                payload = drive.frame(rows, seq, boot_id, shift, sent)
                items.append(Outgoing(due, len(items), number, "telemetry", payload))
        return sorted(items)

    def boot_id(self, drive: Prepared) -> int:
        """With kept or given times the drive's own begin: the same drive sent again repeats its identities.

        Several drives of one vehicle are told apart by their number.
        """
        mine = [one for one in self.drives if one.vehicle_id == drive.vehicle_id]
        number = next(k for k, one in enumerate(mine) if one is drive)
        begin = self.origin_ms if self.start == "now" else drive.t_ms[0] + self.shift_ms(drive)
        return begin + number

    def status(self, state: str, at_ms: int) -> list[Outgoing]:
        """Retained status messages of all vehicles."""
        return [
            Outgoing(at_ms, number, number, "status", self._status(drive, state, at_ms), retain=True)
            for number, drive in enumerate(self.drives)
        ]

    def _status(self, drive: Prepared, state: str, at_ms: int) -> bytes:
        return orjson.dumps({
            "schema": SCHEMA, "vehicle_id": drive.vehicle_id, "boot_id": self.boot_id(drive),
            "seq": int(state == "offline"), "state": state, "at_ms": at_ms, "model": self.meaning.model,
            "powertrain": self.meaning.powertrain, "vehicle_class": self.meaning.vehicle_class,
        })  # fmt: skip

    def _due_ms(self, drive: Prepared, row: int) -> int:
        begin, _ = self._span_ms(drive)
        return self.origin_ms + round((drive.t_ms[row] - begin) / self.speed)

    def shift_ms(self, drive: Prepared) -> int:
        """With ``now`` a recording's last sample is taken at the moment its last frame is sent."""
        begin, end = self._span_ms(drive)
        if self.start == "now":
            return self.origin_ms + round((end - begin) / self.speed) - end
        return 0 if self.start == "kept" else self.start - begin

    def _span_ms(self, drive: Prepared) -> tuple[int, int]:
        """First and last recorded time of the drive's file."""
        together = [one for one in self.drives if one.drive.file == drive.drive.file]
        return min(one.t_ms[0] for one in together), max(one.t_ms[-1] for one in together)


def convoy(folder: Path, mapping: Path | None, speed: float, start: Start) -> Convoy:
    """The drives of a folder, read and checked whole; raises ConfigError before anything is sent."""
    if not speed > 0:
        raise ConfigError(f"--speed {speed:g}: more than 0 is wanted (60: a minute in a second)")
    meaning, files = look_into(folder, mapping)
    recordings = [read(file, meaning) for file in files]
    ready = [prepare(drive) for recording in recordings for drive in recording.drives]
    found = Convoy(meaning, recordings, ready, speed, start, time.time_ns() // 1_000_000)
    for drive in ready:
        shift_ms = found.shift_ms(drive)
        if drive.t_ms[0] + shift_ms < 0 or drive.t_ms[-1] + shift_ms > MAX_INT:
            years = (drive.t_ms[-1] - drive.t_ms[0]) / YEAR_MS
            name = folder / f"{drive.drive.file}.csv"
            raise ConfigError(
                f"{name}: recorded times lie {years:.0f} years apart and cannot be sent: a wrong row?"
            )
    return found


def parse_start(text: str) -> Start:
    """``now``, ``kept``, or a time as 2026-11-20T08:00 (UTC unless it has a zone); raises ConfigError."""
    if text == "now":
        return "now"
    if text == "kept":
        return "kept"
    try:
        moment = datetime.fromisoformat(text)
        at = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        start_ms = round(at.timestamp() * 1000)
    except (ValueError, OverflowError):
        start_ms = -1
    if start_ms < 0:
        raise ConfigError(f"--start {text}: now, kept or a time as 2026-11-20T08:00 (UTC) is wanted")
    return start_ms


def run(
    plan: Plan, drives: Convoy, publisher: Publishing, files: RunFiles, say: Say, stopped: Stopped
) -> dict[str, Any]:
    """Send all drives; returns the summary, which is also the run's run.json."""
    frames = drives.frames()
    progress = _Progress(len(frames), publisher, say)
    sender = Sender(plan, drives.vehicle_ids, publisher, drives.origin_ms, progress.tick)
    for recording in drives.recordings:
        if recording.ignored:
            say(f"{recording.name}: columns without a meaning, not sent: {', '.join(recording.ignored)}")
    sender.send_now(drives.status("online", drives.origin_ms))
    sent = 0
    for item in frames:
        files.frames([item])
        sender.send([item], stopped)
        sent += 1
        if stopped():
            break
    sender.send_now(drives.status("offline", time.time_ns() // 1_000_000))
    publisher.drain(plan.drain_s)
    summary = _summary(plan, drives, publisher, sent, complete=sent == len(frames))
    files.sequences(Sequences().rows(_counted(frames[:sent]), ()))
    files.sync(summary)
    return summary


def _counted(frames: Sequence[Outgoing]) -> Iterator[tuple[Device, int]]:
    """How far each recorder counted, by what was sent."""
    ends: dict[Device, int] = {}
    for item in frames:
        device, seq = identity(item.payload)
        ends[device] = max(ends.get(device, 0), seq + 1)
    yield from ends.items()


class _Progress:
    """A line a second."""

    def __init__(self, total: int, publisher: Publishing, say: Say) -> None:
        self._total = total
        self._publisher = publisher
        self._say = say
        self._next = time.monotonic() + 1.0

    def tick(self) -> None:
        """Called whenever there is time."""
        if time.monotonic() >= self._next:
            self._next += 1.0
            counts = self._publisher.counts
            self._say(
                f"sent {counts.sent['telemetry']} of {self._total} frames  in flight {self._publisher.owed}  "
                f"acked {counts.acked['telemetry']}  errors {counts.refused}  reconnects {counts.reconnects}"
            )


def _summary(plan: Plan, drives: Convoy, publisher: Publishing, sent: int, complete: bool) -> dict[str, Any]:
    counts = publisher.counts
    return {
        "run_id": plan.run_id,
        "vehicles": len(drives.drives),
        "generated": sent,
        "sent": counts.sent["telemetry"],
        "acked": counts.acked["telemetry"],
        "lost_on_link": 0,
        "poison": 0,
        "crashes": 0,
        "errors": counts.refused,
        "reconnects": counts.reconnects,
        "puback_ms": {f"p{q}": publisher.latency.quantile_ms(q / 100) for q in (50, 95, 99)},
        "started_ms": drives.origin_ms,
        "ended_ms": time.time_ns() // 1_000_000,
        "finished": complete and publisher.owed == 0,
        "drives": [_drive(drives, drive) for drive in drives.drives],
    }


def _drive(drives: Convoy, drive: Prepared) -> dict[str, Any]:
    shift = drives.shift_ms(drive)
    rows = drive.drive.rows
    check, pauses = compare_speeds(rows), gaps(drive.t_ms)
    return {
        "name": drive.drive.name,
        "vehicle_id": drive.vehicle_id,
        "boot_id": drives.boot_id(drive),
        "rows": len(drive.t_ms) + len(drive.drive.bad_rows),
        "bad_rows": len(drive.drive.bad_rows),
        "bad_values": len(drive.drive.bad_values),
        "examples": [*drive.drive.bad_rows[:NAMED], *drive.drive.bad_values[:NAMED]],
        "repeated_positions": repeats(rows).rows,
        "gaps": pauses.count,
        "speed_disagreements": len(check.spells) if check else None,
        "speed_lag_s": check.lag_s if check else None,
        "frames": len(drive.groups()),
        "samples": len(drive.t_ms),
        "distance_by_speed_m": drive.speed_distance_m,
        "distance_by_trace_m": drive.trace_m,
        "recorded_from": _iso(drive.t_ms[0]),
        "recorded_to": _iso(drive.t_ms[-1]),
        "stamped_from": _iso(drive.t_ms[0] + shift),
        "stamped_to": _iso(drive.t_ms[-1] + shift),
    }


def _iso(t_ms: int) -> str:
    return datetime.fromtimestamp(t_ms / 1000, UTC).isoformat(timespec="milliseconds")
