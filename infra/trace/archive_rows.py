"""Finds a frame in the archive: hour by hour of receipt, the newest first."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

from infra.clients.duck import connected
from infra.clients.log_records import Archived, Wanted
from stream_jobs.archive.manifest import HOUR_MS, archive_of
from stream_jobs.archive.reader import hours, of_hours

SAY_EVERY_HOURS = 6
_SQL = """
SELECT filename, file_row_number, partition, log_offset, received_ms, boot_id, verdict, value
FROM read_parquet(?, hive_partitioning = false, filename = true, file_row_number = true)
WHERE vehicle_id = ? AND seq = ? AND (? IS NULL OR boot_id = ?)
ORDER BY received_ms, log_offset
"""


def find(
    home: Path, wanted: Wanted, look_back: timedelta, now: datetime, say: Callable[[str], None]
) -> list[Archived]:
    """Copies of the frame in the archive, oldest first; of no hour before ``look_back``.

    The hour before the one that has it is looked into too: copies may lie on both sides of a full hour.
    """
    found: list[Archived] = []
    stored = _hours(home, now - look_back)
    for number, hour_ms in enumerate(stored):
        if number and number % SAY_EVERY_HOURS == 0:
            say(f"not in the archive's newest {number} of {len(stored)} hours, going on")
        before = bool(found)
        found = _in_hour(hour_ms, home, wanted) + found
        if before:
            break
    return found


def _hours(home: Path, oldest: datetime) -> list[int]:
    """Starts of the hours with files, newest first, ms."""
    return [h for h in reversed(hours(archive_of(home))) if h + HOUR_MS > oldest.timestamp() * 1000]


def _in_hour(hour_ms: int, home: Path, wanted: Wanted) -> list[Archived]:
    files = [str(file.path) for file in of_hours(archive_of(home), [hour_ms])]
    if not files:
        return []
    values = [files, wanted.vehicle_id, wanted.seq, wanted.boot_id, wanted.boot_id]
    with connected() as connection:
        rows = connection.execute(_SQL, values).fetchall()
    return [Archived(Path(file).relative_to(home).as_posix(), *rest) for file, *rest in rows]
