"""A vehicle leaves: its rows, archived frames, records of the log, memories of the stream, names in files.

What the ledger needs stays under a name that is nobody's: that at a moment a record lay at an offset. Crash
records under lock stay, with the custody log of all of them: a legal hold wins. Each step can be done again.
"""

import fcntl
import json
import mmap
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Final

import psycopg
import pyarrow as pa
from confluent_kafka import ConsumerGroupTopicPartitions
from psycopg import sql

from infra.clients import duck, kafka
from infra.clients.db import Connection, asked, connected, sql_of, system_user
from infra.contract.errors import ConfigError, ServiceError
from infra.contract.topics import EVENT_TOPICS, LIVE, kafka_topic, mqtt_topic
from infra.contract.verdict import clock_limits
from infra.settings.files import read_json, write_private
from infra.settings.settings import Endpoints, Settings, endpoints
from infra.settings.values import vehicle_id
from infra.stack.access import devices, identity
from infra.stack.stack import Stack
from stream_jobs.app.session import spark_when_asked
from stream_jobs.archive import reader, upkeep
from stream_jobs.archive.manifest import archive_of
from stream_jobs.archive.writer import now_ms
from stream_jobs.crashes.tables import retire
from stream_jobs.frames.lookup_files import folder_of
from stream_jobs.privacy import export
from stream_jobs.privacy.log import VehicleLog
from stream_jobs.recovery.checkpoints import ASIDE, Checkpoint
from stream_jobs.recovery.files import checkpoint_files
from stream_jobs.replay.runs import all_runs, not_begun
from stream_jobs.roads.network import lookup_of
from stream_jobs.user_sql.queries import least_watermark_s, read_folder
from stream_jobs.windows.open_windows import OpenWindows, archived_frames
from stream_jobs.windows.places import place_rows, summed

SQL: Final = sql_of(__file__)

_INTERVAL: Final = "interval_start = date_bin(INTERVAL '5 minutes', m.at, 'epoch'::timestamptz)"
BRIDGED_S: Final = 3.0  # for the bridge: an empty status is a dead letter, and goes with the others
QUIET_S: Final = 300.0  # of a vehicle that sent within this time more may be on the way
POLL_S: Final = 1.0
REQUIRED: Final = {"telemetry": ("telemetry",), "archive": LIVE}
"""Queries that must have read what is cut, and the topics of each; those below and users' too, where they
ever ran.
"""
OPTIONAL: Final = {"instant": ("telemetry",), "instant-crash": ("crash",)}
LEFT: Final = ("custody", "crash_lock", "crash_record", "audit_log", "dead_letter")
"""Tables whose rows stay, or are left to what is done with crash records and dead letters."""
OTHER_REGION: Final = (
    "region {} keeps its copy of the log, and would read it again after a failover, until that begins anew: "
    "there, `odograph failover --follow`. If it has acted before, erase the vehicle again when it acts again"
)
ASIDE_HAS: Final = "checkpoints that were put aside know what their queries knew then: delete {}"
USERS_HAVE: Final = (
    "users' SQL queries may know it until their watermark is beyond, those without a window in GROUP BY "
    "until `odograph jobs reset`"
)
OF_CRASHES: Final = ("crash_part", "crash_verdict")
FILES: Final = ("logs", "runs")  # folders with files that may name vehicles; lookups, services' have others
NOTED: Final = "erasing.json"
"""Of a home: tables that lost rows and are not rewritten yet. A killed erasure leaves it to the next one."""
TAKEN_S: Final = 10.0  # for the broker's answer
_PLACES: Final = (
    ("road_cell", "text", "cell", "heading_sector"), ("road_edge", "integer", "network_no", "edge_id")
)  # fmt: skip


