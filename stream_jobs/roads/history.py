"""History of the roads, kept as windows change: five-minute sums, free flow, profile; the network in use."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

import h3
import structlog

from infra.settings.settings import Settings
from stream_jobs.app.database import Connection, Database, execute, fetch
from stream_jobs.frames.lookup_files import folder_of
from stream_jobs.roads import eta_store, network
from stream_jobs.roads.ways import off_peak_hours

PLACES: Final = (
    {"stem": "road_cell", "keys": "cell, heading_sector", "known": "true"},
    {"stem": "road_edge", "keys": "network_no, edge_id", "known": "edge_id >= 0"},
)
"""What traffic is told of: tables are ``odograph.<stem>_window`` and so on; ``known``: windows that belong to
a place at all.
"""
INTERVALS_AT_ONCE: Final = 24
EPOCH: Final = "TIMESTAMPTZ '2000-01-01 00:00:00+00'"
STOPS_AT_ONCE: Final = 10_000
STOP_RESOLUTION: Final = 10
LEAST_AT_ALL: Final = 3
"""Speeds that even a free flow of all hours needs."""

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


log = structlog.get_logger("stream_jobs.roads")


def mark(staged: str) -> str:
    """Mark the five minutes that staged windows lie in; a mark that is there is locked all the same."""
    return (
        "INSERT INTO odograph.road_interval_due (interval_start) "  # noqa: S608  names of this package
        f"SELECT DISTINCT date_bin(INTERVAL '5 minutes', window_start, {EPOCH}) FROM {staged} ORDER BY 1 "
        "ON CONFLICT (interval_start) DO UPDATE SET marked_at = now()"
    )


SUM: Final = """
INSERT INTO odograph.{stem}_interval ({keys}, interval_start, vehicles, distance_m, time_s)
SELECT {keys}, s.start, greatest(max(vehicles), bit_count(bit_or(vehicle_bits)::bit(64))),
       sum(distance_m), sum(time_s)
FROM unnest(%(starts)s::timestamptz[]) AS s (start) JOIN odograph.{stem}_window w
  ON w.window_start >= s.start AND w.window_start < s.start + INTERVAL '5 minutes' AND {known}
GROUP BY {keys}, s.start ORDER BY {keys}, s.start
ON CONFLICT ({keys}, interval_start) DO UPDATE SET vehicles = excluded.vehicles,
    distance_m = excluded.distance_m, time_s = excluded.time_s
"""
"""Sums of the windows in the intervals that begin at ``starts``."""
FREE_FLOW: Final = """
INSERT INTO odograph.{stem}_baseline ({keys}, free_flow_kmh, windows, off_peak, updated_at)
SELECT {keys}, CASE WHEN off_count >= %(least)s THEN off_kmh ELSE all_kmh END,
       CASE WHEN off_count >= %(least)s THEN off_count ELSE all_count END,
       off_count >= %(least)s, now()
FROM (SELECT {keys}, count(*) FILTER (WHERE off_peak) AS off_count, count(*) AS all_count,
             percentile_cont(0.85) WITHIN GROUP (ORDER BY kmh) FILTER (WHERE off_peak) AS off_kmh,
             percentile_cont(0.85) WITHIN GROUP (ORDER BY kmh) AS all_kmh
      FROM (SELECT {keys}, distance_m / time_s * 3.6 AS kmh, odograph.hour_of_week(
                       interval_start, %(tz)s) = ANY(%(off_peak)s::smallint[]) AS off_peak
            FROM odograph.{stem}_interval
            WHERE interval_start >= %(until)s - %(days)s * INTERVAL '1 day'
              AND interval_start < %(until)s AND time_s > 0) i
      GROUP BY {keys}) b
WHERE all_count >= %(least_at_all)s ORDER BY {keys}
ON CONFLICT ({keys}) DO UPDATE SET free_flow_kmh = excluded.free_flow_kmh, windows = excluded.windows,
    off_peak = excluded.off_peak, updated_at = excluded.updated_at
"""
"""The 85th percentile of speeds in ``off_peak`` hours of the week; of all hours where these are few."""
PROFILE: Final = """
INSERT INTO odograph.{stem}_profile ({keys}, hour_of_week, intervals, speed_kmh)
SELECT {keys}, odograph.hour_of_week(interval_start, %(tz)s) AS hour_of_week, count(*),
       sum(distance_m) / sum(time_s) * 3.6
