"""The process ``odograph maintenance``: periodic tasks beside the stream application, without Spark.

One at a time works on a database, by a lease; a second one stands by.
"""

import os
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import structlog
from prometheus_client import CollectorRegistry

from infra.clients.health import HealthServer, stopped_by_signals
from infra.clients.leases import Lease, Term
from infra.settings.sections import Retention
from infra.settings.settings import Endpoints, Settings, endpoints
from stream_jobs.app.database import Database, execute, fetch
from stream_jobs.app.progress import complete_until_ms
from stream_jobs.app.topic_writer import TopicWriter
from stream_jobs.archive.manifest import archive_of
from stream_jobs.archive.upkeep import upkeep
from stream_jobs.audit_log.chain import anchored
from stream_jobs.audit_log.refusals import Refusals
from stream_jobs.crashes.tables import anchor_log
from stream_jobs.frames.lookup_files import folder_of, served
from stream_jobs.maintenance.copies import write_history, write_vehicle_lookup
from stream_jobs.maintenance.evidence import FORGET, copy_evidence
from stream_jobs.maintenance.ledger import HourlyLedger
from stream_jobs.maintenance.overload import Overload, unless_overloaded
from stream_jobs.maintenance.rollups import roll_up_changes
from stream_jobs.maintenance.task import PeriodicTask, TaskRunner
from stream_jobs.maintenance.trends import renew
from stream_jobs.recovery import ledger as batch_ledger
from stream_jobs.reprocess.feed import Feeder
from stream_jobs.reprocess.restate import Restater
from stream_jobs.reprocess.work import CLOSERS, repair
from stream_jobs.roads.history import NetworkFile, RoadHistory, place_stops, predict_arrivals
from stream_jobs.rules.cohort.update import CohortUpdate

NAME: Final = "maintenance"
OVERLOAD_S: Final = 2.0
NICE: Final = 5  # the stream goes first: an audit of an hour keeps two cores for half a minute
REFUSALS_S: Final = 3.0  # a log of 20 MB is read before the next one is put aside in its place

log = structlog.get_logger("stream_jobs.maintenance")


def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT; raises ConfigError."""
    os.nice(NICE)
    addresses, registry = endpoints(settings, ("kafka_bootstrap", "db_ingest_url"), NAME), CollectorRegistry()
    with stopped_by_signals() as stop:
        runner = TaskRunner(NAME, settings, addresses, registry)
        lease = Lease(settings, addresses.db_ingest_url, NAME, stop)
        checks, remarks = {"database": runner.database_problem}, {"tasks": runner.problem}
        with HealthServer(addresses.health(NAME), checks, registry, remarks, served(settings), lease):
            lease.run(partial(work, settings, addresses, runner))


def work(settings: Settings, addresses: Endpoints, runner: TaskRunner, term: Term) -> None:
    """Run the tasks until the term is over. Raises ConfigError."""
    with runner.until(term):
        tasks = all_tasks(settings, addresses, runner.database, term)
        runner.start(tasks)
        log.info("running", tasks=[task.name for task in tasks])
        term.wait()


def all_tasks(
    settings: Settings, addresses: Endpoints, database: Callable[[str], Database], stop: threading.Event
) -> list[PeriodicTask]:
    """All, with pauses in s; ``database`` makes a connection of a task's own. Raises ConfigError."""
    jobs, home, url = settings.jobs, settings.paths.home, addresses.db_ingest_url
    repair_db, evidence_db, audit_db = database("repair"), database("evidence"), database("audit")
    archived = partial(complete_until_ms, evidence_db, "archive")
    restater = Restater(settings, repair_db, stop, Feeder())
    late = partial(repair, restater, partial(complete_until_ms, repair_db, *CLOSERS))
    closed_ms = partial(complete_until_ms, audit_db, *CLOSERS)
    topic = partial(TopicWriter, addresses.kafka_bootstrap, settings.kafka.prefix, stop=stop)
    closes_s = jobs.lateness_s + jobs.receipt_skew_s + jobs.publish_s
    cohort = CohortUpdate(settings.cohort, database("cohort"), topic("alerts").write, closes_s)
    told = topic("policy").write, topic("alerts").write
    forget = partial(execute, statement=batch_ledger.SQL["forget_batches"])
    lookups = partial(write_vehicle_lookup, folder=folder_of(settings))
    expire = partial(drop_expired, database("retention"), settings.retention, jobs.evidence_days)
    tasks: list[tuple[str, float, Callable[[], Any]]] = [
        ("repair", jobs.repair_interval_s, unless_overloaded(repair_db, late)),
        ("overload", OVERLOAD_S, Overload(settings.overload, database("overload"), *told)),
        ("rollups", jobs.rollup_interval_s, partial(roll_up_changes, database("rollups"), settings.tz)),
        ("trends", jobs.trend_interval_s, partial(database("trends").run, renew)),
        ("cohort", settings.cohort.interval_s, cohort),
        ("evidence", jobs.evidence_interval_s, lambda: copy_evidence(evidence_db, settings, archived())),
        ("anchor", settings.crash.anchor_s, partial(anchor_log, settings, url)),
        ("refusals", REFUSALS_S, Refusals(database("refusals"), home)),
        ("audit-anchor", settings.crash.anchor_s, partial(anchored, settings, url)),
        ("roads", 30.0, RoadHistory(settings, database("roads"))),
        ("stops", 60.0, partial(database("stops").run, place_stops)),
        ("eta", settings.roads.eta_s, partial(predict_arrivals, database("eta"), settings)),
        ("lookups", 3.0, partial(database("lookups").run, lookups)),
        ("history", settings.recompute.history_s, partial(write_history, database("history"), settings)),
        ("network", 5.0, NetworkFile(settings, database("network"))),
        ("upkeep", settings.archive.upkeep_s, partial(upkeep, archive_of(home), settings.archive)),
        ("batches", 60.0, partial(database("batches").run, forget)),
        ("audit", settings.ledger.interval_s, HourlyLedger(settings, addresses, audit_db, closed_ms)),
        ("retention", settings.retention.interval_s, expire),
    ]
    return [PeriodicTask(*task) for task in tasks]


def drop_expired(database: Database, terms: Retention, evidence_days: int) -> dict[str, int]:
    """Drop what the settings say; chunks dropped by table, where any were. Done again it drops no more."""
    # Leaves a table alone that a policy of TimescaleDB's license sees to; 0 days: kept for ever.
    expire = "SELECT odograph.expire(%(table)s, %(days)s)"
    dropped = {}
    for table, days in terms.days_by_table().items():
        values = {"table": table, "days": days}
        if chunks := database.run(partial(fetch, statement=expire, parameters=values))[0][0]:
            dropped[table] = chunks
    # Late and quarantined frames go with their windows, so that the ledger balances on.
    database.run(partial(fetch, statement="SELECT odograph.forget_listed()"))
    database.run(partial(execute, statement=FORGET, parameters={"days": evidence_days}))
    if dropped:
        log.info("old chunks dropped", **dropped)
    return dropped
