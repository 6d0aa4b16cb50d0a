"""Questions about trips: lists, one trip with its way, and what happened on it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, Final, LiteralString

import pandas as pd

from dashboard.queries import Connection, frame

TRIP_LIMIT: Final = 500
POINT_LIMIT: Final = 5_000
MARK_LIMIT: Final = 200

_WANTED: Final = """
    (%(day)s::date IS NOT NULL OR started_at > now() - make_interval(hours => %(hours)s))
    AND (%(day)s::date IS NULL OR (started_at >= %(day)s::date::timestamp AT TIME ZONE %(tz)s
                                   AND started_at < (%(day)s::date + 1)::timestamp AT TIME ZONE %(tz)s))
    AND (%(vehicles)s::text[] IS NULL OR vehicle_id = ANY(%(vehicles)s::text[]))
    AND (NOT %(harsh)s OR harsh_brake + harsh_accelerate + harsh_corner > 0)
"""
_TRIPS: Final = f"""
    SELECT * FROM serving.trip WHERE {_WANTED} ORDER BY started_at DESC, vehicle_id LIMIT %(limit)s
"""  # noqa: S608  our own words only
_SUMS: Final = f"""
    SELECT count(*) AS trips, count(DISTINCT vehicle_id) AS vehicles, sum(distance_m) / 1000 AS distance_km,
           sum(duration_s) AS duration_s, sum(idle_s) / nullif(sum(duration_s), 0) * 100 AS idle_pct,
           sum(fuel_l) / nullif(sum(distance_m) FILTER (WHERE fuel_l > 0), 0) * 100000 AS fuel_l_per_100km,
           sum(energy_kwh) FILTER (WHERE powertrain = 'electric') * 100000
               / nullif(sum(distance_m) FILTER (WHERE powertrain = 'electric' AND energy_kwh IS NOT NULL), 0)
               AS energy_kwh_per_100km,
           sum(harsh_brake + harsh_accelerate + harsh_corner) AS harsh_events,
           sum(harsh_brake + harsh_accelerate + harsh_corner) / nullif(sum(distance_m), 0) * 100000
               AS harsh_per_100km
    FROM serving.trip WHERE {_WANTED}
