"""Recorded drives as frames: sent through MQTT at any speed, or stored as a day of the archive format."""

import hashlib
import heapq
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

import orjson

from edge_simulator.console import line_s, now_ms, say, show, stop_flag
from edge_simulator.day import HourFiles, write_summary
from edge_simulator.recordings.checks import drive_report, told
from edge_simulator.recordings.drives import Recording, iso, look_into, read
from edge_simulator.recordings.frames import prepare
from edge_simulator.recordings.mapping import Meaning
from edge_simulator.runfiles import RunFiles, run_name, write_sequences
from edge_simulator.sending.paho_publisher import PahoPublisher
from edge_simulator.sending.publishing import Publishing
from edge_simulator.sending.run import RunOptions, Say, Sender, Stopped
from edge_simulator.telemetry.outbox import Device, Outgoing, Spans, sequences
from infra.contract.errors import ConfigError
from infra.contract.frame import MAX_INT, SCHEMA
from infra.contract.verdict import clock_limits
from infra.settings import settings as configuration
from infra.settings.settings import Settings
from infra.settings.values import duration_ms, moment_ms
from infra.stack.access import devices

Start = Literal["now", "kept"] | int  # or the UTC time (ms) at which the recordings are to begin
NEAR_MS: Final = 300_000  # a begin so near is kept to: what is past by then is sent at once


class Convoy:
    """Drives that are sent together, from ``origin_ms`` on the wall clock, ``speed`` times as fast.

    Drives of one file keep their times relative to each other. With ``now`` a recording's last sample is
    taken at the moment its last frame is sent. With kept or given times the boot id is the drive's own begin:
    the same drive sent again repeats its identities; several drives of one vehicle differ by their number.
    """

    def __init__(
        self, meaning: Meaning, files: list[Recording], speed: float, start: Start, origin_ms: int
    ) -> None:
        self.meaning, self.recordings, self.origin_ms = meaning, files, origin_ms
        self._speed, self.start = speed, start
        self.drives = [prepare(drive) for file in files for drive in file.drives]
        self.vehicle_ids = [one.drive.vehicle_id for one in self.drives]
        self._begins_ms: list[int] = []
        self.shifts_ms: list[int] = []
        self.boot_ids: list[int] = []
        for number, one in enumerate(self.drives):
            together = [other for other in self.drives if other.drive.file == one.drive.file]
            begin_ms, end_ms = min(o.t_ms[0] for o in together), max(o.t_ms[-1] for o in together)
            end_now_ms = origin_ms + round((end_ms - begin_ms) / speed)
            shift_ms = 0 if start == "kept" else end_now_ms - end_ms if start == "now" else start - begin_ms
            boot_id = origin_ms if start == "now" else one.t_ms[0] + shift_ms
            self._begins_ms.append(begin_ms)
            self.shifts_ms.append(shift_ms)
            self.boot_ids.append(boot_id + self.vehicle_ids[:number].count(one.drive.vehicle_id))

    def frames(self, received: bool = False) -> Iterator[Outgoing]:
        """All frames by the wall time they are due at; one a drive is in memory.

        ``received``: by the time of their last sample, for then they are received.
        """
        return heapq.merge(*(self._frames(number, received) for number in range(len(self.drives))))

    def _frames(self, number: int, received: bool) -> Iterator[Outgoing]:
        drive, shift_ms = self.drives[number], self.shifts_ms[number]
        for seq, rows in enumerate(drive.groups()):
            taken_ms = drive.t_ms[rows.stop - 1]
            replayed_ms = self.origin_ms + round((taken_ms - self._begins_ms[number]) / self._speed)
            due_ms = taken_ms + shift_ms if received else replayed_ms
            sent_ms = due_ms if self.start == "now" else taken_ms + shift_ms
            payload = drive.frame(rows, seq, self.boot_ids[number], shift_ms, sent_ms)
            yield Outgoing(due_ms, seq, number, "telemetry", payload)

    def status(self, state: str, at_ms: int) -> list[Outgoing]:
        payloads = [
            orjson.dumps({
                "schema": SCHEMA, "vehicle_id": vehicle_id, "boot_id": boot_id,
                "seq": int(state == "offline"), "state": state, "at_ms": at_ms, "model": self.meaning.model,
                "powertrain": self.meaning.powertrain, "vehicle_class": self.meaning.vehicle_class,
            })
            for vehicle_id, boot_id in zip(self.vehicle_ids, self.boot_ids, strict=True)
        ]  # fmt: skip
        return [Outgoing(at_ms, k, k, "status", payload, retain=True) for k, payload in enumerate(payloads)]

    def reports(self) -> Iterator[dict[str, Any]]:
        """What each drive holds, and when it was recorded and is said to have been."""
        for number, one in enumerate(self.drives):
            found, shift_ms = drive_report(one), self.shifts_ms[number]
            speed = found.speed
            yield {
                "name": found.name, "vehicle_id": found.vehicle_id, "boot_id": self.boot_ids[number],
                "rows": found.good_rows + found.bad_rows,
                "bad_rows": found.bad_rows, "bad_values": found.bad_values, "jumps": found.jumps,
                "reasons": found.reasons, "examples": found.named,
                "repeated_positions": found.repeated_positions, "gaps": found.gaps,
                "speed_disagreements": len(speed.spells) if speed else None,
                "speed_lag_s": speed.lag_s if speed else None,
                "frames": len(one.groups()), "samples": len(one.t_ms),
                "distance_by_speed_m": one.speed_distance_m, "distance_by_trace_m": one.trace_m,
                "recorded_from": iso(one.t_ms[0]), "recorded_to": iso(one.t_ms[-1]),
                "stamped_from": iso(one.t_ms[0] + shift_ms), "stamped_to": iso(one.t_ms[-1] + shift_ms),
            }  # fmt: skip


