"""Which vehicles a run puts through the core again, and what of each has to be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from stream_jobs.database import Connection, execute, fetch
from stream_jobs.recompute.slices import Span
from stream_jobs.vehicles.repair import LOOK_BACK_MS, TAIL_MS, Task

_SEEN: Final = """
SELECT DISTINCT vehicle_id, %(from_ms)s::bigint, %(until_ms)s::bigint FROM odograph.vehicle_window
WHERE window_start >= to_timestamp(%(from_ms)s / 1000.0)
  AND window_start < to_timestamp(%(until_ms)s / 1000.0)
  AND (%(vehicle)s::text IS NULL OR vehicle_id = %(vehicle)s)
ORDER BY 1
"""
_BEHIND: Final = """
SELECT vehicle_id, (extract(epoch FROM min(from_time)) * 1000)::bigint,
       (extract(epoch FROM max(to_time)) * 1000)::bigint
FROM odograph.journey_behind
WHERE alerts_at IS NULL AND noted_at <= to_timestamp(%(seen_ms)s / 1000.0)
GROUP BY vehicle_id ORDER BY vehicle_id
"""
_STOPS: Final = """
SELECT v.vehicle_id, v.since_ms, v.until_ms,
       (extract(epoch FROM before.began_at) * 1000)::bigint,
       (extract(epoch FROM after.began_at) * 1000)::bigint,
       EXISTS (SELECT 1 FROM odograph.trip t WHERE t.vehicle_id = v.vehicle_id AND t.phase = 'open')
FROM unnest(%(vehicles)s::text[], %(since_ms)s::bigint[], %(until_ms)s::bigint[])
     AS v (vehicle_id, since_ms, until_ms)
LEFT JOIN LATERAL (SELECT max(began_at) AS began_at FROM odograph.trip_stop s
                   WHERE s.vehicle_id = v.vehicle_id AND s.began_at < to_timestamp(v.since_ms / 1000.0))
     before ON true
LEFT JOIN LATERAL (SELECT min(began_at) AS began_at FROM odograph.trip_stop s
                   WHERE s.vehicle_id = v.vehicle_id AND s.began_at >= to_timestamp(v.until_ms / 1000.0))
     after ON true
ORDER BY v.vehicle_id
"""
_DONE: Final = """
UPDATE odograph.journey_behind SET alerts_at = now(), repaired_at = CASE WHEN %(journeys)s
    THEN coalesce(repaired_at, now()) ELSE repaired_at END
WHERE vehicle_id = %(vehicle)s AND noted_at <= to_timestamp(%(seen_ms)s / 1000.0)
  AND from_time >= to_timestamp(%(since_ms)s / 1000.0) AND to_time <= to_timestamp(%(until_ms)s / 1000.0)
"""


@dataclass(frozen=True, slots=True)
class Work:
    """One vehicle: findings from ``since_ms`` on are compared, journeys of ``task`` restated.

    Read are frames from ``read_from_ms`` to ``read_until_ms``. ``journeys`` False: it is under way, and the
    trip is still the stream's.
    """

    task: Task
    since_ms: int
    until_ms: int
    read_from_ms: int
    read_until_ms: int
    journeys: bool


def of_span(connection: Connection, span: Span, seen_ms: int, lead_ms: int) -> list[Work]:
    """All vehicles that have a window in the span."""
    values = {"from_ms": span.from_ms, "until_ms": span.until_ms, "vehicle": span.vehicle_id}
    return _works(connection, fetch(connection, _SEEN, values), seen_ms, lead_ms)


def of_behind(connection: Connection, seen_ms: int, lead_ms: int) -> list[Work]:
    """Vehicles with frames behind that no rule that lasts has seen in order yet."""
    return _works(connection, fetch(connection, _BEHIND, {"seen_ms": seen_ms}), seen_ms, lead_ms)


def done(connection: Connection, work: Work, seen_ms: int) -> None:
    """Its frames behind have been seen, those noted up to ``seen_ms``."""
    values = {
        "vehicle": work.task.vehicle_id, "seen_ms": seen_ms, "journeys": work.journeys,
        "since_ms": work.since_ms, "until_ms": work.until_ms,
    }  # fmt: skip
    execute(connection, _DONE, values)


def _works(
    connection: Connection, found: Sequence[tuple[str, int, int]], seen_ms: int, lead_ms: int
) -> list[Work]:
    columns = zip(("vehicles", "since_ms", "until_ms"), zip(*found, strict=True), strict=False)
    if not found:
        return []
    rows = fetch(connection, _STOPS, {name: list(values) for name, values in columns})
    return [_work(seen_ms, lead_ms, *row) for row in rows]


def _work(
    seen_ms: int, lead_ms: int, vehicle: str, since_ms: int, until_ms: int, before_ms: int | None,
    after_ms: int | None, under_way: bool,
) -> Work:  # fmt: skip
    from_ms = since_ms - LOOK_BACK_MS if before_ms is None else before_ms
    to_ms = max(until_ms, seen_ms) if after_ms is None else after_ms
    return Work(
        Task(vehicle, from_ms, to_ms, before_ms),
        since_ms,
        until_ms,
        min(from_ms, since_ms - lead_ms),
        to_ms + TAIL_MS,
        after_ms is not None or not under_way,
    )
