"""What runs, where and how big: the rows of ``odograph status``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final, TypeVar

from infra.clients.db import connected
from infra.clients.kafka import LogEnds
from infra.contract.errors import OdographError, ServiceError
from infra.contract.topics import kafka_topic
from infra.settings.settings import Endpoints, Settings, endpoints
from infra.stack import processes, query_offsets
from infra.stack.cache import folder_bytes
from infra.stack.mosquitto import BrokerFigures, broker_figures
from infra.stack.probes import readiness
from infra.stack.service import HOST, Service
from infra.stack.stack import SERVICES, Stack
from infra.stack.supervisor import SUPERVISOR, programs, read_state


@dataclass(frozen=True, slots=True)
class Part:
    """One service or process. ``trouble`` is None when all is well; ``memory_mb`` counts its children too."""

    name: str
    kind: str
    state: str
    address: str
    pid: int | None = None
    up_s: float | None = None
    memory_mb: float | None = None
    restarts: int | None = None
    trouble: str | None = None
    remark: str | None = None
    """What a part that is well says besides, as a user's query that has ended."""


def parts(stack: Stack) -> list[Part]:
    """Every part of the stack, services first."""
    chosen = stack.ports()
    embedded = {s.name: s for s in stack.services(chosen)} if chosen else {}
    rows = [_service(stack, name, embedded) for name in SERVICES]
    if not chosen:
        return rows
    rows.append(_supervisor(stack))
    kept = read_state(stack.home)
    names = [program.name for program in programs(stack.settings.bridge.shards)]
    return rows + [_process(stack, name, chosen.get(name, 0), kept.get(name, {})) for name in names]


def _service(stack: Stack, name: str, embedded: dict[str, Service]) -> Part:
    if name not in stack.embedded:
        return Part(name, "service", "external", "by the settings")
    running = stack.runner.find(name)
    service = embedded.get(name)
    address = "" if service is None else f"{HOST}:{service.port}"
    if running is None or service is None:
        return Part(name, "service", "stopped", address, trouble="does not run; start it: odograph up")
    trouble = None
    try:
        service.probe()
    except ServiceError as error:
        trouble = f"{error}; its log: {stack.runner.log(name)}"
    return _measured(
        Part(name, "service", "ready" if trouble is None else "silent", address), running, trouble
    )


def _supervisor(stack: Stack) -> Part:
    running = stack.runner.find(SUPERVISOR)
    if running is None:
        return Part(SUPERVISOR, "process", "stopped", "", trouble="does not run; start it: odograph up")
    part = _measured(Part(SUPERVISOR, "process", "ready", ""), running, None)
    return replace(
        part, memory_mb=processes.own_pss_kb(running.pid) / 1024
    )  # its children have rows of their own


def _process(stack: Stack, name: str, port: int, kept: dict[str, int | None]) -> Part:
    """``kept`` is what the supervisor noted of it: restarts and last exit code."""
    running = stack.runner.find(name)
    part = Part(name, "process", "ready", f"http://{HOST}:{port}", restarts=kept.get("restarts"))
    log = stack.runner.log(name)
    if running is None and part.restarts:
        trouble = f"ended with {kept.get('last_exit')}, is started again and again; its log: {log}"
        return replace(part, state="failing", trouble=trouble)
    if running is None:
        return replace(part, state="stopped", trouble="does not run; start it: odograph up")
    reason, remark = readiness(port)
    if reason is None:
        return _measured(replace(part, remark=remark), running, None)
    return _measured(replace(part, state="not ready"), running, f"{reason}; its log: {log}")


def _measured(part: Part, running: processes.Running, trouble: str | None) -> Part:
    up_s, size_mb = processes.uptime_s(running), processes.memory_mb(running.pid)
    return replace(part, pid=running.pid, up_s=up_s, memory_mb=size_mb, trouble=trouble)


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


FOLDERS: Final = ("archive", "days", "checkpoints", "data/kafka", "data/postgres", "logs")
"""Below the home, each with everything in it."""
_TABLES: Final = """
SELECT schema || '.' || name, bytes, about_rows, since, kept_days, dropped_before FROM serving.table_size
ORDER BY bytes DESC, 1
"""


@dataclass(frozen=True, slots=True)
class TableSize:
    """A table with its indexes. ``about_rows`` is the database's estimate; ``kept_days`` None: for ever."""

    name: str
    bytes: int
    about_rows: int
    since: datetime | None
    kept_days: int | None
    dropped_before: datetime | None


@dataclass(frozen=True, slots=True)
class Sizes:
    """What lies where; ``tables`` is None where the database does not answer."""

    tables: Sequence[TableSize] | None
    folder_bytes: Mapping[str, int]


def sizes(settings: Settings) -> Sizes:
    """What can be measured now; never raises for a service that is away."""
    home = settings.paths.home.resolve()
    elsewhere = {
        "odograph.alert_evidence": settings.jobs.evidence_days,
        "odograph.cohort_residual": settings.cohort.kept_days,
    }  # their own tasks see to these
    tables: list[TableSize] | None
    try:
        found = table_sizes(endpoints(settings).db_owner_url)
        tables = [replace(t, kept_days=elsewhere.get(t.name, t.kept_days)) for t in found]
    except OdographError:
        tables = None  # the rows of the services say what is wrong with it
    return Sizes(tables, folder_sizes(home))


def table_sizes(url: str) -> list[TableSize]:
    """Every table, the biggest first; raises ServiceError."""
    with connected(url) as connection:
        return [TableSize(*row) for row in connection.execute(_TABLES)]


def folder_sizes(home: Path) -> dict[str, int]:
    """Bytes on the disk of each of FOLDERS that is there."""
    return {name: folder_bytes(home / name) for name in FOLDERS if (home / name).is_dir()}