def convoy(folder: Path, mapping: Path | None, speed: float, start: Start) -> Convoy:
    """The drives of a folder, read and checked whole; raises ConfigError before anything is sent."""
    meaning, files = look_into(folder, mapping)
    drives, origin_ms = [read(file, meaning) for file in files], now_ms()
    if isinstance(start, int) and abs(start - origin_ms) <= NEAR_MS:
        origin_ms = start  # a recorder sends a frame when it is taken, whatever reading the files took
    found = Convoy(meaning, drives, speed, start, origin_ms)
    for one, shift_ms in zip(found.drives, found.shifts_ms, strict=True):
        if one.t_ms[0] + shift_ms < 0 or one.t_ms[-1] + shift_ms > MAX_INT:
            years = (one.t_ms[-1] - one.t_ms[0]) / (365 * 86_400_000)
            name = next(file for file in files if file.stem == one.drive.file)
            apart = f"recorded times lie {years:.0f} years apart"
            raise ConfigError(f"{name}: {apart} and cannot be sent: a wrong row?")
    return found


def parse_start(text: str) -> Start:
    """``now``, ``kept``, or a time as 2026-11-20T08:00 (UTC unless it has a zone); raises ConfigError."""
    if text in {"now", "kept"}:
        return "now" if text == "now" else "kept"
    with suppress(ConfigError):
        return moment_ms(text, "--start")
    raise ConfigError(f"--start {text}: now, kept or a time as 2026-11-20T08:00 (UTC) is wanted")


def run(
    options: RunOptions, drives: Convoy, publisher: Publishing, files: RunFiles, say: Say, stopped: Stopped
) -> dict[str, Any]:
    """Send all drives, with lines on how far it is; returns the summary, which is also the run's run.json."""
    frames = sum(len(one.groups()) for one in drives.drives)
    counts, next_s = publisher.counts, time.monotonic() + line_s()

    def tick() -> None:
        nonlocal next_s
        if time.monotonic() >= next_s:
            next_s += line_s()
            say(
                f"sent {counts.sent['telemetry']} of {frames} frames  in flight {publisher.owed}  "
                f"acked {counts.acked['telemetry']}  reconnects {counts.reconnects}"
            )

    sender = Sender(options, drives.vehicle_ids, publisher, drives.origin_ms, tick, files.folder)
    for recording in drives.recordings:
        if recording.ignored:
            say(f"{recording.name}: columns without a meaning, not sent: {', '.join(recording.ignored)}")
    sender.send_now(drives.status("online", drives.origin_ms))
    sent, ends = 0, dict[Device, int]()  # how far each recorder counted, by what was sent
    for item in drives.frames():
        files.frames([item])
        sender.send([item], stopped)
        sent += 1
        ends[drives.vehicle_ids[item.vehicle], drives.boot_ids[item.vehicle]] = item.order + 1
        if stopped():
            break
    sender.send_now(drives.status("offline", now_ms()))
    publisher.drain(options.drain_s)
    summary = {
        "run_id": options.run_id, "vehicles": len(drives.drives), "generated": sent,
        "sent": counts.sent["telemetry"], "acked": counts.acked["telemetry"],
        "lost_on_link": 0, "poison": 0, "crashes": 0, "reconnects": counts.reconnects,
        "puback_ms": {f"p{q}": publisher.latency.quantile_ms(q / 100) for q in (50, 95, 99)},
        "started_ms": drives.origin_ms, "ended_ms": now_ms(),
        "finished": sent == frames and publisher.owed == 0,
        "drives": list(drives.reports()),
    }  # fmt: skip
    none = Spans()
    write_sequences(files.folder, sequences(ends.items(), lost=none, dropped=none, on_board=none))
    files.sync(summary)
    return summary


