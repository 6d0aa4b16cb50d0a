"""What runs, where, how big it is and how far behind: ``odograph status``."""

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

from psycopg.rows import dict_row, namedtuple_row
from rich.markup import escape
from rich.table import Table

from infra.clients.db import asked, connected, sql_of
from infra.clients.health import in_background
from infra.clients.kafka import LogEnds
from infra.clients.tables import rendered, table
from infra.contract.errors import OdographError, ServiceError
from infra.contract.topics import LIVE, kafka_topic
from infra.settings.files import read_json, write_private
from infra.settings.sections import Watch
from infra.settings.settings import Endpoints, Settings, endpoints
from infra.stack import processes, query_offsets
from infra.stack.downloads.cache import folder_bytes
from infra.stack.hosts import regions
from infra.stack.kafka import records_by_topic
from infra.stack.mosquitto import BrokerFigures, broker_figures
from infra.stack.probes import page, readiness
from infra.stack.service import HOST, Service
from infra.stack.stack import SERVICES, Stack
from infra.stack.supervisor import SUPERVISOR, read_state
from infra.stack.watch.samples import Skew, TopKey

SQL: Final = sql_of(__file__)
TOP_SHOWN: Final = 5
NOT_RUNNING: Final = "does not run; start it: odograph up"


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
    remark: str | None = None  # what a part that is well says besides, as a user's query that has ended
    role: str = ""
    """What it is to others of its kind: primary, leader of partitions, who has a lease or stands by."""


def parts(stack: Stack) -> list[Part]:
    """Every part of the stack, services first."""
    servers, kept, more = stack.servers(), read_state(stack.home), stack.cluster.servers()
    kinds = {name.partition("-")[0] for name in more}
    names = [name for name in SERVICES if name not in kinds] + [*more]
    with ThreadPoolExecutor(max_workers=4) as pool:
        rows = [*pool.map(lambda name: _service(stack, name, servers.get(name), kept), names)]
    if not stack.ports():
        return rows
    running = stack.runner.find(SUPERVISOR)
    part = Part(SUPERVISOR, "process", "stopped", "", trouble=NOT_RUNNING)
    if running is not None:  # its children have rows of their own
        own_mb = processes.own_pss_kb(running.pid) / 1024
        part = replace(_measured(part, running, "ready", None), memory_mb=own_mb)
    rows.append(part)
    held = _or_none(lambda: asked(endpoints(stack.settings).db_owner_url, SQL["leases"])) or ()
    leases = {kind: (holder, epoch) for kind, holder, epoch in held}
    for name, where in stack.pages().items():
        found = _process(stack, name, where, kept.get(name, {}))
        kind, _, number = name.partition("-")
        holder, epoch = leases.get(kind, ("", 0))
        if found.state == "standby":
            found = replace(found, role="standby")
        elif found.state == "ready" and holder.endswith(f":{stack.host_home(int(number or 1))}"):
            found = replace(found, role=f"holder, epoch {epoch}")
        rows.append(found)
    return rows


def _service(
    stack: Stack, name: str, service: Service | None, kept: dict[str, dict[str, int | None]]
) -> Part:
    if name == "mosquitto" and stack.passive:
        return Part(name, "service", "waits", "until this region acts")
    if name not in stack.embedded and service is None:
        return Part(name, "service", "external", "by the settings")
    running = stack.runner.find(name)
    address = "" if service is None else f"{HOST}:{service.port}"
    restarts = kept.get(name, {}).get("restarts")
    part = Part(name, "service", "stopped", address, trouble=NOT_RUNNING, restarts=restarts)
    if running is None or service is None:
        return part
    try:
        service.probe()
    except ServiceError as error:
        return _measured(part, running, "silent", f"{error}; its log: {stack.runner.log(name)}")
    part = replace(part, role=_or_none(lambda: stack.cluster.role(name)) or "")
    return _measured(part, running, "ready", None)


def _process(stack: Stack, name: str, where: str, kept: dict[str, int | None]) -> Part:
    """``kept`` is what the supervisor noted of it: restarts and last exit code."""
    running, log = stack.runner.find(name), stack.runner.log(name)
    part = Part(name, "process", "stopped", page(where), restarts=kept.get("restarts"))
    if running is None and part.restarts:
        trouble = f"ended with {kept.get('last_exit')}, is started again and again; its log: {log}"
        return replace(part, state="failing", trouble=trouble)
    if running is None:
        return replace(part, trouble=NOT_RUNNING)
    reason, remark = readiness(where)
    if reason is None:
        state = "standby" if remark and remark.startswith("standby: ") else "ready"
        return _measured(replace(part, remark=remark), running, state, None)
    return _measured(part, running, "not ready", f"{reason}; its log: {log}")


