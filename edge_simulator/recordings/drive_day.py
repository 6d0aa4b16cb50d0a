"""Recorded drives as a generated day: files of the archive's format, for ``odograph backfill --drives``.

A frame is received at its last sample, as if each drive had come in while it was driven. The folder may span
any number of days. It is made under a hidden name and renamed when it is whole.
"""

from __future__ import annotations

import hashlib
import heapq
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final

import orjson

from edge_simulator.day import digests
from edge_simulator.day_files import HourFiles
from edge_simulator.recordings.replay import Convoy
from edge_simulator.telemetry.outbox import Outgoing
from infra.contract.errors import ConfigError
from infra.contract.verdict import clock_limits
from infra.settings.settings import Settings

AT_ONCE: Final = 5_000
"""Frames handed over together."""


def make(drives: Convoy, folder: Path, settings: Settings, run_id: str) -> Path:
    """The day of these drives; one that was made of the same files before is taken as it is.

    Raises ConfigError where a day of that name was made of others.
    """
    day = settings.paths.home.absolute() / "days" / run_id
    source = _source(drives, folder)
    if day.exists():
        _check_same(day, source)
        return day
    draft = day.with_name(f".{run_id}.partial")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    with HourFiles(draft / "telemetry", run_id, drives.vehicle_ids, clock_limits(settings)) as hours:
        frames = received(drives)
        while some := list(islice(frames, AT_ONCE)):
            hours.take(some)
        summary = _summary(drives, run_id, dict(hours.verdicts)) | {"source": source}
    summary["files"] = digests(draft)
    (draft / "run.json").write_bytes(orjson.dumps(summary, option=orjson.OPT_INDENT_2) + b"\n")
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


def _source(drives: Convoy, folder: Path) -> dict[str, Any]:
    """What the day is made of: the files' hashes and where their times begin."""
    names = sorted({drive.drive.file for drive in drives.drives})
    return {
        "start": drives.start,
        "files": {n: hashlib.sha256(_file(folder, n).read_bytes()).hexdigest() for n in names},
    }


def _file(folder: Path, name: str) -> Path:
    return next(path for path in folder.iterdir() if name in (path.name, path.stem))


def _check_same(day: Path, source: dict[str, Any]) -> None:
    before = orjson.loads((day / "run.json").read_bytes()).get("source")
    if before != source:
        raise ConfigError(f"{day} was made of other drives: give another --run-id, or remove it")


def _summary(drives: Convoy, run_id: str, verdicts: dict[str, int]) -> dict[str, Any]:
    begins = [drive.t_ms[0] + drives.shift_ms(drive) for drive in drives.drives]
    ends = [drive.t_ms[-1] + drives.shift_ms(drive) for drive in drives.drives]
    frames = sum(verdicts.values())
    return {
        "run_id": run_id,
        "vehicles": len(set(drives.vehicle_ids)),
        "start_ms": min(begins),
        "end_ms": max(ends),
        "generated": frames,
        "lost_on_link": 0,
        "dropped_on_board": 0,
        "poison": 0,
        "records": frames,
        "verdicts": verdicts,
        "recorded": f"{datetime.fromtimestamp(min(begins) / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}",
    }
