"""The periodic tasks that need no Spark: what is derived from the tables, kept in order, or expires."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from infra.settings.settings import Endpoints, Settings
from stream_jobs.app import statements as sql
from stream_jobs.app.completeness import completeness
from stream_jobs.app.database import Database, execute
from stream_jobs.app.topic_writer import TopicWriter
from stream_jobs.archive.layout import archive_of
from stream_jobs.archive.upkeep import Rules, upkeep
from stream_jobs.maintenance.evidence import copy_evidence
from stream_jobs.maintenance.history import write_history
from stream_jobs.maintenance.latest import TOPIC, publish_latest
from stream_jobs.maintenance.ledger import HourlyLedger
from stream_jobs.maintenance.retention import drop_expired
from stream_jobs.maintenance.rollups.update import RollUps
from stream_jobs.maintenance.task import PeriodicTask
from stream_jobs.maintenance.trends.update import renew
from stream_jobs.maintenance.vehicle_lookup import write_vehicle_lookup
from stream_jobs.reprocess.work import Repair
from stream_jobs.roads.update import NetworkFile, RoadHistory, place_stops, predict_arrivals
from stream_jobs.rules.cohort.update import CohortUpdate

LATEST_S: Final = 5.0
BATCHES_S: Final = 60.0
ROADS_S: Final = 30.0
NETWORK_S: Final = 5.0
STOPS_S: Final = 60.0
LOOKUPS_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class Context:
    """What tasks work with; ``database`` makes a connection of a task's own."""

    settings: Settings
    addresses: Endpoints
    database: Callable[[str], Database]
    stop: threading.Event

    def topic(self, name: str) -> TopicWriter:
        """A writer of a topic."""
        return TopicWriter(self.addresses.kafka_bootstrap, self.settings.kafka.prefix, name, self.stop)


def maintenance_tasks(context: Context) -> list[PeriodicTask]:
    """All of them; raises ConfigError where a file that the settings name is wrong."""
    return [PeriodicTask(*each) for each in (*_deriving(context), *_keeping(context))]


_Task = tuple[str, float, Callable[[], Any]]
"""Name, seconds between two runs, what is done."""


def _deriving(context: Context) -> list[_Task]:
    """What is made of the tables and is slower than a batch."""
    settings, jobs, database = context.settings, context.settings.jobs, context.database
    repair_db, evidence_db = database("repair"), database("evidence")
    repair = Repair(settings, repair_db, completeness(repair_db, "telemetry", "archive"), context.stop)
    archived = completeness(evidence_db, "archive")
    closes_s = jobs.lateness_s + jobs.receipt_skew_s + jobs.publish_s
    cohort = CohortUpdate(settings.cohort, database("cohort"), context.topic("alerts").write, closes_s)
    return [
        ("latest", LATEST_S, partial(publish_latest, database("latest"), context.topic(TOPIC))),
        ("repair", jobs.repair_interval_s, repair),
        ("rollups", jobs.rollup_interval_s, RollUps(database("rollups"), settings.tz)),
        ("trends", jobs.trend_interval_s, partial(database("trends").run, renew)),
        ("cohort", settings.cohort.interval_s, cohort),
        ("evidence", jobs.evidence_interval_s, lambda: copy_evidence(evidence_db, settings, archived())),
        ("roads", ROADS_S, RoadHistory(settings, database("roads"))),
        ("stops", STOPS_S, partial(database("stops").run, place_stops)),
        ("eta", settings.roads.eta_s, partial(predict_arrivals, database("eta"), settings)),
    ]


def _keeping(context: Context) -> list[_Task]:
    """Files that the queries look things up in, the archive, ledgers, retention."""
    settings, database, home = context.settings, context.database, context.settings.paths.home
    audit_db, rules = database("audit"), Rules.of(settings.archive)
    expired = partial(drop_expired, database("retention"), settings.retention)
    ledger = HourlyLedger(
        settings, context.addresses, audit_db, completeness(audit_db, "telemetry", "archive")
    )
    forget = partial(execute, statement=sql.FORGET_BATCHES)
    return [
        ("lookups", LOOKUPS_S, partial(write_vehicle_lookup, database("lookups"), home)),
        ("history", settings.recompute.history_s, partial(write_history, database("history"), settings)),
        ("network", NETWORK_S, NetworkFile(settings, database("network"))),
        ("upkeep", settings.archive.upkeep_s, partial(upkeep, archive_of(home), rules)),
        ("batches", BATCHES_S, partial(database("batches").run, forget)),
        ("audit", settings.ledger.interval_s, ledger),
        ("retention", settings.retention.interval_s, expired),
    ]
