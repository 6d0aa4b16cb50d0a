"""A vehicle's data as a copy, and its end: no store holds it, others' data stay, and the ledger balances."""

from __future__ import annotations

import csv
import hashlib
import itertools
import threading
from collections.abc import Iterator
from pathlib import Path

import orjson
import psycopg
import pyarrow.parquet as pq
import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from infra.clients import kafka
from infra.clients.health import in_background
from infra.contract.errors import ServiceError
from infra.contract.topics import kafka_topic
from infra.stack.kafka import SEGMENT, SEGMENT_EACH, create_topics
from infra.stack.stack import Stack
from stream_jobs.privacy import erase
from stream_jobs.privacy.log import VehicleLog
from stream_jobs.recovery.files import LocalFiles
from tests.integration.events_support import (
    T0,
    VINS,
    alert,
    change,
    crash,
    frame,
    produce,
    rows,
    status,
    until_count,
)
from tests.integration.stream_support import ready
from tests.support import Lane, eventually, open_lane
from tests.support_frames import send

pytestmark = pytest.mark.integration

GONE, STAYS, HELD = VINS[:3]
FRAMES = 90
FAST = {"trigger_s": 0.5, "archive_trigger_s": 0.5, "publish_s": 0, "max_offsets": 300, "lateness_s": 5}
CONSENT = ("--basis", "consent: form 7")
COMPACTED = ("status", "incidents")
QUICK = {"file.delete.delay.ms": "100", "max.compaction.lag.ms": "1", "delete.retention.ms": "0"}
DONE_S = 240.0


@pytest.fixture(scope="module")
def lane(stack: Stack) -> Iterator[Lane]:
    """Three vehicles that have driven: frames, late ones, alerts, statuses, dead letters, crash records."""
    with open_lane(stack, jobs=FAST, archive={"grace_min": 0}) as lane:
        quicker(lane, "telemetry", "alerts", "crash", "dead-letter", *COMPACTED)
        with lane.process("jobs", "stream") as process, lane.process("jobs", "events"):
            drives = [
                (T0 + 1000 * s + (400_000 if s in (30, 31) else 1500), driven(v, s))
                for s in range(FRAMES) for v in range(3)
            ]  # fmt: skip
            send(lane, sorted(drives))
            produce(lane, "status", [status(v, "online", T0, "Golf") for v in range(3)], T0)
            produce(lane, "alerts", [alert(v, s) for v in range(3) for s in (10, 40)], T0 + 60_000)
            letters = [(VINS[v], b'{"vehicle_id": "%s", broken' % VINS[v].encode()) for v in range(3)]
            produce(lane, "dead-letter", letters, T0 + 60_000)
            produce(lane, "crash", [crash_of(v) for v in range(3)], T0 + 70_000)
            eventually(lambda: ready(lane, process), DONE_S, "the stream application is ready")
            for table, wanted in (("crash_record", 3), ("dead_letter", 3), ("late_frame", 6), ("vehicle", 3)):
                until_count(lane, table, wanted)
            eventually(lambda: frames_of(lane, STAYS) >= FRAMES - 2, DONE_S, "windows are there")
            change(lane, "UPDATE odograph.retention SET dropped_before = dropped_before")
            yield lane
            process.kill()  # nobody needs what it would still put in order


def driven(vehicle: int, second: int) -> bytes:
    """A frame; GONE is far from the others in the end."""
    value = frame(vehicle, second, T0 + 1000 * second)[1][:-1] + b',"ignition_on":true}'
    return value.replace(b"52.5", b"53.5") if (VINS[vehicle], second >= 70) == (GONE, True) else value


def crash_of(vehicle: int) -> tuple[str, bytes]:
    """A crash record; of HELD one that is locked."""
    key, value = crash(vehicle, 80, T0 + 69_000)
    return key, orjson.dumps(orjson.loads(value) | {"airbag_deployed": key == HELD, "restraints_ms": {}})


def quicker(lane: Lane, *topics: str) -> None:
    """Let Kafka clean up at once what it cleans up within minutes or hours."""
    entries = [ConfigEntry(k, v, incremental_operation=AlterConfigOpType.SET) for k, v in QUICK.items()]
    names = [kafka_topic(lane.settings.kafka.prefix, topic) for topic in topics]
    asked = [ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries) for name in names]
    client = kafka.admin(lane.endpoints.kafka_bootstrap)
    for done in client.incremental_alter_configs(asked).values():
        done.result(30)


