"""Trips in the table against those that the same core makes of the whole log at once, without Spark or kills.

The query ``telemetry`` promises that journeys follow from the frames alone: not from the order in which they
came, nor from batches, nor from restarts. The core is the product's own: whether it cuts trips rightly is
tested elsewhere. Left out is what hangs on the lookup of vehicle classes, which is read when it comes; and
vehicles of which, by the log, a frame came behind its gap: a trip under way is restated once it has ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from infra.clients.db import session
from infra.contract.topics import kafka_topic
from infra.contract.verdict import clock_limits
from infra.stack import query_offsets
from load_tests.archived import features_read
from load_tests.drills.evidence import Log
from load_tests.drills.site import Site, until
from load_tests.drills.verdict import Promise
from stream_jobs.rules.rule_set import RuleSet
from stream_jobs.vehicles.core import Core
from stream_jobs.vehicles.features import VehicleStage
from stream_jobs.vehicles.rows import TripRow, tables_of

QUERY: Final = "telemetry"
TABLE: Final = "odograph.trip"
COLUMNS: Final = ("vehicle_id", "started_at", "distance_m", "moving_s", "halts", "frames")
READ_ON_S: Final = 300.0
BATCH: Final = 5000

Trip = tuple[str, datetime, float, float, int, int]


def trips(site: Site, log: Log) -> Promise:
    """Each trip of the whole log is in the table as it should be, and no other; no other run was there."""
    until(lambda: _read_on(site, log), READ_ON_S, "the query telemetry has taken in the log")
    behind, replayed = _replayed(site, log)
    with session(site.endpoints.db_owner_url) as connection:
        rows = connection.execute(f"SELECT {', '.join(COLUMNS)} FROM {TABLE}".encode()).fetchall()
    wanted, found = ({trip for trip in each if trip[0] not in behind} for each in (replayed, rows))
    text = f"{len(wanted)} trips, {len(found)} in the table, {len(wanted & found)} the same"
    if behind:
        text += f"; left out: {len(behind)} vehicles of which a frame came behind its gap"
    return Promise("trips are those of the ordered frames", wanted == found and bool(wanted), text)


def _read_on(site: Site, log: Log) -> bool:
    with session(site.endpoints.db_owner_url) as connection:
        newest = query_offsets.committed(connection, QUERY)
    topic = kafka_topic(site.settings.kafka.prefix, "telemetry")
    ends = newest.ends.get(topic, {}) if newest is not None else {}
    return sum(ends.values()) == log.appended("telemetry")


def _replayed(site: Site, log: Log) -> tuple[set[str], list[Trip]]:
    """Vehicles of which a frame came behind its gap, and the trips of all."""
    nobody = site.home / "no-such-lookup"
    stage = VehicleStage(clock_limits(site.settings), site.settings.journeys, nobody)
    core = Core(site.settings.jobs, site.settings.journeys, RuleSet())
    features = features_read(stage, _records(log))
    assert features is not None
    rows = core.replay(features, int(features["received_ms"].max()))
    (table,) = tables_of((row for row in rows if isinstance(row, TripRow)), (TripRow,)).values()
    return core.behind(features), [tuple(row[name] for name in COLUMNS) for row in table.to_pylist()]


def _records(log: Log) -> Iterator[pa.RecordBatch]:
    """The log as the stage wants it."""
    rows: list[dict[str, Any]] = []
    for message in log.messages("telemetry"):
        rows.append(
            {
                "partition": message.partition(),
                "log_offset": message.offset(),
                "received_ms": message.timestamp()[1],
                "value": message.value(),
            }
        )
        if len(rows) == BATCH:
            yield pa.RecordBatch.from_pylist(rows)
            rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows)
