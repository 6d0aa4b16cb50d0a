"""What the database knows of roads: five-minute sums, free flow, profile, the network in use; arrival times.

Sums follow the windows as these change. Of arrival times: what is asked for, predicted, and came of it.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final
from zoneinfo import ZoneInfo

import h3
import numpy as np
import structlog

from infra.clients import db
from infra.clients.db import sql_of
from infra.contract.errors import ConfigError
from infra.settings.settings import Settings
from stream_jobs.app import statements as sql
from stream_jobs.app.database import Connection, Database, execute, fetch, insert_row
from stream_jobs.frames.lookup_files import folder_of
from stream_jobs.roads import network, ways

SQL: Final = sql_of(__file__)

PLACES: Final = (
    {"stem": "road_cell", "keys": "cell, heading_sector", "known": "true"},
    {"stem": "road_edge", "keys": "network_no, edge_id", "known": "edge_id >= 0"},
)
"""What traffic is told of, in ``odograph.<stem>_window`` and so on; ``known``: windows that have a place."""
INTERVALS_AT_ONCE: Final = 24
STOPS_AT_ONCE: Final = 10_000
STOP_RESOLUTION: Final = 10
LEAST_AT_ALL: Final = 3  # speeds that even a free flow of all hours needs
RULE: Final = SQL["rule"]

log = structlog.get_logger("stream_jobs.roads")


@dataclass(slots=True)
class RoadHistory:
    """Sums windows by five minutes as they change, and computes free flow and profile anew now and then.

    Free flow and profile wait until every change is summed, so a restart or a backlog computes them once.
    """

    settings: Settings
    database: Database
    _computed_at: float | None = field(default=None, init=False)

    def __call__(self) -> None:
        """Sum what has changed; compute the rest where it is time to."""
        if self._computed_at is None:
            self.database.run(lambda c: execute(c, RULE, rule_of(self.settings)))
        while len(self.database.run(sum_due)) == INTERVALS_AT_ONCE:
            pass
        now = time.monotonic()
        if self._computed_at is None or now - self._computed_at >= self.settings.roads.history_s:
            for statement, values in history(self.settings, None):
                self.database.run(partial(execute, statement=statement, parameters=values))
            self._computed_at = now


def rule_of(settings: Settings) -> dict[str, Any]:
    """What the views know of the settings."""
    known = settings.roads.model_dump(include={"min_vehicles", "small_count", "network"})
    return {"tz": settings.tz, **known}


def sum_due(connection: Connection) -> Sequence[datetime]:
    """Sum the oldest intervals that are marked, in the transaction at hand; their begins."""
    due = fetch(connection, SQL["take_due"], {"limit": INTERVALS_AT_ONCE})
    starts = sorted(row[0] for row in due)
    if starts:
        for place in PLACES:
            execute(connection, SQL["sum"].format(**place), {"starts": starts})
    return starts


def history(settings: Settings, until: datetime | None) -> list[tuple[str, dict[str, Any]]]:
    """Statements that compute free flow and profile of what was before ``until``; None: now."""
    roads = settings.roads
    values = {
        "tz": settings.tz, "days": roads.history_days, "until": until or datetime.now().astimezone(),
        "off_peak": ways.off_peak_hours(roads.off_peak_weekday, roads.off_peak_weekend),
        "least": roads.free_flow_intervals, "least_at_all": LEAST_AT_ALL,
    }  # fmt: skip
    return [(each.format(**place), values) for place in PLACES for each in (SQL["free_flow"], SQL["profile"])]


def place_stops(connection: Connection) -> int:
    """Name the hexagon of each new stop, and of each that has moved, in the transaction at hand; how many."""
    found = fetch(connection, SQL["stops_without_place"], {"limit": STOPS_AT_ONCE})
    cells = [h3.latlng_to_cell(lat, lon, STOP_RESOLUTION) for _, _, lat, lon in found]
    columns = dict(zip(("ids", "begins", "lats", "lons"), zip(*found, strict=True), strict=False))
    if found:
        execute(connection, SQL["place_stops"], {k: list(v) for k, v in columns.items()} | {"cells": cells})
    return len(found)


@dataclass(slots=True)
class NetworkFile:
    """Writes the network in use to its file whenever another one is loaded or chosen."""

    settings: Settings
    database: Database
    _written: tuple[Any, ...] | None = field(default=None, init=False)

    def __call__(self) -> None:
        """Write the file if it is not what the database says."""
        in_use = self.database.run(lambda c: fetch(c, SQL["in_use"]))
        if not in_use or in_use[0] == self._written:
            return
        number, name, _ = in_use[0]
        rows = self.database.run(lambda c: fetch(c, SQL["edges"], {"network": name}))
        network.save(network.network_of(number, rows), folder_of(self.settings) / network.ROADS_FILE)
        self._written = in_use[0]
        log.info("road network in use", network=name, edges=len(rows), file=network.ROADS_FILE)


MIDDLE_S: Final = 150.0  # age of what was seen in the five minutes up to now, in the mean


@dataclass(frozen=True, slots=True)
class Prediction:
    """From a position at ``made_at``: the way, and how long it takes."""

    made_at: datetime
    way: ways.Way

    @property
    def arrival_at(self) -> datetime:
        return self.made_at + timedelta(seconds=self.way.time_s)


class Forecast:
    """What is known of a network's traffic as a source of predictions; read from the database once."""

    def __init__(self, connection: db.Connection, settings: Settings) -> None:
        in_use = fetch(connection, SQL["in_use"])
        if not in_use:
            raise ConfigError(
                "no road network is loaded, and arrival times need one: odograph demo loads its town"
            )
        number, name, _ = in_use[0]
        net = network.network_of(number, fetch(connection, SQL["edges"], {"network": name}))
        self._roads = roads = settings.roads
        self._net, self._after = net, ways.edges_after(net)
        self._far_m, self._zone = roads.match_radius_m * 2, ZoneInfo(settings.tz)
        self._place = {edge: k for k, edge in enumerate(net.edge_id.tolist())}
        usual_kmh = np.full((ways.HOURS_A_WEEK, len(self._place)), np.nan)
        for edge, hour, kmh in fetch(connection, SQL["usual"], {"no": number}):
            if edge in self._place:
                usual_kmh[hour, self._place[edge]] = kmh
        self._usual_kmh = ways.with_fallback(net, usual_kmh, roads.eta_limit_share)

    def predict(self, connection: db.Connection, vehicle_id: str, to: tuple[float, float]) -> Prediction:
        """From where the vehicle was seen last; raises ConfigError where that or the way is not known."""
        found = fetch(connection, SQL["position"], {"vehicle_id": vehicle_id})
        if not found:
            raise ConfigError(f"vehicle {vehicle_id}: no position is known")
        made_at, lat, lon, course = found[0]
        net = self._net
        starts, goals = ways.nearest(net, lat, lon, course), ways.nearest(net, *to)
        if not starts or max(starts[0].off_m, goals[0].off_m) > self._far_m:
            raise ConfigError(f"vehicle {vehicle_id} or its destination is not on the known network")
        rows = fetch(connection, SQL["seen"], {"no": net.number, "now": made_at})
        seen = {self._place[edge]: (kmh, n) for edge, n, kmh in rows if edge in self._place}
        speeds = ways.EdgeSpeeds(net, made_at, self._zone, self._usual_kmh, seen, MIDDLE_S, self._roads)
        # Without a course it may drive either way.
        found_ways = [ways.quickest(net, self._after, start, goals, speeds.time_s) for start in starts]
        way = min(filter(None, found_ways), key=lambda way: way.time_s, default=None)
        if way is None:
            raise ConfigError(f"vehicle {vehicle_id}: no way leads to the destination")
        return Prediction(made_at, way)


