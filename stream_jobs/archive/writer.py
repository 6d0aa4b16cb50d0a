"""Files come into the archive: whole, once, and with a line in the manifest."""

from __future__ import annotations

import time
from pathlib import Path

import structlog

from stream_jobs.archive.entry import described
from stream_jobs.archive.layout import TELEMETRY, hour_name
from stream_jobs.archive.manifest import append, locked, read_hour, sync
from stream_jobs.archive.reader import of_hours

log = structlog.get_logger("stream_jobs.archive")


def place(folder: Path, hour_ms: int, staged: Path, name: str) -> bool:
    """Move a finished file to its place under ``name``, over a copy of an earlier try; whether it was taken.

    A name that was packed or has expired since is refused, and the staged file goes: its records are there
    already. ``staged`` must lie on the same file system. Raises ArchiveError, OSError.
    """
    entry = described(staged, name)
    sync(staged)
    target = folder / TELEMETRY / hour_name(hour_ms) / name
    target.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder, writing=True):
        if name in read_hour(folder, hour_ms).replaced_ms:
            log.warning("archived before, left out", file=name, hour=hour_name(hour_ms))
            staged.unlink()
            return False
        staged.replace(target)
        sync(target.parent)
        append(folder, hour_ms, {"op": "add", "at_ms": now_ms(), "file": entry.as_json()})
    return True


def adopt(folder: Path, hour_ms: int) -> list[str]:
    """Give files that the manifest does not know their lines; their names. Raises ArchiveError."""
    unknown = [file for file in of_hours(folder, [hour_ms]) if file.entry is None]
    entries = [described(file.path, file.path.name) for file in unknown]
    with locked(folder, writing=True):
        known = read_hour(folder, hour_ms)
        fresh = [e for e in entries if e.name not in known.files and e.name not in known.replaced_ms]
        for entry in fresh:
            append(folder, hour_ms, {"op": "add", "at_ms": now_ms(), "file": entry.as_json()})
    return [entry.name for entry in fresh]


def now_ms() -> int:
    """For the lines of the manifest."""
    return time.time_ns() // 1_000_000