FROM odograph.{stem}_interval
WHERE interval_start >= %(until)s - %(days)s * INTERVAL '1 day' AND interval_start < %(until)s
GROUP BY {keys}, hour_of_week HAVING sum(time_s) > 0 ORDER BY {keys}, hour_of_week
ON CONFLICT (hour_of_week, {keys}) DO UPDATE SET intervals = excluded.intervals,
    speed_kmh = excluded.speed_kmh
"""
"""Space-mean speed by hour of the week."""


class RoadHistory:
    """Sums windows by five minutes as they change, and computes free flow and profile anew now and then.

    Free flow and profile wait until every change is summed, so a restart or a backlog computes them once.
    """

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._database = database
        self._computed_at: float | None = None
        self._told = False

    def __call__(self) -> None:
        """Sum what has changed; compute the rest where it is time to."""
        if not self._told:
            self._database.run(lambda c: execute(c, RULE, rule_of(self._settings)))
            self._told = True
        while len(self._database.run(sum_due)) == INTERVALS_AT_ONCE:
            pass
        now = time.monotonic()
        if self._computed_at is None or now - self._computed_at >= self._settings.roads.history_s:
            self._computed_at = now
            for statement, values in history(self._settings, None):
                self._database.run(partial(execute, statement=statement, parameters=values))


def rule_of(settings: Settings) -> dict[str, Any]:
    """What the views know of the settings."""
    known = settings.roads.model_dump(include={"min_vehicles", "small_count", "network"})
    return {"tz": settings.tz, **known}


def sum_due(connection: Connection) -> Sequence[datetime]:
    """Sum the oldest intervals that are marked, in the transaction at hand; their begins."""
    due = fetch(connection, TAKE_DUE, {"limit": INTERVALS_AT_ONCE})
    starts = sorted(row[0] for row in due)
    if starts:
        for place in PLACES:
            execute(connection, SUM.format(**place), {"starts": starts})
    return starts


def history(settings: Settings, until: datetime | None) -> list[tuple[str, dict[str, Any]]]:
    """Statements that compute free flow and profile of what was before ``until``; None: now."""
    roads = settings.roads
    values = {
        "tz": settings.tz, "days": roads.history_days, "until": until or datetime.now().astimezone(),
        "off_peak": off_peak_hours(roads.off_peak_weekday, roads.off_peak_weekend),
        "least": roads.free_flow_intervals, "least_at_all": LEAST_AT_ALL,
    }  # fmt: skip
    return [(sql.format(**place), values) for place in PLACES for sql in (FREE_FLOW, PROFILE)]


def predict_arrivals(database: Database, settings: Settings) -> None:
    """Predict arrival times anew while vehicles are under way, and close requests when they are there.

    The grade first, so that nobody is predicted who has arrived.
    """
    now = datetime.now().astimezone()
    database.run(lambda c: eta_store.grade(c, settings, now))
    database.run(lambda c: eta_store.predict_open(c, settings))


def place_stops(connection: Connection) -> int:
    """Name the hexagon of each new stop, and of each that has moved, in the transaction at hand; how many."""
    found = fetch(connection, STOPS_WITHOUT_PLACE, {"limit": STOPS_AT_ONCE})
    cells = [h3.latlng_to_cell(lat, lon, STOP_RESOLUTION) for _, _, lat, lon in found]
    columns = dict(zip(("ids", "begins", "lats", "lons"), zip(*found, strict=True), strict=False))
    if found:
        execute(connection, PLACE_STOPS, {k: list(v) for k, v in columns.items()} | {"cells": cells})
    return len(found)


class NetworkFile:
    """Writes the network in use to its file whenever another one is loaded or chosen."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._path = folder_of(settings) / network.ROADS_FILE
        self._database = database
        self._written: tuple[Any, ...] | None = None

    def __call__(self) -> None:
        """Write the file if it is not what the database says."""
        in_use = self._database.run(lambda c: fetch(c, network.IN_USE))
        if not in_use or in_use[0] == self._written:
            return
        number, name, _ = in_use[0]
        rows = self._database.run(lambda c: fetch(c, network.EDGES, {"network": name}))
        network.save(network.network_of(number, rows), self._path)
        self._written = in_use[0]
        log.info("road network in use", network=name, edges=len(rows), file=self._path.name)
