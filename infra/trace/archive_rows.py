"""Finds a frame in the archive: hour by hour of receipt, the newest first."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb

from infra.trace.copies import Archived, Wanted

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
    hours = _hours(home, now - look_back)
    for number, folder in enumerate(hours):
        if number and number % SAY_EVERY_HOURS == 0:
            say(f"not in the archive's newest {number} of {len(hours)} hours, going on")
        before = bool(found)
        found = _in_hour(folder, home, wanted) + found
        if before:
            break
    return found


def _hours(home: Path, oldest: datetime) -> list[Path]:
    """Folders of hours with files, newest first."""
    first = oldest.astimezone(UTC).strftime("date=%Y-%m-%d/hour=%H")
    root = home / "archive" / "telemetry"
    folders = {path.parent for path in root.glob("date=*/hour=*/*.parquet")}
    return sorted((f for f in folders if f.relative_to(root).as_posix() >= first), reverse=True)


def _in_hour(folder: Path, home: Path, wanted: Wanted) -> list[Archived]:
    values = [str(folder / "*.parquet"), wanted.vehicle_id, wanted.seq, wanted.boot_id, wanted.boot_id]
    with duckdb.connect(config={"threads": 2}) as connection:
        rows = connection.execute(_SQL, values).fetchall()
    return [Archived(Path(file).relative_to(home).as_posix(), *rest) for file, *rest in rows]
