"""Recorded drives as frames: sent through MQTT at any speed, or stored as a day of the archive format."""

from __future__ import annotations

import hashlib
import heapq
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import orjson

from edge_simulator.console import StopFlag, now_ms, say, show
from edge_simulator.day import HourFiles, write_summary
from edge_simulator.recordings.checks import drive_report
from edge_simulator.recordings.drives import Recording, look_into, read
from edge_simulator.recordings.frames import Prepared, prepare
from edge_simulator.recordings.mapping import Meaning
from edge_simulator.runfiles import RunFiles, write_sequences
from edge_simulator.sending.paho_publisher import PahoPublisher
from edge_simulator.sending.publishing import Publishing
from edge_simulator.sending.run import Plan, Say, Sender, Stopped
from edge_simulator.telemetry.outbox import Device, Outgoing, Sequences, identity
from infra.contract.errors import ConfigError
from infra.contract.frame import MAX_INT, SCHEMA
from infra.contract.verdict import clock_limits
from infra.settings import settings as configuration
from infra.settings.settings import Settings
from infra.settings.values import duration_ms

Start = Literal["now", "kept"] | int
"""``now``, ``kept``, or the UTC time (ms) at which the recordings are to begin."""
AT_ONCE = 5_000  # frames handed over together
YEAR_MS = 365 * 86_400_000


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
            begin, _ = self._span_ms(drive)
            for seq, rows in enumerate(drive.groups()):
                end = drive.t_ms[rows.stop - 1]
                due = self.origin_ms + round((end - begin) / self.speed)
                sent = due if self.start == "now" else end + shift
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
        found = []
        for number, drive in enumerate(self.drives):
            payload = orjson.dumps({
                "schema": SCHEMA, "vehicle_id": drive.vehicle_id, "boot_id": self.boot_id(drive),
                "seq": int(state == "offline"), "state": state, "at_ms": at_ms, "model": self.meaning.model,
                "powertrain": self.meaning.powertrain, "vehicle_class": self.meaning.vehicle_class,
            })  # fmt: skip
            found.append(Outgoing(at_ms, number, number, "status", payload, retain=True))
        return found

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
    found = Convoy(meaning, recordings, ready, speed, start, now_ms())
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
    """Send all drives, with a line a second; returns the summary, which is also the run's run.json."""
    frames = drives.frames()
    counts, next_s = publisher.counts, time.monotonic() + 1.0

    def tick() -> None:
        nonlocal next_s
        if time.monotonic() >= next_s:
            next_s += 1.0
            say(
                f"sent {counts.sent['telemetry']} of {len(frames)} frames  in flight {publisher.owed}  "
                f"acked {counts.acked['telemetry']}  errors {counts.refused}  reconnects {counts.reconnects}"
            )

    sender = Sender(plan, drives.vehicle_ids, publisher, drives.origin_ms, tick)
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
    sender.send_now(drives.status("offline", now_ms()))
    publisher.drain(plan.drain_s)
    summary = {
        "run_id": plan.run_id, "vehicles": len(drives.drives), "generated": sent,
        "sent": counts.sent["telemetry"], "acked": counts.acked["telemetry"],
        "lost_on_link": 0, "poison": 0, "crashes": 0,
        "errors": counts.refused, "reconnects": counts.reconnects,
        "puback_ms": {f"p{q}": publisher.latency.quantile_ms(q / 100) for q in (50, 95, 99)},
        "started_ms": drives.origin_ms, "ended_ms": now_ms(),
        "finished": sent == len(frames) and publisher.owed == 0,
        "drives": [_drive(drives, drive) for drive in drives.drives],
    }  # fmt: skip
    ends: dict[Device, int] = {}  # how far each recorder counted, by what was sent
    for item in frames[:sent]:
        device, seq = identity(item.payload)
        ends[device] = max(ends.get(device, 0), seq + 1)
    write_sequences(files.folder, Sequences().rows(iter(ends.items()), ()))
    files.sync(summary)
    return summary


