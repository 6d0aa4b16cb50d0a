"""How far behind the pipeline is, in three ways, and what waits at the broker: for ``odograph status``.

Kafka's offsets say how many records are not in a query's results yet; event time says how old the newest data
is; event to view says how long a sample of the last minute took to its row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from infra.clients.db import connected
from infra.clients.kafka import LogEnds
from infra.contract.errors import OdographError
from infra.contract.topics import kafka_topic
from infra.settings.settings import Endpoints, Settings, endpoints
from infra.stack import query_offsets
from infra.stack.broker_figures import BrokerFigures, broker_figures

REAL_TIME = ("instant", "instant-crash")
"""Pass records through when they come; their checkpoints are rare and say nothing of lag."""
_TIMES = """
SELECT extract(epoch FROM now() - max(event_time))::double precision AS newest_s,
       (SELECT extract(epoch FROM now() - watermark)::double precision FROM odograph.query_progress
        WHERE query = 'telemetry' AND at > now() - INTERVAL '1 day' ORDER BY at DESC LIMIT 1) AS watermark_s,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM updated_at - event_time))
           FILTER (WHERE updated_at > now() - INTERVAL '1 minute') AS view_p50_s,
       percentile_cont(0.99) WITHIN GROUP (ORDER BY extract(epoch FROM updated_at - event_time))
           FILTER (WHERE updated_at > now() - INTERVAL '1 minute') AS view_p99_s
FROM odograph.vehicle_latest
"""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EventTimes:
    """Of event time, s; None where there is no data. The view's figures are those of the last minute."""

    newest_behind_s: float | None
    watermark_behind_s: float | None
    event_to_view_p50_s: float | None
    event_to_view_p99_s: float | None


@dataclass(frozen=True, slots=True)
class Lag:
    """All of it; a part that does not answer is None."""

    records: Mapping[str, int] | None
    """Telemetry records in Kafka that are not in the query's results, by query."""
    times: EventTimes | None
    broker: BrokerFigures | None


def lag(settings: Settings) -> Lag:
    """What can be read now; never raises for a service that is away."""
    try:
        found = endpoints(settings)
    except OdographError:
        return Lag(None, None, None)
    return Lag(
        records=_or_none(lambda: records_behind(settings, found)),
        times=_or_none(lambda: event_times(found.db_owner_url)),
        broker=_or_none(lambda: broker_figures(found.mqtt)),
    )


def _or_none(read: Callable[[], T]) -> T | None:
    try:
        return read()
    except OdographError:
        return None  # the rows of the services say what is wrong with it


def records_behind(settings: Settings, addresses: Endpoints) -> dict[str, int]:
    """By query: what is in the log less what its newest committed batch ends at; raises ServiceError."""
    home, topic = settings.paths.home.resolve(), kafka_topic(settings.kafka.prefix, "telemetry")
    ends = {}
    for query in query_offsets.queries(home):
        newest = query_offsets.committed(home, query)
        if query not in REAL_TIME and newest is not None and topic in newest.ends:
            ends[query] = sum(newest.ends[topic].values())
    with LogEnds(addresses.kafka_bootstrap, settings.kafka.prefix) as log:
        appended = log.appended("telemetry")
    return {query: max(0, appended - end) for query, end in ends.items()}


def event_times(url: str) -> EventTimes:
    """By the database's clock; raises ServiceError."""
    with connected(url) as connection:
        row = connection.execute(_TIMES).fetchone()
    return EventTimes(*(None if value is None else round(float(value), 3) for value in row or (None,) * 4))