@dataclass(slots=True)
class Erased:
    """What was erased, by place; ``kept``: crash records under lock; ``remarks``: what goes later."""

    name: str
    rows: dict[str, int] = field(default_factory=dict)
    frames: int = 0
    log: dict[str, int] = field(default_factory=dict)
    files: int = 0
    kept: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def erase(settings: Settings, vehicle: str, wait_s: float, say: Callable[[str], None]) -> Erased:
    """Erase all that is known of a vehicle up to now; waits at most ``wait_s`` for the consumers of the log.

    Raises ConfigError where the vehicle still sends, or a replay run holds a copy of its data, ServiceError.
    """
    vehicle_id(vehicle)
    runs = [*(run.run_id for run in all_runs(settings.paths.home)), *not_begun(settings.paths.home)]
    if runs:
        raise ConfigError(f"runs have copies of the log: drop them first: odograph replay drop {runs[0]}")
    where = endpoints(settings, ("db_owner_url", "kafka_bootstrap"), "operator")
    found = Erased(f"ERASEDO{secrets.token_hex(5).upper()}")
    with connected(where.db_owner_url) as database:
        ((silent_s,),) = database.execute(SQL["sent"], {"vehicle": vehicle}).fetchall()
        if silent_s is not None and silent_s < QUIET_S:
            raise ConfigError(
                f"{vehicle} sent {silent_s:.0f} s ago, and what it sends behind this would be kept. "
                "End that first: odograph device revoke, or the simulator that drives it"
            )
        crashes = database.execute(SQL["crashes"], (vehicle,)).fetchall()
    found.kept = [crash_id for _, _, crash_id, is_locked in crashes if is_locked]
    _taken_back(settings, where, vehicle, found)
    say("log: markers set; waiting until all consumers have read them")
    archive = archive_of(settings.paths.home)
    log = VehicleLog(where.kafka_bootstrap, settings.kafka.prefix, vehicle, found.kept)
    log.mark(upkeep.partitions_of(archive, vehicle))
    _wait(settings, where, log, wait_s)
    log.append_again()
    notary = identity.notary(settings)
    for *key, is_locked in crashes:
        if not is_locked:
            retire(where.db_owner_url, (key[0], key[1], key[2]), f"erasure of {found.name}", notary)
    say("database: rows")
    with connected(where.db_owner_url, actor=system_user(), autocommit=True) as database:
        _roads(settings, database, vehicle)
        _rows(database, vehicle, log, found, settings.paths.home / NOTED)
    say("archive: frames")
    with upkeep.alone(archive, wait=True):
        for hour in reader.hours(archive):
            found.frames += upkeep.erase(archive, hour, settings.archive.pack_mb << 20, vehicle, found.name)
            upkeep.settle(archive, hour, settings.archive.grace_min, now_ms())
    log.cut()
    found.log = {topic: count for topic, count in log.found.items() if count}
    _certificates(settings, vehicle)
    folders = [*(settings.paths.home / name for name in FILES), folder_of(settings)]
    found.files = _renamed(folders, vehicle, found.name)
    with connected(where.db_owner_url, actor=system_user(), autocommit=True) as database:
        _forgotten(database, vehicle, found)
    aside = Path(f"{settings.paths.place('checkpoints')}{ASIDE}")
    found.remarks += [
        "Kafka deletes the files before the markers within minutes, compacted topics within two hours",
        f"the archive's old files go {settings.archive.grace_min} min from now, by odograph maintenance",
        *([OTHER_REGION.format(settings.region.other_name)] if settings.region.other else ()),
        *([ASIDE_HAS.format(aside)] if aside.exists() else ()),
        *([USERS_HAVE] if settings.jobs.sql_dir else ()),
    ]
    return found


def _roads(settings: Settings, database: Connection, vehicle: str) -> None:
    """Note the windows that the vehicle has a part in, and delete those that nobody else has one in."""
    database.execute(SQL["parts"], {"vehicle": vehicle, "road_s": settings.jobs.road_window_s})
    files = reader.paths(archive_of(settings.paths.home))
    with duck.connected() as archive:
        asked = {"files": files, "vehicle": vehicle}
        records = archive.sql(SQL["archived"], params=asked).to_arrow_table() if files else None
    windows = OpenWindows(settings.jobs, lookup_of(settings))
    for batch in [] if records is None else archived_frames(records, clock_limits(settings)):
        windows.take(batch, batch.believed)
    windows.give_out()
    if not windows.found.shares:
        return
    made = place_rows(summed(pa.concat_tables(windows.found.shares)), settings.jobs.road_window_s)
    for (table, kind, *keys), rows in zip(_PLACES, made, strict=True):
        columns = [rows[name].to_pylist() for name in (*keys, "window_start")]
        window = SQL["alone"].format(table, kind, *keys)
        interval = window.replace("_window w", "_interval w").replace("window_start = m.at", _INTERVAL)
        for statement in (window, interval):
            database.execute(statement.encode(), columns)