def publish(
    folder: Path, mapping: Path | None, speed: float, start: str, run_id: str | None, log_frames: bool,
    drain: str, as_json: bool,
) -> bool:  # fmt: skip
    """Send the drives of a folder through MQTT as if the vehicles were on the road, and print the summary.

    True when all was sent and acknowledged. Raises ConfigError before anything is sent.
    """
    in_force = configuration.load()
    drain_s = duration_ms(drain, "--drain") / 1000
    drives = convoy(folder, mapping, speed, parse_start(start))
    address = configuration.endpoints(in_force)
    name = run_id or f"replay-{now_ms()}"
    with StopFlag(say) as stop, PahoPublisher(address.mqtt, [f"odograph-{name}"]) as publisher:
        publisher.connect(deadline_s=5.0)
        with RunFiles(in_force.paths.home, name, log_frames) as files:
            plan = Plan(name, in_force.mqtt.root, 20_000, drain_s)
            summary = run(plan, drives, publisher, files, say, stop)
    show(summary, as_json)
    return bool(summary["finished"])


def _drive(drives: Convoy, drive: Prepared) -> dict[str, Any]:
    shift, found = drives.shift_ms(drive), drive_report(drive)
    return {
        "name": found.name, "vehicle_id": found.vehicle_id, "boot_id": drives.boot_id(drive),
        "rows": found.good_rows + found.bad_rows, "bad_rows": found.bad_rows, "bad_values": found.bad_values,
        "examples": found.named, "repeated_positions": found.repeated_positions, "gaps": found.gaps,
        "speed_disagreements": len(found.speed.spells) if found.speed else None,
        "speed_lag_s": found.speed.lag_s if found.speed else None,
        "frames": len(drive.groups()), "samples": len(drive.t_ms),
        "distance_by_speed_m": drive.speed_distance_m, "distance_by_trace_m": drive.trace_m,
        "recorded_from": _iso(drive.t_ms[0]), "recorded_to": _iso(drive.t_ms[-1]),
        "stamped_from": _iso(drive.t_ms[0] + shift), "stamped_to": _iso(drive.t_ms[-1] + shift),
    }  # fmt: skip


def _iso(t_ms: int) -> str:
    return datetime.fromtimestamp(t_ms / 1000, UTC).isoformat(timespec="milliseconds")


def make(drives: Convoy, folder: Path, settings: Settings, run_id: str) -> Path:
    """The day of these drives; one that was made of the same files before is taken as it is.

    A frame is received at its last sample, as if each drive had come in while it was driven. The folder may
    span any number of days. Raises ConfigError where a day of that name was made of others.
    """
    day = settings.paths.home.absolute() / "days" / run_id
    names = {drive.drive.file for drive in drives.drives}
    paths = sorted(path for path in folder.iterdir() if path.suffix.lower() == ".csv" and path.stem in names)
    hashes = {path.stem: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    source = {"start": drives.start, "files": hashes}
    if day.exists():
        if orjson.loads((day / "run.json").read_bytes()).get("source") != source:
            raise ConfigError(f"{day} was made of other drives: give another --run-id, or remove it")
        return day
    draft = day.with_name(f".{run_id}.partial")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    with HourFiles(draft / "telemetry", run_id, drives.vehicle_ids, clock_limits(settings)) as hours:
        frames = received(drives)
        while some := list(islice(frames, AT_ONCE)):
            hours.take(some)
    begin_ms = min(drive.t_ms[0] + drives.shift_ms(drive) for drive in drives.drives)
    end_ms = max(drive.t_ms[-1] + drives.shift_ms(drive) for drive in drives.drives)
    count = hours.verdicts.total()
    write_summary(draft, {
        "run_id": run_id, "vehicles": len(set(drives.vehicle_ids)), "start_ms": begin_ms, "end_ms": end_ms,
        "generated": count, "lost_on_link": 0, "dropped_on_board": 0, "poison": 0, "records": count,
        "verdicts": dict(hours.verdicts),
        "recorded": f"{datetime.fromtimestamp(begin_ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}",
        "source": source,
    })  # fmt: skip
    draft.rename(day)
    return day


def received(drives: Convoy) -> Iterator[Outgoing]:
    """All frames in the order of their receipt; only a frame a drive is in memory at once."""
    for number, item in enumerate(heapq.merge(*(_frames(drives, k) for k in range(len(drives.drives))))):
        yield Outgoing(item.due_ms, number, item.vehicle, item.channel, item.payload)


def _frames(drives: Convoy, vehicle: int) -> Iterator[Outgoing]:
    drive = drives.drives[vehicle]
    shift, boot_id = drives.shift_ms(drive), drives.boot_id(drive)
    for seq, rows in enumerate(drive.groups()):
        due_ms = drive.t_ms[rows.stop - 1] + shift
        payload = drive.frame(rows, seq, boot_id, shift, due_ms)
        yield Outgoing(due_ms, seq, vehicle, "telemetry", payload)
