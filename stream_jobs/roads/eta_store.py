"""Arrival times in the database: what is asked for, predicted, and what came of it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

import numpy as np
import structlog

from infra.clients.db import Connection
from infra.contract.errors import ConfigError
from infra.settings.settings import Settings
from stream_jobs.app import statements as sql
from stream_jobs.app.database import execute, fetch, insert_row
from stream_jobs.frames.arrays import Floats
from stream_jobs.roads import network
from stream_jobs.roads.ways import EdgeSpeeds, Way, Ways, fallback, nearest, quickest, ways_of

log = structlog.get_logger("stream_jobs.roads")

MIDDLE_S: Final = 150.0
"""Age of what was seen in the five minutes up to now, in the mean."""

_USUAL: Final = (
    "SELECT edge_id, hour_of_week, speed_kmh FROM odograph.road_edge_profile WHERE network_no = %(no)s"
)
_SEEN: Final = """
SELECT edge_id, greatest(max(vehicles), bit_count(bit_or(vehicle_bits)::bit(64)))::integer,
       sum(distance_m) / sum(time_s) * 3.6
FROM odograph.road_edge_window
WHERE network_no = %(no)s AND edge_id >= 0
  AND window_start > %(now)s - INTERVAL '5 minutes' AND window_start <= %(now)s
GROUP BY edge_id HAVING sum(time_s) > 0
"""
_POSITION: Final = """
SELECT event_time, lat_deg, lon_deg, heading_deg FROM odograph.vehicle_latest
WHERE vehicle_id = %(vehicle_id)s AND lat_deg IS NOT NULL AND lon_deg IS NOT NULL
"""
_ASK: Final = sql.insert(
    "eta_request", ("vehicle_id", "lat_deg", "lon_deg", "asked_at"), "RETURNING request_no"
)
_OPEN: Final = (
    "SELECT request_no, vehicle_id, lat_deg, lon_deg FROM odograph.eta_request WHERE outcome IS NULL"
)
_ARRIVED: Final = """
UPDATE odograph.eta_request q SET outcome = 'arrived', arrived_at = a.at
FROM (SELECT request_no, min(at) AS at FROM (
        SELECT o.request_no, w.last_event AS at FROM odograph.eta_request o JOIN odograph.vehicle_window w
          ON w.vehicle_id = o.vehicle_id AND w.window_start > o.asked_at - INTERVAL '10 minutes'
         AND w.last_event > o.asked_at
        WHERE o.outcome IS NULL
          AND odograph.metres_between(w.lat_deg, w.lon_deg, o.lat_deg, o.lon_deg) <= %(arrival_m)s
        UNION ALL
        SELECT o.request_no, t.ended_at FROM odograph.eta_request o JOIN odograph.trip t
          ON t.vehicle_id = o.vehicle_id AND t.ended_at > o.asked_at AND t.phase <> 'open'
        WHERE o.outcome IS NULL
          AND odograph.metres_between(t.end_lat_deg, t.end_lon_deg, o.lat_deg, o.lon_deg) <= %(trip_end_m)s
      ) seen GROUP BY request_no) a
