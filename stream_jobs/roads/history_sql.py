"""SQL of the roads' history: five-minute sums, free flow, profile by hour of week; the network in use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

INTERVAL: Final = "INTERVAL '5 minutes'"
EPOCH: Final = "TIMESTAMPTZ '2000-01-01 00:00:00+00'"


@dataclass(frozen=True, slots=True)
class Place:
    """What traffic is told of: its tables are ``odograph.<stem>_window`` and so on, keyed by ``keys``."""

    stem: str
    keys: tuple[str, ...]
    known: str = "true"
    """Which windows belong to a place at all."""


PLACES: Final = (
    Place("road_cell", ("cell", "heading_sector")),
    Place("road_edge", ("network_no", "edge_id"), "edge_id >= 0"),
)

TAKE_DUE: Final = """
DELETE FROM odograph.road_interval_due WHERE interval_start IN
    (SELECT interval_start FROM odograph.road_interval_due ORDER BY interval_start LIMIT %(limit)s FOR UPDATE)
RETURNING interval_start
"""
"""Marks taken wait for a writer that has them, and writers wait for these: no change goes unseen."""

RULE: Final = """
UPDATE odograph.road_rule SET tz = %(tz)s, min_vehicles = %(min_vehicles)s, small_count = %(small_count)s,
    network = %(network)s
"""

IN_USE: Final = """
SELECT n.network_no, n.network, n.loaded_at FROM odograph.road_network n
WHERE n.network_no = odograph.road_network_in_use()
"""
EDGES: Final = """
SELECT edge_id, road_class, speed_limit_kmh, length_m, path FROM odograph.road_edge
WHERE network = %(network)s
"""


STOPS_WITHOUT_PLACE: Final = """
SELECT s.vehicle_id, s.began_at, s.lat_deg, s.lon_deg
FROM odograph.trip_stop s LEFT JOIN odograph.stop_place p USING (vehicle_id, began_at)
WHERE s.lat_deg IS NOT NULL AND s.lon_deg IS NOT NULL
  AND (p.lat_deg, p.lon_deg) IS DISTINCT FROM (s.lat_deg, s.lon_deg) LIMIT %(limit)s
"""
PLACE_STOPS: Final = """
INSERT INTO odograph.stop_place (vehicle_id, began_at, lat_deg, lon_deg, h3_r10)
SELECT * FROM unnest(%(ids)s::text[], %(begins)s::timestamptz[], %(lats)s::float8[], %(lons)s::float8[],
                     %(cells)s::text[])
ON CONFLICT (vehicle_id, began_at) DO UPDATE SET lat_deg = excluded.lat_deg, lon_deg = excluded.lon_deg,
    h3_r10 = excluded.h3_r10
"""


def mark(staged: str) -> str:
    """Mark the five minutes that staged windows lie in; a mark that is there is locked all the same."""
    return (
        "INSERT INTO odograph.road_interval_due (interval_start) "  # noqa: S608  names of this package
        f"SELECT DISTINCT date_bin({INTERVAL}, window_start, {EPOCH}) FROM {staged} ORDER BY 1 "
        "ON CONFLICT (interval_start) DO UPDATE SET marked_at = now()"
    )


def sum_intervals(place: Place) -> str:
    """Sums of the windows in the intervals that begin at ``starts``."""
    keys = ", ".join(place.keys)
    return f"""
        INSERT INTO odograph.{place.stem}_interval ({keys}, interval_start, vehicles, distance_m, time_s)
        SELECT {keys}, s.start, greatest(max(vehicles), bit_count(bit_or(vehicle_bits)::bit(64))),
               sum(distance_m), sum(time_s)
        FROM unnest(%(starts)s::timestamptz[]) AS s (start) JOIN odograph.{place.stem}_window w
          ON w.window_start >= s.start AND w.window_start < s.start + {INTERVAL} AND {place.known}
        GROUP BY {keys}, s.start ORDER BY {keys}, s.start
        ON CONFLICT ({keys}, interval_start) DO UPDATE SET vehicles = excluded.vehicles,
            distance_m = excluded.distance_m, time_s = excluded.time_s
    """  # noqa: S608  names of this package


def free_flow(place: Place) -> str:
    """The 85th percentile of speeds in ``off_peak`` hours of the week; of all hours where these are few."""
    keys = ", ".join(place.keys)
    return f"""
        INSERT INTO odograph.{place.stem}_baseline ({keys}, free_flow_kmh, windows, off_peak, updated_at)
        SELECT {keys}, CASE WHEN off_count >= %(least)s THEN off_kmh ELSE all_kmh END,
               CASE WHEN off_count >= %(least)s THEN off_count ELSE all_count END,
               off_count >= %(least)s, now()
        FROM (SELECT {keys}, count(*) FILTER (WHERE off_peak) AS off_count, count(*) AS all_count,
                     percentile_cont(0.85) WITHIN GROUP (ORDER BY kmh) FILTER (WHERE off_peak) AS off_kmh,
                     percentile_cont(0.85) WITHIN GROUP (ORDER BY kmh) AS all_kmh
              FROM (SELECT {keys}, distance_m / time_s * 3.6 AS kmh, odograph.hour_of_week(
                               interval_start, %(tz)s) = ANY(%(off_peak)s::smallint[]) AS off_peak
                    FROM odograph.{place.stem}_interval
                    WHERE interval_start >= %(until)s - %(days)s * INTERVAL '1 day'
                      AND interval_start < %(until)s AND time_s > 0) i
              GROUP BY {keys}) b
        WHERE all_count >= %(least_at_all)s ORDER BY {keys}
        ON CONFLICT ({keys}) DO UPDATE SET free_flow_kmh = excluded.free_flow_kmh, windows = excluded.windows,
            off_peak = excluded.off_peak, updated_at = excluded.updated_at
    """  # noqa: S608  names of this package


def profile(place: Place) -> str:
    """Space-mean speed by hour of the week."""
    keys = ", ".join(place.keys)
    return f"""
        INSERT INTO odograph.{place.stem}_profile ({keys}, hour_of_week, intervals, speed_kmh)
        SELECT {keys}, odograph.hour_of_week(interval_start, %(tz)s) AS hour_of_week, count(*),
               sum(distance_m) / sum(time_s) * 3.6
        FROM odograph.{place.stem}_interval
        WHERE interval_start >= %(until)s - %(days)s * INTERVAL '1 day' AND interval_start < %(until)s
        GROUP BY {keys}, hour_of_week HAVING sum(time_s) > 0 ORDER BY {keys}, hour_of_week
        ON CONFLICT (hour_of_week, {keys}) DO UPDATE SET intervals = excluded.intervals,
            speed_kmh = excluded.speed_kmh
    """  # noqa: S608  names of this package
