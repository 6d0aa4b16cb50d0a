"""A vehicle with a week of data is erased beside the running pipeline; every store's bytes are searched."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import time
import zipfile
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import paho.mqtt.publish
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from psycopg.rows import dict_row

from infra.clients.db import session
from infra.clients.kafka import LogReader
from infra.contract.errors import ServiceError
from infra.contract.topics import KAFKA_TOPICS, kafka_topic, mqtt_topic
from infra.stack.downloads.cache import remove_tree
from infra.stack.supervisor import odograph
from load_tests.drills.aggregates import digested, start_jobs
from load_tests.drills.flow import Load, finish
from load_tests.drills.rescale import vehicles
from load_tests.drills.site import Site, until
from load_tests.drills.topic_admin import configure_topic
from load_tests.drills.verdict import Promise, Verdict
from stream_jobs.app.jobs import STREAM_CONF
from stream_jobs.app.session import LOCAL, build_session
from stream_jobs.recovery.checkpoints import Checkpoint
from stream_jobs.recovery.files import LocalFiles
from stream_jobs.recovery.rescale import QUERY

DAYS: Final = 7
COMMAND_S: Final = 1800.0
BEGIN_S: Final = 120.0
QUIET_S: Final = 310.0
GONE_S: Final = 900.0
OTHER_SEED: Final = 1000
BESIDE_S: Final = QUIET_S + 180.0
"""So long others drive, while it is silent and is erased."""
LATER_S: Final = 120.0
"""And after that: the state's files are merged when there are new ones."""
PACKED: Final = (".sst", ".zip", ".changelog", ".data", ".index")
"""Ends of names of Spark's state and shuffles, which are compressed: none may be of before the erasure."""
ROUGH: Final = ("--late", "0.05", "--duplicate", "0.05", "--fault", "crash=0.3", "--fault", "worn_pads=0.5")
PROGRAMS: Final = {
    "instant": ("jobs", "instant"), "downlink": ("downlink",), "watch": ("watch",),
}  # fmt: skip
COMPACTED: Final = ("status", "incidents")
QUICK: Final = {
    "file.delete.delay.ms": "100", "max.compaction.lag.ms": "1", "delete.retention.ms": "0",
    "compression.type": "uncompressed",
}  # fmt: skip
PLAIN: Final = ("ALTER SYSTEM SET wal_compression = off", "SELECT pg_reload_conf()")
CHOSEN: Final = """
SELECT w.vehicle_id, count(DISTINCT w.window_start::date) AS days, count(DISTINCT c.crash_id) AS crashes,
       (SELECT count(*) FROM odograph.alert_event a WHERE a.vehicle_id = w.vehicle_id) AS alerts
FROM odograph.vehicle_window w LEFT JOIN odograph.crash_record c USING (vehicle_id)
LEFT JOIN odograph.crash_lock l USING (vehicle_id, boot_id, crash_id)
GROUP BY w.vehicle_id HAVING count(l.crash_id) = 0 ORDER BY days DESC, crashes DESC, alerts DESC LIMIT 1
"""
ROADS: Final = ("road_cell_window", "road_edge_window")
KEPT: Final = """
SELECT pg_relation_filepath(c.oid) AS path FROM pg_class c LEFT JOIN pg_index i ON i.indexrelid = c.oid
WHERE 'odograph.custody'::regclass IN (c.oid, i.indrelid)
"""
"""The custody log says of whom there was a crash record, for good."""


