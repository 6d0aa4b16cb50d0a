"""Queries about trips: lists, one trip with its path, and what happened on it."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Final

from dashboard.db import query

TRIP_LIMIT: Final = 500

_WANTED: Final = """
    FROM serving.trip
    WHERE (%(day)s::date IS NOT NULL OR started_at > now() - make_interval(hours => %(hours)s))
    AND (%(day)s::date IS NULL OR (started_at >= %(day)s::date::timestamp AT TIME ZONE %(tz)s
                                   AND started_at < (%(day)s::date + 1)::timestamp AT TIME ZONE %(tz)s))
    AND (%(vehicles)s::text[] IS NULL OR vehicle_id = ANY(%(vehicles)s::text[]))
    AND (NOT %(harsh)s OR harsh_brake + harsh_accelerate + harsh_corner > 0)
"""


@query(f"SELECT * {_WANTED} ORDER BY started_at DESC, vehicle_id LIMIT 500")
def trips(vehicles: Sequence[str] | None, hours: int, day: date | None, tz: str, harsh: bool) -> None:
    """Trips begun within ``hours``, or on a local ``day``, newest first; ``harsh``: with such an event."""


@query(f"""
    SELECT count(*) AS trips, count(DISTINCT vehicle_id) AS vehicles, sum(distance_m) / 1000 AS distance_km,
           sum(duration_s) AS duration_s, sum(idle_s) / nullif(sum(duration_s), 0) * 100 AS idle_pct,
           sum(fuel_l) / nullif(sum(distance_m) FILTER (WHERE fuel_l > 0), 0) * 100000 AS fuel_l_per_100km,
           sum(energy_kwh) FILTER (WHERE powertrain = 'electric') * 100000
               / nullif(sum(distance_m) FILTER (WHERE powertrain = 'electric' AND energy_kwh IS NOT NULL), 0)
               AS energy_kwh_per_100km,
           sum(harsh_brake + harsh_accelerate + harsh_corner) AS harsh_events,
           sum(harsh_brake + harsh_accelerate + harsh_corner) / nullif(sum(distance_m), 0) * 100000
               AS harsh_per_100km
    {_WANTED}
""")
def trip_sums(vehicles: Sequence[str] | None, hours: int, day: date | None, tz: str, harsh: bool) -> None:
    """One row: all trips that ``trips`` is about; fuel over the distance of the trips that burnt fuel."""


@query("SELECT * FROM serving.trip WHERE trip_id = %(trip_id)s LIMIT 1")
def trip(trip_id: str) -> None:
    """One trip: one row or none."""


@query("""
    SELECT window_start, window_end, lat_deg, lon_deg, heading_deg, speed_mean_kmh, speed_max_kmh,
           speed_limit_kmh, moving_s
    FROM (SELECT *, row_number() OVER (ORDER BY window_start) AS place,
                 ceil(count(*) OVER () / 5000::double precision)::integer AS every
          FROM serving.vehicle_window
          WHERE vehicle_id = %(vehicle_id)s
            AND window_start >= %(start)s::timestamptz - INTERVAL '5 minutes' AND window_start < %(end)s
            AND window_end > %(start)s) w
    WHERE place %% every = 0
    ORDER BY window_start
""")
def trip_points(vehicle_id: str, start: datetime, end: datetime) -> None:
    """Windows of a vehicle that overlap a time; over 5,000 of them every n-th is kept."""


@query("""
    SELECT place, free_flow_kmh, speed_ratio, congestion
    FROM serving.speed_ratio(%(cells)s::text[], %(sectors)s::smallint[], %(speeds_kmh)s::double precision[])
""")
def speed_ratio(cells: list[str], sectors: list[int], speeds_kmh: list[float | None]) -> None:
    """Each speed over the free flow of its cell and direction, in order: ratio, band, free flow."""


@query("""
    SELECT * FROM serving.harsh_event
    WHERE vehicle_id = %(vehicle_id)s AND began_at BETWEEN %(start)s AND %(end)s ORDER BY began_at LIMIT 200
""")
def harsh_events(vehicle_id: str, start: datetime, end: datetime) -> None:
    """Harsh events of a vehicle begun within a time."""


@query("""
    SELECT * FROM serving.idle_episode
    WHERE vehicle_id = %(vehicle_id)s AND began_at BETWEEN %(start)s AND %(end)s ORDER BY began_at LIMIT 200
""")
def idle_episodes(vehicle_id: str, start: datetime, end: datetime) -> None:
    """Idling of a vehicle begun within a time."""


@query("""
    SELECT began_at, ended_at, extract(epoch FROM dwell)::double precision AS dwell_s FROM serving.trip_stop
    WHERE vehicle_id = %(vehicle_id)s AND began_at <= %(end)s::timestamptz + INTERVAL '1 second'
      AND (ended_at IS NULL OR ended_at >= %(start)s::timestamptz - INTERVAL '1 second')
    ORDER BY began_at LIMIT 200
""")
def stops_around(vehicle_id: str, start: datetime, end: datetime) -> None:
    """Stops before, within and after a trip: those that touch its time."""


@query("""
    SELECT rule, severity, message, opened_at, lat_deg, lon_deg FROM serving.alert_life
    WHERE vehicle_id = %(vehicle_id)s AND opened_at BETWEEN %(start)s AND %(end)s
    ORDER BY opened_at LIMIT 200
""")
def trip_alerts(vehicle_id: str, start: datetime, end: datetime) -> None:
    """Alerts of a vehicle that were raised within a time."""