def _taken_back(settings: Settings, where: Endpoints, vehicle: str, found: Erased) -> None:
    """The broker's retained word on the vehicle, and its session, as the vehicle itself."""
    from paho.mqtt.client import Client, MQTTv5  # noqa: PLC0415
    from paho.mqtt.enums import CallbackAPIVersion  # noqa: PLC0415

    brokers = where.brokers
    if where.device_port:
        home = settings.paths.home
        own = identity.Authority(home, identity.DEVICES).current(vehicle, days=1.0)
        brokers = (devices.broker_of(where, home, own),)
    root = settings.mqtt.root
    for broker in brokers:
        answers: list[Any] = []
        client = Client(CallbackAPIVersion.VERSION2, client_id=vehicle, userdata=answers, protocol=MQTTv5)
        client.on_publish = lambda _client, told, _mid, reason, _more: told.append(reason)
        broker.log_in(client)
        try:
            client.connect(broker.host, broker.port)
            client.loop_start()
            for topic in (mqtt_topic(root, vehicle, "status"), f"{root}/{vehicle}/status"):
                sent = client.publish(topic, b"", qos=1, retain=True)
                sent.wait_for_publish(TAKEN_S)
                if not sent.is_published():
                    raise TimeoutError(f"no answer in {TAKEN_S:g} s")
                if answers[-1].is_failure:
                    raise PermissionError(f"{topic} was refused: {answers[-1]}")
        except (OSError, RuntimeError, ValueError) as error:
            found.remarks.append(f"the broker {broker} may retain the vehicle's status: {error}")
        finally:
            client.disconnect()
            client.loop_stop()
    time.sleep(BRIDGED_S)


def _wait(settings: Settings, where: Endpoints, log: VehicleLog, wait_s: float) -> None:
    """Until every consumer has read beyond the markers, for good. Raises ServiceError naming who has not."""
    end_s = time.monotonic() + wait_s
    ends = {(kafka_topic(settings.kafka.prefix, topic), p): end + 1 for (topic, p), end in log.ends.items()}
    with spark_when_asked(settings, "erase", 512) as session:
        files = checkpoint_files(settings, session)
        while behind := [*_behind(settings, where, files, ends)]:
            if time.monotonic() > end_s:
                raise ServiceError(
                    f"not read to the markers within {wait_s:g} s: {', '.join(behind)}. Nothing was erased; "
                    "do they run (odograph status)? Then do it again"
                )
            time.sleep(POLL_S)


def _behind(
    settings: Settings, where: Endpoints, files: Any, ends: Mapping[tuple[str, int], int]
) -> Iterator[str]:
    """Who has not read to these next offsets, by topic and partition."""
    prefix, folder = settings.kafka.prefix, settings.jobs.sql_dir
    users = () if folder is None else read_folder(folder, least_watermark_s(settings))
    for query, topics in (REQUIRED | OPTIONAL | {one.query: ("telemetry",) for one in users}).items():
        checkpoint = Checkpoint(files, query)
        done = checkpoint.batches("commits")
        read = (checkpoint.ends_of(done[-1]) if done else None) or {}
        names = {kafka_topic(prefix, topic) for topic in topics} if done or query in REQUIRED else set()
        if any(read.get(t, {}).get(p, 0) < end for (t, p), end in ends.items() if t in names):
            yield query
    rows = asked(where.db_owner_url, SQL["read"])
    stored = {(kafka_topic(prefix, topic), p): offset for topic, p, offset in rows}
    names = {kafka_topic(prefix, topic) for topic in EVENT_TOPICS}
    if any(stored.get(place, 0) < end for place, end in ends.items() if place[0] in names):
        yield "events"
    with kafka.service_errors("Kafka: groups of the downlink"):
        client = kafka.admin(where.kafka_bootstrap)
        groups = client.list_consumer_groups(request_timeout=10.0).result().valid or []
        for name in sorted(g.group_id for g in groups if g.group_id.startswith(f"{prefix}downlink.")):
            group = [ConsumerGroupTopicPartitions(name)]
            (answer,) = client.list_consumer_group_offsets(group, request_timeout=10.0).values()
            for place in answer.result().topic_partitions or []:
                if 0 <= place.offset < ends.get((place.topic, place.partition), 0):
                    yield name