def erasure(site: Site, load: Load) -> Verdict:
    """Minutes through the live path, a week by the batch path; a vehicle goes, what others drove stays."""
    for topic in KAFKA_TOPICS:
        for key, value in QUICK.items():
            name = kafka_topic(site.settings.kafka.prefix, topic.name)
            configure_topic(site.endpoints.kafka_bootstrap, name, key, value)
    with session(site.stack.superuser_url(), autocommit=True) as superuser:
        for statement in PLAIN:
            superuser.execute(statement.encode())
    *days, today = [f"{datetime.now(UTC) - timedelta(days=ago):%Y-%m-%d}" for ago in range(DAYS, -1, -1)]
    ended = _lived(site, load)
    site.simulate("beside", *Load(load.rate, BESIDE_S, load.seed + OTHER_SEED).arguments())
    frames = sum(_brought_in(site, day, load) for day in days)
    chosen = _chosen(site)
    vehicle = str(chosen["vehicle_id"])
    site.say(f"{vehicle} is to go; it must be silent for 5 minutes")
    time.sleep(max(0.0, ended.timestamp() + QUIET_S - time.time()))
    before, roads = holding(site, vehicle), _roads(site, ended)
    shared = {window for window in roads if json.loads(window)["vehicles"] > 1}
    done = json.loads(_said(site, "privacy", "erase", vehicle, "--yes", "--json", "--wait", "10m").stdout)
    erased_s = time.time()
    after = _roads(site, ended)
    promises = [
        Promise("it has data of a week", chosen["days"] >= DAYS, f"{chosen}"),
        Promise("the search finds it before", len(before) >= 5, f"files by store: {before}"),
        Promise("windows of roads where others drove are unchanged, those where it was alone are gone",
                set() != shared <= after < roads,
                f"{len(shared)} shared of {len(roads)}, {len(shared - after)} of them changed; "
                f"{len(after)} left, {len(after - roads)} of them new"),
    ]  # fmt: skip
    finish(site, "beside", BESIDE_S)
    site.simulate("later", *Load(load.rate, LATER_S, load.seed + OTHER_SEED).arguments())
    finish(site, "later", LATER_S + BEGIN_S)
    left: dict[str, int] = {}

    def gone() -> bool:
        left.clear()
        left.update(holding(site, vehicle), **_packed_before(site, erased_s))
        return not left

    with contextlib.suppress(ServiceError):
        until(gone, GONE_S, "no store holds it")
    text = f"files by store: {left}; {time.time() - erased_s:.0f} s after the erasure"
    promises += [Promise("no store of the running system holds it", not left, text), _audited(site, done)]
    for program in ("jobs", "instant"):
        site.stop(program)
    known = _remembered(site)
    text = f"{len(known)} vehicles"
    promises.append(
        Promise("the stream's state remembers others, and not it", set() != known - {vehicle} == known, text)
    )
    promises += [_replayed(site, day) for day in (days[0], today)]
    figures = {"frames": frames, "rows": done["rows"], "erased frames": done["frames"], "log": done["log"]}
    return Verdict("erasure", tuple(promises), figures)


def _said(site: Site, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        odograph(*words), env=site.env, check=check, text=True, stdout=subprocess.PIPE, timeout=COMMAND_S
    )


def _audited(site: Site, done: dict[str, Any]) -> Promise:
    """The conservation ledger of all days; the record that erases is no frame."""
    told = _said(site, "audit", "--since", f"{24 * (DAYS + 1)}h", "--json", "--wait", "120s", check=False)
    erased = json.loads(told.stdout)["vehicles"].get(done["name"], {}).get("erased", 0)
    text = f"exit code {told.returncode}, {erased} erased of {done['frames']} records"
    balances = told.returncode == 0 and 0 < erased < done["frames"]
    return Promise("the ledger balances, with the erased frames", balances, text)


def _brought_in(site: Site, day: str, load: Load) -> int:
    """A day's drives, of minutes, into archive and windows; how many frames."""
    folder = site.home / "days" / f"week-{day}"
    fleet = ("-c", f"{load.vehicles}", "--seed", f"{load.seed}", "--interval", "10s", "--duration", "20m")
    _said(site, "simulate", "--day", day, *fleet, "--run-id", folder.name)
    frames = json.loads(_said(site, "backfill", "--day-folder", str(folder), "--json").stdout)["frames"]
    remove_tree(folder)
    return int(frames)


def _lived(site: Site, load: Load) -> datetime:
    """The same vehicles through the running pipeline, with faults, until all is taken in; when it ended."""
    site.bridge()
    start_jobs(site)
    for name, words in PROGRAMS.items():
        site.start(name, odograph(*words))
    site.simulate("live", *load.arguments(*ROUGH))
    finish(site, "live", load.duration_s + BEGIN_S)
    ended = datetime.now(UTC)
    digested(site)
    return ended


def _chosen(site: Site) -> dict[str, Any]:
    """Who is to go: of most days, with a crash record and alerts; it also sends what no parser takes."""
    with session(site.endpoints.db_owner_url, row_factory=dict_row) as connection:
        chosen: dict[str, Any] = connection.execute(CHOSEN).fetchall()[0]
    broken = f'{{"vehicle_id": "{chosen["vehicle_id"]}", broken'
    topic = mqtt_topic(site.settings.mqtt.root, chosen["vehicle_id"], "telemetry")
    where = site.endpoints
    paho.mqtt.publish.single(topic, broken, qos=1, hostname=where.mqtt_host, port=where.mqtt_port)
    return chosen