def _measured(part: Part, running: processes.Running, state: str, trouble: str | None) -> Part:
    up_s, size_mb = processes.uptime_s(running), processes.memory_mb(running.pid)
    return replace(part, state=state, pid=running.pid, up_s=up_s, memory_mb=size_mb, trouble=trouble)


T = TypeVar("T")


def _or_none(read: Callable[[], T]) -> T | None:
    try:
        return read()
    except OdographError:
        return None  # the rows of the services say what is wrong with it


def records_behind(settings: Settings, addresses: Endpoints) -> dict[str, int]:
    """By query: what is in the log less what its newest committed batch ends at; raises ServiceError."""
    behind: Counter[str] = Counter()
    with (
        connected(addresses.db_owner_url) as connection,
        LogEnds(addresses.kafka_bootstrap, settings.kafka.prefix) as log,
    ):
        for name in LIVE:
            read_by = query_offsets.committed_ends(connection, kafka_topic(settings.kafka.prefix, name))
            for partition, end in log.ends(name).items():
                behind.update(
                    {query: max(0, end - read.get(partition, 0)) for query, read in read_by.items()}
                )
    return dict(behind)


def partitions(url: str) -> tuple[list[Skew], list[TopKey]]:
    """How unevenly readers are behind, and the keys that send most, by the watch; raises ServiceError."""
    with connected(url) as connection:
        skews = [Skew(*row) for row in connection.execute(SQL["skews"])]
        return skews, [TopKey(*row) for row in connection.execute(SQL["top_keys"])]


FOLDERS: Final = (
    "archive", "days", "checkpoints", "data/kafka", "data/postgres", "data/postgres-1", "data/postgres-2",
    "servers", "logs",
)  # fmt: skip
"""Below the home, each with everything in it."""
SHOWN_BYTES: Final = 1 << 20  # smaller tables without a retention are left out for people


def table_sizes(url: str) -> list[Any]:
    """A row for every table with its indexes, the biggest first; raises ServiceError."""
    return asked(url, SQL["tables"], row_factory=namedtuple_row)


def folder_sizes(home: Path) -> dict[str, int]:
    """Bytes on the disk of each of FOLDERS that is there."""
    return {name: folder_bytes(home / name) for name in FOLDERS if (home / name).is_dir()}


SIZES_FILE: Final = "sizes.json"


def sizes(home: Path, pids: Mapping[str, int]) -> tuple[dict[str, float], dict[str, int]]:
    """Memory by program [MiB] and bytes by folder; as root keeps them, where this user may not look."""
    if kept := read_json(home / "run" / SIZES_FILE):
        return kept[0], kept[1]
    return {name: processes.memory_mb(pid) for name, pid in pids.items()}, folder_sizes(home)


@contextmanager
def sizes_kept(stack: Stack) -> Iterator[None]:
    """While the block runs what ``sizes`` says is measured by this process, where programs are users."""
    run_dir, every_s = stack.home / "run", stack.settings.watch.slow_interval_s

    def keep(stop: threading.Event) -> None:
        while True:
            memory = {one.name: processes.memory_mb(one.pid) for one in processes.all_running(run_dir)}
            with suppress(OSError):  # the disk is full
                write_private(run_dir / SIZES_FILE, json.dumps([memory, folder_sizes(stack.home)]), 0o644)
            if stop.wait(every_s):
                return

    with in_background("sizes", keep) if stack.by_users else nullcontext():
        yield
    (run_dir / SIZES_FILE).unlink(missing_ok=True)


