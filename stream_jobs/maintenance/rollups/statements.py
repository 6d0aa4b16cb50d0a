"""SQL of the roll-ups: a queue says what changed; those buckets are made anew from the level below."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from stream_jobs.maintenance.rollups.columns import COLUMNS, LAYER, NAMES


@dataclass(frozen=True, slots=True)
class Level:
    """One table of roll-ups: made of ``source``, whose rows' times stand in ``source_time``."""

    table: str
    unit: str
    source: str
    source_time: str

    @property
    def lowest(self) -> bool:
        """Whether it is made of windows."""
        return self.source_time == "window_start"


LEVELS: Final = (
    Level("odograph.vehicle_minute", "minute", "odograph.vehicle_window", "window_start"),
    Level("odograph.vehicle_hour", "hour", "odograph.vehicle_minute", "bucket"),
    Level("odograph.vehicle_day", "day", "odograph.vehicle_hour", "bucket"),
)
"""From the lowest up."""

NOTE_CHANGES: Final = """
INSERT INTO odograph.window_change (minute, vehicles)
SELECT date_trunc('minute', window_start), array_agg(DISTINCT vehicle_id)
FROM staged_vehicle_window GROUP BY 1
"""
"""In the transaction that writes windows: whoever sees the line sees them too."""

ONE_AT_A_TIME: Final = "SELECT pg_advisory_xact_lock(7012)"
"""`odograph recompute` rolls up too: of two passes at once the older one could have the last word."""

CREATE_DUE: Final = """
CREATE TEMP TABLE IF NOT EXISTS rollup_due (unit text, vehicle_id text, bucket timestamptz)
ON COMMIT DELETE ROWS
"""
TAKE: Final = """
WITH taken AS (
    DELETE FROM odograph.window_change
    WHERE change_no IN (SELECT change_no FROM odograph.window_change ORDER BY change_no LIMIT %(lines)s)
    RETURNING minute, vehicles
)
INSERT INTO rollup_due SELECT DISTINCT 'minute', vehicle_id, minute FROM taken, unnest(vehicles) AS vehicle_id
WHERE minute >= coalesce(
    (SELECT dropped_before FROM odograph.retention WHERE table_name = 'vehicle_window'), '-infinity')
"""
"""A minute whose windows have gone stays as it is, whatever late frame brings one of them back."""
LIFT: Final = """
INSERT INTO rollup_due
SELECT DISTINCT %(unit)s, vehicle_id, date_trunc(%(unit)s, bucket, %(tz)s)
FROM rollup_due WHERE unit = %(below)s
"""
SPAN: Final = """
SELECT min(bucket), max(bucket + ('1 ' || unit)::interval + interval '2 hours')
FROM rollup_due WHERE unit = %(unit)s HAVING count(*) > 0
"""
"""Two hours more than a bucket: a day may have 25 of them."""

ZONE: Final = "SELECT tz FROM odograph.rollup_zone"
CHANGE_ZONE: Final = (
    "DELETE FROM odograph.rollup_zone",
    "INSERT INTO odograph.rollup_zone (tz) VALUES (%(tz)s)",
    "DELETE FROM odograph.vehicle_hour WHERE bucket >= odograph.minutes_from()",
    "DELETE FROM odograph.vehicle_day WHERE bucket >= odograph.minutes_from()",
    "INSERT INTO odograph.window_change (minute, vehicles) "
    "SELECT bucket, array_agg(vehicle_id) FROM odograph.vehicle_minute "
    "WHERE bucket >= odograph.minutes_from() GROUP BY bucket",
)
"""Hours and days are cut in the zone: in another one all are made anew whose minutes are still there."""


def roll_up(level: Level) -> str:
    """The due buckets of a level, made anew; parameters ``since``, ``until``, ``tz``.

    ``since`` and ``until`` bound all due buckets, so that chunks of other times are not looked at.
    """
    written = (*NAMES, *(name for column in LAYER for name in column.names))
    names = ", ".join(written)
    sources = ", ".join(sql for column in (*COLUMNS, *LAYER) for sql in column.expressions(level.lowest))
    changes = ", ".join(f"{name} = excluded.{name}" for name in written)
    time = f"s.{level.source_time}"
    end = f"(d.bucket AT TIME ZONE %(tz)s + interval '1 {level.unit}') AT TIME ZONE %(tz)s"
    if level.unit != "day":
        end = f"d.bucket + interval '1 {level.unit}'"
    return (
        f"INSERT INTO {level.table} (vehicle_id, bucket, {names}) "  # noqa: S608  names of this package
        f"SELECT vehicle_id, d.bucket, {sources} "
        f"FROM rollup_due d JOIN {level.source} s USING (vehicle_id) "
        f"WHERE d.unit = '{level.unit}' AND {time} >= d.bucket AND {time} < {end} "
        f"AND {time} >= %(since)s AND {time} < %(until)s "
        f"GROUP BY vehicle_id, d.bucket ORDER BY vehicle_id, d.bucket "
        f"ON CONFLICT (vehicle_id, bucket) DO UPDATE SET {changes}"
    )