def _roads(site: Site, ended: datetime) -> set[str]:
    """Windows of roads of before the minute in which the load ended, as JSON."""
    query = "SELECT to_jsonb(w)::text FROM odograph.{} w WHERE window_start < date_trunc('minute', %s)"
    with session(site.endpoints.db_owner_url) as connection:
        found = (connection.execute(query.format(table).encode(), (ended,)) for table in ROADS)
        return {text for rows in found for (text,) in rows}


def _remembered(site: Site) -> set[str]:
    """The vehicles in the state of the query telemetry, which is compressed; it must not run."""
    spark = build_session(site.settings, "erasure", site.settings.jobs.driver_mb, LOCAL, STREAM_CONF)
    try:
        state = Checkpoint(LocalFiles(f"{site.home / 'checkpoints'}"), QUERY)
        return {*vehicles(spark, site.settings, state)}
    finally:
        spark.stop()


def _replayed(site: Site, day: str) -> Promise:
    run = "after_" + day.replace("-", "_")
    words = ("--day", day, "--run", run, "--jobs", "stream", "--speed", "max", "--lead", "1s", "--verify")
    site.start(run, odograph("replay", *words))
    code = site.ended(run, COMMAND_S)
    said = site.log(run).strip().splitlines()
    _said(site, "replay", "drop", run)
    return Promise(f"replay of {day}: every window is equal", code == 0, f"exit code {code}: {said[-1]}")


def forms(vehicle: str) -> list[bytes]:
    """How an id may stand in bytes: as it is, UTF-16, hexadecimal, in Base64 at any place."""
    raw = vehicle.encode()
    coded = [base64.b64encode(b"\0" * k + raw)[(4 * k + 2) // 3 :].rstrip(b"=")[:-1] for k in range(3)]
    return [raw, vehicle.encode("utf-16-le"), raw.hex().encode(), raw.hex().upper().encode(), *coded]


def holding(site: Site, vehicle: str) -> dict[str, int]:
    """Where the id is: files of the home by store, and what only reading decompresses, records and columns.

    Left out: the custody log; in compacted topics keys of records without a value, until they are compacted.
    """
    wanted, found = forms(vehicle), Counter[str]()
    with session(site.endpoints.db_owner_url) as connection:
        custody = tuple(path for (path,) in connection.execute(KEPT.encode()) if path)
    prefix = site.settings.kafka.prefix
    compacted = tuple(kafka_topic(prefix, name) + "-" for name in COMPACTED)
    for path in _files(site.home):
        parts = path.relative_to(site.home).parts
        if path.is_symlink() or not path.is_file() or path.parent.name.startswith(compacted):
            continue
        if not str(path).endswith(custody) and any(form in part for part in _bytes(path) for form in wanted):
            found["/".join(parts[:2] if parts[0] == "data" else parts[:1])] += 1
    with LogReader(site.endpoints.kafka_bootstrap) as log:
        for topic in KAFKA_TOPICS:
            name = kafka_topic(prefix, topic.name)
            for partition, bounds in log.spans(name).items():
                records = (r for r in log.records(name, partition, *bounds) if r.value)
                found[f"topic {topic.name}"] += sum(
                    vehicle in f"{r.key}{r.value!r}{r.headers}" for r in records
                )
    return {store: count for store, count in found.items() if count}


def _packed_before(site: Site, moment_s: float) -> dict[str, int]:
    """Files of Spark's that were written before a moment, by folder."""
    found = Counter[str]()
    for path in (*_files(site.home / "checkpoints"), *_files(site.home / "run")):
        with contextlib.suppress(FileNotFoundError):
            if path.suffix in PACKED and path.stat().st_mtime < moment_s:
                found[f"old {path.relative_to(site.home).parts[0]}{path.suffix}"] += 1
    return found


def _files(folder: Path) -> Iterator[Path]:
    """The files below a folder, whatever goes away meanwhile."""
    for where, _, names in os.walk(folder):
        yield from (Path(where, name) for name in names)


def _bytes(path: Path) -> Iterator[bytes]:
    """A file's bytes; of an archive of files and of Parquet what is compressed in it, too."""
    try:
        yield path.read_bytes()
        if path.suffix == ".zip" and zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as packed:
                yield from map(packed.read, packed.namelist())
        if path.suffix == ".parquet":
            for column in pq.read_table(path, partitioning=None).columns:
                if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
                    yield b"\n".join(pc.unique(column).cast(pa.binary()).drop_null().to_pylist())
    except FileNotFoundError:  # gone meanwhile
        return