def ask_for(
    connection: db.Connection, vehicle_id: str, to: tuple[float, float], prediction: Prediction
) -> int:
    """Store a request with its first prediction; its number."""
    row = {"vehicle_id": vehicle_id, "lat_deg": to[0], "lon_deg": to[1], "asked_at": prediction.made_at}
    number = int(fetch(connection, sql.insert("eta_request", row, "RETURNING request_no"), row)[0][0])
    keep(connection, number, prediction)
    return number


def keep(connection: db.Connection, request_no: int, prediction: Prediction) -> None:
    """Store a prediction; one from the same position is there already."""
    row = {
        "request_no": request_no, "made_at": prediction.made_at, "arrival_at": prediction.arrival_at,
        "distance_m": prediction.way.length_m,
    }  # fmt: skip
    insert_row(connection, "eta_prediction", row, "ON CONFLICT DO NOTHING")


def grade(connection: db.Connection, settings: Settings, now: datetime) -> int:
    """Close the requests of vehicles that have arrived, and those that are too old; how many arrived."""
    roads = settings.roads
    near = {"arrival_m": roads.arrival_m, "trip_end_m": roads.trip_end_m}
    arrived = execute(connection, SQL["arrived"], near)
    execute(connection, SQL["given_up"], {"now": now, "hours": roads.eta_hours})
    return arrived


def predict_open(database: Database, settings: Settings) -> int:
    """A new prediction for each open request, where one can be made; how many are open.

    Transactions of their own: all ways of a busy fleet take longer than one may last.
    """
    waiting = database.run(lambda c: fetch(c, SQL["open"]))
    forecast: Forecast | None = None
    for number, vehicle_id, *to in waiting:
        try:
            forecast = forecast or database.run(partial(Forecast, settings=settings))
            found = database.run(partial(forecast.predict, vehicle_id=vehicle_id, to=(to[0], to[1])))
            database.run(partial(keep, request_no=number, prediction=found))
        except ConfigError as error:
            log.info("no arrival time for now", request=number, reason=str(error))
    return len(waiting)


def predict_arrivals(database: Database, settings: Settings) -> None:
    """Predict arrival times anew while vehicles are under way, and close requests when they are there.

    The grade first, so that nobody is predicted who has arrived.
    """
    database.run(lambda c: grade(c, settings, datetime.now().astimezone()))
    predict_open(database, settings)