def publish(
    folder: Path, mapping: Path | None, speed: float, start: str, run_id: str | None, log_frames: bool,
    drain: str, as_json: bool,
) -> bool:  # fmt: skip
    """Send the drives of a folder, print the summary; True when all was acknowledged. Raises ConfigError."""
    in_force = configuration.load()
    drain_s = duration_ms(drain, "--drain") / 1000
    drives = convoy(folder, mapping, speed, parse_start(start))
    address = configuration.endpoints(in_force, ("mqtt_host",))
    name = run_id or f"replay-{now_ms()}"
    own = devices.gateway(in_force, address, name, drives.vehicle_ids)
    with stop_flag(say) as stop, PahoPublisher(address.brokers, [f"odograph-{name}"], own=own) as publisher:
        publisher.connect(deadline_s=5.0)
        with RunFiles(in_force.paths.home, name, log_frames) as files:
            live = drives.start in ("now", drives.origin_ms)
            options = RunOptions(name, in_force.mqtt.root, 20_000, drain_s, live=live)
            summary = run(options, drives, publisher, files, say, stop)
    if as_json:
        show(summary, as_json)
    else:
        show({key: value for key, value in summary.items() if key != "drives"}, as_json)
        sys.stdout.write(told(summary["drives"]))
    return bool(summary["finished"])


def make(drives: Convoy, settings: Settings, run_id: str, days: Path | None = None) -> Path:
    """The day of these drives, frames received at their last samples; one made of the same files is kept.

    It may span any number of days. ``days``: where it is to lie, else among the home's generated days. Raises
    ConfigError where a day of that name was made of others.
    """
    day = (days or settings.paths.home.absolute() / "days") / run_name(run_id)
    hashes = {one.name: hashlib.sha256(one.path.read_bytes()).hexdigest() for one in drives.recordings}
    source = {"start": drives.start, "files": hashes}
    if day.exists():
        if orjson.loads((day / "run.json").read_bytes()).get("source") != source:
            raise ConfigError(f"{day} was made of other drives: give another --run-id, or remove it")
        return day
    draft = day.with_name(f".{run_id}.partial")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    with HourFiles(draft / "telemetry", run_id, drives.vehicle_ids, clock_limits(settings)) as hours:
        for item in drives.frames(received=True):
            hours.take(item)
    spans = [(d.t_ms[0] + k, d.t_ms[-1] + k) for d, k in zip(drives.drives, drives.shifts_ms, strict=True)]
    begin_ms, end_ms = min(begin for begin, _ in spans), max(end for _, end in spans)
    count = hours.verdicts.total()
    write_summary(draft, {
        "run_id": run_id, "vehicles": len(set(drives.vehicle_ids)), "start_ms": begin_ms, "end_ms": end_ms,
        "generated": count, "lost_on_link": 0, "dropped_on_board": 0, "poison": 0, "records": count,
        "verdicts": dict(hours.verdicts),
        "recorded": f"{datetime.fromtimestamp(begin_ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}",
        "source": source, **drives.meaning.model_dump(include={"model", "powertrain", "vehicle_class"}),
        "drives": list(drives.reports()),
    })  # fmt: skip
    draft.rename(day)
    return day