def report(stack: Stack, rows: Sequence[Part], as_json: bool) -> str:
    """The parts, troubles below, then what lies in each topic, how far behind all is, and how big it is.

    Behind: telemetry records in Kafka that are not in a query's results; event time, by the database's clock,
    s. Never raises for a service that is away: what it would say is None.
    """
    s = stack.settings
    topics = _or_none(lambda: records_by_topic(endpoints(s).kafka_bootstrap, s.kafka.prefix)) or {}
    moments = _or_none(lambda: asked(endpoints(s).db_owner_url, SQL["times"], row_factory=dict_row))
    times = moments[0] if moments else None
    broker = _or_none(lambda: broker_figures(*endpoints(s).brokers))
    skews, keys = _or_none(lambda: partitions(endpoints(s).db_owner_url)) or ([], [])
    tables = _or_none(lambda: table_sizes(endpoints(s).db_owner_url))
    role = _or_none(lambda: regions.role(endpoints(s).db_owner_url)) if s.region.name else None
    waits = role is not None and role.active != s.region.name  # offsets in the tables are of another log
    records = None if waits else _or_none(lambda: records_behind(s, endpoints(s)))
    uncopied = (_or_none(lambda: regions.uncopied(endpoints(s).db_owner_url)) or []) if role else []
    if tables is not None:  # tasks of their own see to these two
        days = {"alert_evidence": s.jobs.evidence_days, "cohort_residual": s.cohort.kept_days}
        elsewhere = {f"odograph.{name}": kept for name, kept in days.items()}
        tables = [t._replace(kept_days=elsewhere.get(t.name, t.kept_days)) for t in tables]
    folders = folder_sizes(s.paths.home.resolve())
    if as_json:
        measured = None if tables is None else [size._asdict() for size in tables]
        found = {
            "parts": [asdict(row) for row in rows],
            "topics": topics,
            "lag": {
                "records": records,
                "times": times,
                "broker": broker and asdict(broker),
                "partitions": [skew._asdict() for skew in skews],
                "top_keys": [key._asdict() for key in keys],
            },
            "region": role and role._asdict() | {"uncopied": [each._asdict() for each in uncopied]},
            "sizes": {"tables": measured, "folder_bytes": folders},
        }
        return json.dumps(found, indent=1, default=str) + "\n"
    roles = ("role",) if any(row.role for row in rows) else ()
    shown = table("part", "state", "address", "pid", "up", "MiB", "restarts", *roles)
    for row in rows:
        state = f"[{'red' if row.trouble else 'green'}]{row.state}[/]"
        up = "" if row.up_s is None else str(timedelta(seconds=int(row.up_s)))
        memory = "" if row.memory_mb is None else f"{row.memory_mb:.0f}"
        pid, restarts = ("" if number is None else str(number) for number in (row.pid, row.restarts))
        shown.add_row(row.name, state, row.address, pid, up, memory, restarts, *[row.role for _ in roles])
    lines = [f"{row.name}: {escape(row.trouble)}" for row in rows if row.trouble]
    lines += [f"{row.name}: [yellow]{escape(row.remark)}[/]" for row in rows if row.remark]
    counts = [table("topic", "records", rows=[(name, f"{n:,}") for name, n in topics.items()])]
    lines += [f"region {s.region.name}: {role}", *map(str, uncopied)] if role else []
    lag = [*_lag_lines(records, times, broker), *_partition_lines(skews, keys, s.watch)]
    on_disk = ", ".join(f"{name} {_mib(size)}" for name, size in folders.items()) or "nothing"
    kept = [_tables(tables)] if tables else []
    return rendered(shown, *lines, *(counts if topics else []), *lag, *kept, f"on the disk, MiB: {on_disk}")


def _tables(sizes: Sequence[Any]) -> Table:
    made = table("table", "MiB", "rows, about", "since", "kept")
    for one in sizes:
        if one.kept_days is not None or one.since is not None or one.bytes >= SHOWN_BYTES:
            since = "" if one.since is None else f"{one.since:%Y-%m-%d}"
            kept = "for ever" if one.kept_days is None else f"{one.kept_days} days"
            made.add_row(one.name, _mib(one.bytes), f"{one.about_rows:,}", since, kept)
    return made


def _mib(size: int) -> str:
    return f"{size / 2**20:,.1f}"


def _lag_lines(
    records: Mapping[str, int] | None, times: Mapping[str, float | None] | None, broker: BrokerFigures | None
) -> list[str]:
    lines = []
    if records:
        each = ", ".join(f"{query} {count:,}" for query, count in records.items())
        lines.append(f"records in Kafka not in a query's results: {each}")
    if times is not None and times["newest_behind_s"] is not None:
        s = {name: "unknown" if t is None else f"{t:,.1f} s" for name, t in times.items()}
        newest, watermark = s["newest_behind_s"], s["watermark_behind_s"]
        lines.append(f"event time behind now: newest {newest}, watermark {watermark}")
        view = f"p50 {s['event_to_view_p50_s']}, p99 {s['event_to_view_p99_s']}"
        lines.append(f"event to view in the last minute: {view}")
    if broker is not None:
        dropped = f"[{'red' if broker.dropped else 'green'}]{broker.dropped:,} dropped[/]"
        clients = f"{broker.clients} clients connected"
        lines.append(f"broker: {broker.queued:,} messages wait, {dropped}, {clients}")
    return lines


def _partition_lines(skews: Sequence[Skew], keys: Sequence[TopKey], terms: Watch) -> list[str]:
    """The most uneven reader, each hot partition, and the keys that send most."""
    hot = [f"[red]hot: {skew}[/]" for skew in skews if skew.hot(terms)]
    lines = hot or [f"most uneven: {skew}" for skew in skews[:1]]
    each = (
        f"{key.vehicle_id} {100 * key.share:.1f} % (partition {key.partition})" for key in keys[:TOP_SHOWN]
    )
    return lines + ([f"top keys of {keys[0].topic}: {', '.join(each)}"] if keys else [])
