"""Vehicles whose identity two devices use at once, found in the archive.

A device has one boot at a time. Frames of two boots of one vehicle whose sample times overlap come from two
devices, unless a clock was set back between the boots; so their receive times must overlap too. A reboot
gives neither. What a vehicle stored before a reboot and sends after it overlaps in receive time alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infra.clients.duck import connected
from stream_jobs.archive.layout import archive_of
from stream_jobs.archive.reader import paths

OVERLAP_MS: Final = 30_000
"""Longer than what clocks (``jobs.ahead_s``) and a frame's length can explain."""


@dataclass(frozen=True, slots=True)
class Clone:
    """A vehicle, two boots of it, and how long they overlap in sample time, ms."""

    vehicle_id: str
    boot_id: int
    other_boot_id: int
    overlap_ms: int


_SQL = """
WITH boot AS (
    SELECT vehicle_id, boot_id, min(t0_ms) AS from_ms, max(t0_ms + span_ms) AS to_ms,
           min(received_ms) AS first_ms, max(received_ms) AS last_ms
    FROM read_parquet(?, hive_partitioning = false)
    WHERE verdict IN ('ok', 'late')
    GROUP BY vehicle_id, boot_id
)
SELECT a.vehicle_id, a.boot_id, b.boot_id,
       least(a.to_ms, b.to_ms) - greatest(a.from_ms, b.from_ms) AS overlap_ms
FROM boot a JOIN boot b ON a.vehicle_id = b.vehicle_id AND a.boot_id < b.boot_id
WHERE overlap_ms > ? AND least(a.last_ms, b.last_ms) - greatest(a.first_ms, b.first_ms) > ?
ORDER BY ALL
"""


def cloned_vehicles(home: Path) -> list[Clone]:
    """All that the archive of a home shows; none where there is no archive yet."""
    files = paths(archive_of(home))
    if not files:
        return []
    with connected() as connection:
        rows = connection.execute(_SQL, [files, OVERLAP_MS, OVERLAP_MS]).fetchall()
    return [Clone(*row) for row in rows]