WHERE q.request_no = a.request_no
"""
_GIVEN_UP: Final = """
UPDATE odograph.eta_request SET outcome = 'given up'
WHERE outcome IS NULL AND asked_at < %(now)s - %(hours)s * INTERVAL '1 hour'
"""


@dataclass(frozen=True, slots=True)
class Ask:
    """A vehicle and where it is going to."""

    vehicle_id: str
    lat_deg: float
    lon_deg: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """From a position at ``made_at``: the way, and how long it takes."""

    made_at: datetime
    way: Way

    @property
    def arrival_at(self) -> datetime:
        """When the vehicle will be there."""
        return self.made_at + timedelta(seconds=self.way.time_s)


class Forecast:
    """What is known of a network's traffic as a source of predictions; read from the database once."""

    def __init__(self, connection: Connection, settings: Settings) -> None:
        in_use = fetch(connection, network.IN_USE)
        if not in_use:
            raise ConfigError(
                "no road network is loaded, and arrival times need one: odograph demo loads its town"
            )
        number, name, _ = in_use[0]
        net = network.network_of(number, fetch(connection, network.EDGES, {"network": name}))
        self._roads = roads = settings.roads
        self._ways: Ways = ways_of(net)
        self._far_m, self._zone = roads.match_radius_m * 2, ZoneInfo(settings.tz)
        self._place = {edge: k for k, edge in enumerate(net.edge_id.tolist())}
        usual: dict[int, Floats] = defaultdict(lambda: np.full(len(self._place), np.nan))
        for edge, hour, kmh in fetch(connection, _USUAL, {"no": number}):
            if edge in self._place:
                usual[hour][self._place[edge]] = kmh
        self._usual = dict(usual)
        self._fallback = fallback(net, self._usual, roads.eta_limit_share)

    def predict(self, connection: Connection, ask: Ask) -> Prediction:
        """From where the vehicle was seen last; raises ConfigError where that or the way is not known."""
        found = fetch(connection, _POSITION, {"vehicle_id": ask.vehicle_id})
        if not found:
            raise ConfigError(f"vehicle {ask.vehicle_id}: no position is known")
        made_at, lat, lon, course = found[0]
        net = self._ways.net
        starts, goals = nearest(net, lat, lon, course), nearest(net, ask.lat_deg, ask.lon_deg)
        if not starts or max(starts[0].off_m, goals[0].off_m) > self._far_m:
            raise ConfigError(f"vehicle {ask.vehicle_id} or its destination is not on the known network")
        rows = fetch(connection, _SEEN, {"no": net.number, "now": made_at})
        seen = {self._place[edge]: (kmh, n) for edge, n, kmh in rows if edge in self._place}
        speeds = EdgeSpeeds(
            net, made_at, self._zone, self._usual, seen, MIDDLE_S, self._roads, self._fallback
        )
        way = quickest(self._ways, starts[0], goals, speeds.time_s)
        if way is None:
            raise ConfigError(f"vehicle {ask.vehicle_id}: no way leads to the destination")
        return Prediction(made_at, way)


def ask_for(connection: Connection, ask: Ask, prediction: Prediction) -> int:
    """Store a request with its first prediction; its number."""
    number = int(fetch(connection, _ASK, asdict(ask) | {"asked_at": prediction.made_at})[0][0])
    keep(connection, number, prediction)
    return number


def keep(connection: Connection, request_no: int, prediction: Prediction) -> None:
    """Store a prediction; one from the same position is there already."""
    row = {
        "request_no": request_no, "made_at": prediction.made_at, "arrival_at": prediction.arrival_at,
        "distance_m": prediction.way.length_m,
    }  # fmt: skip
    insert_row(connection, "eta_prediction", row, "ON CONFLICT DO NOTHING")


def grade(connection: Connection, settings: Settings, now: datetime) -> int:
    """Close the requests of vehicles that have arrived, and those that are too old; how many arrived."""
    roads = settings.roads
    arrived = execute(connection, _ARRIVED, {"arrival_m": roads.arrival_m, "trip_end_m": roads.trip_end_m})
    execute(connection, _GIVEN_UP, {"now": now, "hours": roads.eta_hours})
    return arrived


def predict_open(connection: Connection, settings: Settings) -> int:
    """A new prediction for each open request, where one can be made; how many are open."""
    waiting = fetch(connection, _OPEN)
    if not waiting:
        return 0
    forecast: Forecast | None = None
    for number, *ask in waiting:
        try:
            forecast = forecast or Forecast(connection, settings)
            keep(connection, number, forecast.predict(connection, Ask(*ask)))
        except ConfigError as error:
            log.info("no arrival time for now", request=number, reason=str(error))
    return len(waiting)