def frames_of(lane: Lane, vehicle: str) -> int:
    query = "SELECT coalesce(sum(frames), 0)::int AS n FROM odograph.vehicle_window WHERE vehicle_id = %s"
    return int(rows(lane, query, vehicle)[0]["n"])


def named_in(lane: Lane, vehicle: str) -> set[str]:
    """Tables with the vehicle's id in any row, in whatever column."""
    query = (
        "SELECT n.nspname || '.' || c.relname AS name FROM pg_class c "
        "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p') "
        "AND n.nspname !~ '^(pg_|information_schema|_timescaledb)'"
    )
    found = "SELECT 1 FROM {} t WHERE strpos(t::text, %s) > 0 LIMIT 1"
    with psycopg.connect(lane.endpoints.db_owner_url, autocommit=True) as owner:
        names = [name for (name,) in owner.execute(query).fetchall()]
        return {name for name in names if owner.execute(found.format(name).encode(), (vehicle,)).fetchone()}


def erased(lane: Lane, vehicle: str, wait_s: float = 200.0) -> erase.Erased:
    """What the command does, without its pause for what a bridge may still carry: none runs here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(erase, "BRIDGED_S", 0.0)
        patch.setattr(erase, "POLL_S", 0.1)
        return erase.erase(lane.settings, vehicle, wait_s, lambda _: None)


def test_a_copy_holds_all_of_one_vehicle_and_nothing_of_others(lane: Lane, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    done = lane.run("privacy", "export", STAYS, "--out", str(folder), "--json", *CONSENT)
    assert done.returncode == 0, done.stderr
    made = orjson.loads(done.stdout)
    assert {path.name for path in folder.iterdir()} == {*made["files"], "manifest.json"}
    for name, told in made["files"].items():
        content = (folder / name).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (told["bytes"], told["sha256"])
        assert GONE.encode() not in content, name
        if name.endswith(".csv"):
            with (folder / name).open(newline="") as file:
                assert len([*csv.reader(file)]) == told["rows"] + 1
    frames = pq.read_table(folder / "frames.parquet")
    assert set(frames["vehicle_id"].to_pylist()) == {STAYS}
    assert len(frames) == FRAMES
    tables = {f"odograph.{name.removesuffix('.csv')}" for name in made["files"] if name.endswith(".csv")}
    assert tables >= named_in(lane, STAYS) - {"odograph.pseudonym", "odograph.window_change"}
    assert folder.stat().st_mode & 0o077 == 0
    assert (made["legal_basis"]["basis"], made["legal_basis"]["reference"]) == ("consent", "form 7")

    noted = rows(lane, "SELECT vehicle_id, action, detail FROM serving.audit_log ORDER BY entry DESC LIMIT 1")
    assert (noted[0]["vehicle_id"], noted[0]["action"]) == (STAYS, "downloaded")
    assert noted[0]["detail"].endswith("; consent: form 7")
    again = lane.run("privacy", "export", STAYS, "--out", str(tmp_path / "again"), *CONSENT)
    assert again.returncode == 0, again.stderr
    assert "consent: form 7" in (tmp_path / "again" / "audit_log.csv").read_text()
    for words, why in (
        ((STAYS, "--out", str(folder), *CONSENT), "exists"),
        (("1FTFW1ET5DFC10312", "--out", str(tmp_path / "none"), *CONSENT), "nothing is known"),
        (("someone", "--out", str(tmp_path / "none"), *CONSENT), "no vehicle id"),
        ((STAYS, "--out", str(tmp_path / "none")), "a legal basis is wanted"),
        ((STAYS, "--out", str(tmp_path / "none"), "--basis", "research: study 12"), "must not be named"),
    ):
        refused = lane.run("privacy", "export", *words)
        assert (refused.returncode, why in refused.stderr) == (2, True), refused.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"copy", "again"}


def test_nothing_of_an_erased_vehicle_is_left_and_the_ledger_balances(stack: Stack, lane: Lane) -> None:
    assert lane.run("privacy", "erase", GONE).returncode == 2
    with psycopg.connect(lane.endpoints.db_program_urls["jobs"]) as jobs:  # a table of users' SQL is its own
        jobs.execute("CREATE TABLE user_sql.seen AS SELECT unnest(%s::text[]) AS vehicle_id", [VINS[:3]])
    before = {vehicle: named_in(lane, vehicle) for vehicle in (STAYS, HELD)}
    roads = rows(lane, "SELECT * FROM odograph.road_cell_window ORDER BY cell, window_start")
    done = lane.run("privacy", "erase", GONE, "--yes", "--wait", "200s", "--json")
    assert done.returncode == 0, done.stderr
    found = orjson.loads(done.stdout)
    assert found["frames"] == FRAMES + 1  # the record that erases is one too
    assert found["kept"] == []
    assert not [remark for remark in found["remarks"] if "own log" in remark]  # it could be written over
    assert found["rows"]["vehicle_window"] >= 9

    assert named_in(lane, GONE) == {"odograph.custody"}
    assert {vehicle: named_in(lane, vehicle) for vehicle in (STAYS, HELD)} == before
    left = [window for window in roads if window["vehicles"] > 1]  # GONE alone was alone
    assert rows(lane, "SELECT * FROM odograph.road_cell_window ORDER BY cell, window_start") == left
    assert 0 < len(left) < len(roads)
    assert frames_of(lane, STAYS) == FRAMES - 2
    balanced = lane.run("audit", "--since", "3h", "--json", "--wait", "60s")
    assert balanced.returncode == 0, balanced.stdout
    assert orjson.loads(balanced.stdout)["vehicles"][found["name"]]["erased"] == FRAMES
    entries = rows(lane, "SELECT action, detail, vehicle_id, holds FROM serving.audit_log ORDER BY entry")
    assert entries[-1]["action"] == "vehicle erased"
    assert found["name"] in entries[-1]["detail"]
    assert all(entry["holds"] for entry in entries)
    verified = lane.run("crash", "verify")
    assert verified.returncode == 0, verified.stdout

    shuffles = [*lane.home.rglob("shuffle_*")]

    def drive_on(stop: threading.Event) -> None:  # new batches let Spark drop the states of old ones
        for seq in itertools.count(FRAMES):
            send(lane, [(T0 + 1000 * seq + 1500, frame(1, seq, T0 + 1000 * seq)[1])])
            if stop.wait(0.5):
                return

    def gone() -> bool:
        assert next(files_with(stack, lane, GONE), None) is None
        assert said_of(lane, GONE) == {b""}
        assert not [path for path in shuffles if path.exists()]
        return True

    with in_background("drive on", drive_on):
        eventually(gone, DONE_S, "no file holds it")
    node = "SELECT pg_relation_filenode('user_sql.seen')::bigint AS node"
    before_it, noted = rows(lane, node), lane.home / erase.NOTED
    assert not noted.exists()
    noted.write_text('["user_sql.dropped", "user_sql.seen"]')  # a killed one had deleted rows of these
    assert erased(lane, GONE).frames == 1
    assert rows(lane, node) != before_it
    assert not noted.exists()


def test_a_crash_record_under_lock_stays(lane: Lane) -> None:
    assert erased(lane, HELD).kept == ["5-80"]
    left = {"odograph.custody", "odograph.crash_lock", "odograph.crash_record"}
    assert named_in(lane, HELD) >= left
    assert named_in(lane, HELD) <= left | {"odograph.crash_verdict", "odograph.crash_part"}
    assert lane.run("crash", "verify").returncode == 0


def said_of(lane: Lane, vehicle: str) -> set[bytes]:
    """What compacted topics say of a vehicle."""
    with kafka.LogReader(lane.endpoints.kafka_bootstrap) as log:
        names = [kafka_topic(lane.settings.kafka.prefix, topic) for topic in COMPACTED]
        places = [(name, p, *bounds) for name in names for p, bounds in log.spans(name).items()]
        records = [record for place in places for record in log.records(*place)]
    return {record.value for record in records if vehicle in (record.key or "") + record.value.decode()}


def files_with(stack: Stack, lane: Lane, vehicle: str) -> Iterator[str]:
    """Files with the vehicle's id in their bytes: of the home, of the lane's database, of its topics.

    In compacted topics a record without a value has it as its key until the second compaction after.
    """
    database = rows(lane, "SELECT oid::text FROM pg_database WHERE datname = current_database()")[0]["oid"]
    custody = rows(lane, "SELECT pg_relation_filepath('odograph.custody') AS path")[0]["path"]
    index = rows(lane, "SELECT pg_relation_filepath('odograph.custody_of_record') AS path")[0]["path"]
    folders = [lane.home, *(path for path in stack.home.rglob(f"base/{database}") if path.is_dir())]
    prefix = lane.settings.kafka.prefix
    compacted = {f"{kafka_topic(prefix, topic)}-0" for topic in COMPACTED}
    folders += [f for f in stack.home.rglob(f"log/{prefix}*") if f.name not in compacted]
    assert len(folders) > 10
    for folder in folders:
        for path in folder.rglob("*"):
            if path.is_file() and not str(path).endswith((custody, index)) and holds(path, vehicle.encode()):
                yield str(path.relative_to(stack.home))


def holds(path: Path, text: bytes) -> bool:
    try:
        return text in path.read_bytes()
    except FileNotFoundError:
        return False


def test_nothing_is_cut_that_nobody_has_read(stack: Stack, tmp_path: Path) -> None:
    folder = tmp_path / "sql"
    folder.mkdir()
    (folder / "seen.sql").write_text("-- over: frames\n-- key: vehicle_id\nSELECT vehicle_id FROM frames\n")
    with open_lane(stack, jobs={"sql_dir": str(folder)}) as lane:
        send(lane, [(T0 + 1500, frame(0, 0, T0)[1])])
        produce(lane, "dead-letter", [(vin, b"broken") for vin in (GONE, STAYS)], T0)
        topic = kafka_topic(lane.settings.kafka.prefix, "telemetry")
        files = LocalFiles(str(lane.home / "checkpoints"))
        files.write("sql_seen/offsets/0", "v1\n{}\n" + orjson.dumps({topic: {"0": 0}}).decode())
        files.write("sql_seen/commits/0", "v1\n{}")  # it has run, and read nothing of it
        with pytest.raises(ServiceError, match=r"not read .* within 1 s: telemetry, archive, sql_seen"):
            erased(lane, GONE, wait_s=1)
        with kafka.LogReader(lane.endpoints.kafka_bootstrap) as log:
            spans = log.spans(kafka_topic(lane.settings.kafka.prefix, "telemetry"))
            deferred = log.spans(kafka_topic(lane.settings.kafka.prefix, "telemetry-deferred"))
        assert {low for low, _ in spans.values()} == {0}
        assert sum(high for _, high in deferred.values()) == 1  # what waits there unread is waited for, too
        assert [record.key for record in letters_of(lane)] == [GONE, STAYS]  # nothing is there twice


def letters_of(lane: Lane) -> list[kafka.Record]:
    """Dead letters in the log; no markers."""
    topic = kafka_topic(lane.settings.kafka.prefix, "dead-letter")
    with kafka.LogReader(lane.endpoints.kafka_bootstrap) as log:
        return [record for record in log.records(topic, 0, *log.bounds(topic, 0)) if record.value]


def test_what_killed_tries_appended_again_is_there_once_and_what_they_set_is_put_back(stack: Stack) -> None:
    with open_lane(stack) as lane:
        where = lane.endpoints.kafka_bootstrap, lane.settings.kafka.prefix
        # Two of STAYS are the same in every byte.
        produce(lane, "dead-letter", [(vin, b"broken") for vin in (STAYS, GONE, STAYS, HELD)], T0)
        for _ in range(3):  # the first two are killed before the cut
            log = VehicleLog(*where, GONE, ())
            log.mark({})
            log.append_again()
        log.cut()
        left = letters_of(lane)
        assert sorted(str(record.key) for record in left) == sorted([STAYS, STAYS, HELD])
        assert set(log.moved.values()) == {record.offset for record in left}
        assert log.moved.keys() >= {0, 2, 3}

        client, crashes = kafka.admin(where[0]), kafka_topic(where[1], "crash")

        def segment() -> str:
            (asked,) = client.describe_configs([ConfigResource(ResourceType.TOPIC, crashes)]).values()
            return str(asked.result(30)[SEGMENT].value)

        each = ConfigEntry(SEGMENT, SEGMENT_EACH, incremental_operation=AlterConfigOpType.SET)
        log._set([crashes], each)  # and killed
        assert segment() == SEGMENT_EACH
        create_topics(*where)
        assert segment() != SEGMENT_EACH