"""  # noqa: S608  our own words only


def trips(
    connection: Connection, vehicles: Sequence[str] | None, hours: int, day: date | None, tz: str, harsh: bool
) -> pd.DataFrame:
    """Trips begun within the last ``hours``, or on a local ``day``, newest first; at most TRIP_LIMIT rows.

    ``harsh``: only those with a harsh event.
    """
    return frame(connection, _TRIPS, **_wanted(vehicles, hours, day, tz, harsh), limit=TRIP_LIMIT)


def trip_sums(
    connection: Connection, vehicles: Sequence[str] | None, hours: int, day: date | None, tz: str, harsh: bool
) -> pd.DataFrame:
    """One row: all trips that ``trips`` is about, not the first of them only.

    ``fuel_l_per_100km`` over the distance of the trips that burnt fuel.
    """
    return frame(connection, _SUMS, **_wanted(vehicles, hours, day, tz, harsh))


def _wanted(
    vehicles: Sequence[str] | None, hours: int, day: date | None, tz: str, harsh: bool
) -> dict[str, Any]:
    """The parameters of _WANTED."""
    listed = None if vehicles is None else list(vehicles)
    return {"vehicles": listed, "hours": hours, "day": day, "tz": tz, "harsh": harsh}


def trip(connection: Connection, trip_id: str) -> pd.DataFrame:
    """One trip: one row or none."""
    return frame(
        connection, "SELECT * FROM serving.trip WHERE trip_id = %(trip_id)s LIMIT 1", trip_id=trip_id
    )


def trip_points(connection: Connection, vehicle_id: str, start: datetime, end: datetime) -> pd.DataFrame:
    """Windows of a vehicle that overlap a time, with its place at the end of each; at most POINT_LIMIT rows.

    Over POINT_LIMIT windows every n-th is kept.
    """
    return frame(
        connection,
        """
        SELECT window_start, window_end, lat_deg, lon_deg, heading_deg, speed_mean_kmh, speed_max_kmh,
               speed_limit_kmh, moving_s
        FROM (SELECT *, row_number() OVER (ORDER BY window_start) AS place,
                     ceil(count(*) OVER () / %(limit)s::double precision)::integer AS every
              FROM serving.vehicle_window
              WHERE vehicle_id = %(vehicle_id)s
                AND window_start >= %(start)s::timestamptz - INTERVAL '5 minutes' AND window_start < %(end)s
                AND window_end > %(start)s) w
        WHERE place %% every = 0
        ORDER BY window_start
        """,
        vehicle_id=vehicle_id,
        start=start,
        end=end,
        limit=POINT_LIMIT,
    )


def speed_ratio(
    connection: Connection, cells: Sequence[str], sectors: Sequence[int], speeds_kmh: Sequence[float | None]
) -> pd.DataFrame:
    """Each speed over the free flow of its cell and direction, in order: ratio, band, free flow."""
    return frame(
        connection,
        """
        SELECT place, free_flow_kmh, speed_ratio, congestion
        FROM serving.speed_ratio(%(cells)s::text[], %(sectors)s::smallint[], %(speeds)s::double precision[])
        """,
        cells=list(cells),
        sectors=list(sectors),
        speeds=list(speeds_kmh),
    )


def harsh_events(connection: Connection, vehicle_id: str, start: datetime, end: datetime) -> pd.DataFrame:
    """Harsh events of a vehicle begun within a time; at most MARK_LIMIT rows."""
    return _during(connection, _HARSH, vehicle_id, start, end)


def idle_episodes(connection: Connection, vehicle_id: str, start: datetime, end: datetime) -> pd.DataFrame:
    """Idling of a vehicle begun within a time; at most MARK_LIMIT rows."""
    return _during(connection, _IDLE, vehicle_id, start, end)


def stops_around(connection: Connection, vehicle_id: str, start: datetime, end: datetime) -> pd.DataFrame:
    """Stops before, within and after a trip: those that touch its time; at most MARK_LIMIT rows."""
    return _during(connection, _STOPS, vehicle_id, start, end)


def trip_alerts(connection: Connection, vehicle_id: str, start: datetime, end: datetime) -> pd.DataFrame:
    """Alerts of a vehicle that were raised within a time; at most MARK_LIMIT rows."""
    return _during(connection, _ALERTS, vehicle_id, start, end)


_HARSH: Final = """
    SELECT began_at, kind, grade, peak_g, limit_g, speed_kmh, duration_ms, lat_deg, lon_deg
    FROM serving.harsh_event
    WHERE vehicle_id = %(vehicle_id)s AND began_at >= %(start)s AND began_at <= %(end)s
    ORDER BY began_at LIMIT %(limit)s
"""
_IDLE: Final = """
    SELECT began_at, ended_at, duration_s, fuel_l, energy_kwh, lat_deg, lon_deg FROM serving.idle_episode
    WHERE vehicle_id = %(vehicle_id)s AND began_at >= %(start)s AND began_at <= %(end)s
    ORDER BY began_at LIMIT %(limit)s
"""
_STOPS: Final = """
    SELECT began_at, ended_at, extract(epoch FROM dwell)::double precision AS dwell_s, lat_deg, lon_deg
    FROM serving.trip_stop
    WHERE vehicle_id = %(vehicle_id)s AND began_at <= %(end)s::timestamptz + INTERVAL '1 second'
      AND (ended_at IS NULL OR ended_at >= %(start)s::timestamptz - INTERVAL '1 second')
    ORDER BY began_at LIMIT %(limit)s
"""
_ALERTS: Final = """
    SELECT alert_no, rule, severity, message, opened_at, cleared_at, active, acknowledged_by, value,
           worst_value, limit_value, lat_deg, lon_deg
    FROM serving.alert_life
    WHERE vehicle_id = %(vehicle_id)s AND opened_at >= %(start)s AND opened_at <= %(end)s
    ORDER BY opened_at LIMIT %(limit)s
"""


def _during(
    connection: Connection, sql: LiteralString, vehicle_id: str, start: datetime, end: datetime
) -> pd.DataFrame:
    return frame(connection, sql, vehicle_id=vehicle_id, start=start, end=end, limit=MARK_LIMIT)
