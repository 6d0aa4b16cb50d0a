"""Keeps what is derived from windows of roads up to date, and the file with the network in use."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import h3
import structlog

from infra.settings.settings import Settings
from stream_jobs.app.database import Connection, Database, execute, fetch
from stream_jobs.roads import eta_store, network
from stream_jobs.roads import history_sql as sql
from stream_jobs.roads.speeds import off_peak_hours

INTERVALS_AT_ONCE: Final = 24
STOPS_AT_ONCE: Final = 10_000
STOP_RESOLUTION: Final = 10
LEAST_AT_ALL: Final = 3
"""Speeds that even a free flow of all hours needs."""

log = structlog.get_logger("stream_jobs.roads")


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
            self._database.run(lambda c: execute(c, sql.RULE, rule_of(self._settings)))
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
    roads = settings.roads
    return {
        "tz": settings.tz,
        "min_vehicles": roads.min_vehicles,
        "small_count": roads.small_count,
        "network": roads.network,
    }


def sum_due(connection: Connection) -> Sequence[datetime]:
    """Sum the oldest intervals that are marked, in the transaction at hand; their begins."""
    due = fetch(connection, sql.TAKE_DUE, {"limit": INTERVALS_AT_ONCE})
    starts = sorted(row[0] for row in due)
    if starts:
        for place in sql.PLACES:
            execute(connection, sql.sum_intervals(place), {"starts": starts})
    return starts


def history(settings: Settings, until: datetime | None) -> list[tuple[str, dict[str, Any]]]:
    """Statements that compute free flow and profile of what was before ``until``; None: now."""
    roads = settings.roads
    values = {
        "tz": settings.tz, "days": roads.history_days, "until": until or datetime.now().astimezone(),
        "off_peak": off_peak_hours(roads.off_peak_weekday, roads.off_peak_weekend),
        "least": roads.free_flow_intervals, "least_at_all": LEAST_AT_ALL,
    }  # fmt: skip
    return [(make(place), values) for place in sql.PLACES for make in (sql.free_flow, sql.profile)]


def predict_arrivals(database: Database, settings: Settings) -> None:
    """Predict arrival times anew while vehicles are under way, and close requests when they are there.

    The grade first, so that nobody is predicted who has arrived.
    """
    now = datetime.now().astimezone()
    database.run(lambda c: eta_store.grade(c, settings, now))
    database.run(lambda c: eta_store.predict_open(c, settings))


def place_stops(connection: Connection) -> int:
    """Name the hexagon of each new stop, and of each that has moved, in the transaction at hand; how many."""
    found = fetch(connection, sql.STOPS_WITHOUT_PLACE, {"limit": STOPS_AT_ONCE})
    cells = [h3.latlng_to_cell(lat, lon, STOP_RESOLUTION) for _, _, lat, lon in found]
    columns = dict(zip(("ids", "begins", "lats", "lons"), zip(*found, strict=True), strict=False))
    if found:
        execute(connection, sql.PLACE_STOPS, {k: list(v) for k, v in columns.items()} | {"cells": cells})
    return len(found)


class NetworkFile:
    """Writes the network in use to its file whenever another one is loaded or chosen."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._path = network.place_of(settings.paths.home)
        self._database = database
        self._written: tuple[Any, ...] | None = None

    def __call__(self) -> None:
        """Write the file if it is not what the database says."""
        in_use = self._database.run(lambda c: fetch(c, sql.IN_USE))
        if not in_use or in_use[0] == self._written:
            return
        number, name, _ = in_use[0]
        rows = self._database.run(lambda c: fetch(c, sql.EDGES, {"network": name}))
        network.save(network.network_of(number, rows), self._path)
        self._written = in_use[0]
        log.info("road network in use", network=name, edges=len(rows), file=str(Path(self._path).name))