def _rows(database: Connection, vehicle: str, log: VehicleLog, found: Erased, noted: Path) -> None:
    """Delete the vehicle's rows, and rewrite the tables that had any: no byte of them stays in free space.

    Those are ``noted`` in a file first: a try that does not come to the rewriting leaves it to the next one.
    """
    database.execute("SET timescaledb.max_tuples_decompressed_per_dml_transaction = 0")
    touched: set[str] = {*read_json(noted)}
    for table in export.of_vehicle(database, vehicle):
        if table.schema == "odograph" and table.name in LEFT:
            continue
        if table.schema == "odograph" and table.name in OF_CRASHES:
            stays = sql.SQL(" AND crash_id <> ALL({})").format(sql.Literal(found.kept))
            table = table._replace(rows=table.rows + stays)  # noqa: PLW2901
        parts = database.execute(sql.SQL("SELECT DISTINCT tableoid::regclass::text {}").format(table.of))
        named = [name for (name,) in parts.fetchall()]
        if named:
            touched.update(named)
            write_private(noted, json.dumps(sorted(touched)))
            found.rows[str(table)] = database.execute(sql.SQL("DELETE {}").format(table.of)).rowcount
    if letters := database.execute(SQL["letters"], {"name": found.name, "vehicle": vehicle}).rowcount:
        found.rows["dead_letter"] = letters
    database.execute(SQL["queue"], {"vehicle": vehicle})
    for name in ("reinjections", "letters_before") if log.moved else ():
        database.execute(SQL[name], {"old": [*log.moved], "new": [*log.moved.values()]})
    for (topic, partition), end in log.ends.items():
        if topic == "crash":
            database.execute(SQL["begins"], (end, topic, partition))
    always = {"odograph.dead_letter", "odograph.window_change", "odograph.crash_record"}
    _rewritten(database, sorted(touched | always))
    noted.unlink(missing_ok=True)


def _rewritten(database: Connection, names: list[str]) -> None:
    """VACUUM FULL, a table at a time that is still there: its writers wait. Then statistics."""
    for parts in database.execute(SQL["rewritten"], {"names": names}).fetchall():
        database.execute(sql.SQL("VACUUM (FULL, ANALYZE) {}").format(sql.Identifier(*parts)))
    database.execute("VACUUM FULL pg_catalog.pg_statistic")


def _forgotten(database: Connection, vehicle: str, found: Erased) -> None:
    """Who the vehicle was, in the audit log; then the server's own log of all this, to its last segment."""
    what = f"{found.name}: {found.frames} frames, {sum(found.rows.values())} rows"
    database.execute("SELECT odograph.audit_append('vehicle erased', NULL, %s)", (what,))
    database.execute("DELETE FROM odograph.pseudonym WHERE vehicle_id = %s", (vehicle,))
    _rewritten(database, ["odograph.pseudonym"])
    try:
        for statement in ("SELECT pg_switch_wal()", "CHECKPOINT", SQL["log"]):
            database.execute(statement)
    except psycopg.errors.InsufficientPrivilege as error:
        found.remarks.append(f"the database's own log holds it until it is written over: {error}")


def _certificates(settings: Settings, vehicle: str) -> None:
    folder = settings.paths.home / identity.FOLDER / identity.DEVICES / "issued" / vehicle
    if folder.exists():
        with suppress(ConfigError):  # none was valid
            devices.revoke(Stack(settings, lambda _: None), vehicle)
        shutil.rmtree(folder)


def _renamed(folders: Iterable[Path], vehicle: str, name: str) -> int:
    """Write the name over the vehicle's id, which is as long, wherever it stands; how many files had it.

    In place: programs that append to a file go on.
    """
    count = 0
    for path in chain.from_iterable(folder.rglob("*") for folder in folders):
        if path.is_symlink() or not path.is_file():
            continue
        opened = os.open(path, os.O_RDWR | os.O_NOFOLLOW)  # programs write in these folders too
        with open(opened, "r+b") as file:  # noqa: PTH123
            fcntl.flock(file, fcntl.LOCK_SH)  # a full log is not put aside meanwhile
            if not os.fstat(opened).st_size:
                continue
            with mmap.mmap(opened, 0) as text:
                places = [found.start() for found in re.finditer(vehicle.encode(), text)]
                for at in places:
                    text[at : at + len(vehicle)] = name.encode()
                count += bool(places)
    return count
