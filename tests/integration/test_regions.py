"""Two regions, each with its Kafka: a log is copied, one takes over from the other and gives back."""

from __future__ import annotations

import json
import pwd
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from confluent_kafka.admin import ConfigResource

from infra.clients.db import connected
from infra.clients.kafka import LogReader, admin
from infra.contract.policy import OPERATOR
from infra.contract.topics import LIVE, kafka_topic
from infra.settings.sections import Region
from infra.settings.settings import ENDPOINTS_FILE, Endpoints
from infra.stack import processes
from infra.stack.hosts import mirror
from infra.stack.hosts.regions import found, known_spans
from infra.stack.service import free_port
from infra.stack.stack import Stack
from load_tests.drills.link import Link
from stream_jobs.recovery.checkpoints import LOGS
from tests.integration.downlink_support import Receiver, fresh, tell
from tests.integration.events_support import T0, VINS, change, crash, health, produce, rows, until_ready
from tests.integration.killing import kill
from tests.integration.test_downlink import A as VEHICLE
from tests.integration.test_downlink import with_hooks
from tests.support import Lane, LaneProcess, end_at_once, eventually, open_lane

pytestmark = pytest.mark.integration

START_S = 900.0
SOON_S = 300.0
LONG_AGO = 1_700_000_000_000
OTHER, INGEST = "ODOGRAPH_REGION_OTHER", "ODOGRAPH_DB_INGEST_URL"
DB = ("db_owner_url", "db_ingest_url", "db_dashboard_url", "db_dispatch_url")


@pytest.fixture
def lane(stack: Stack) -> Iterator[Lane]:
    with open_lane(stack, topics=False, lease={"ttl_s": 2}, kafka={"heap_mb": 256}) as opened:
        yield opened


def regions(lane: Lane) -> tuple[Lane, Lane]:
    """Homes of two regions over the lane's database."""
    ports: dict[str, int] = {}
    for name in ("A", "B"):
        ports[name] = free_port(ports.values())
    urls = dict(zip(("URL", "INGEST_URL", "DASHBOARD_URL", "DISPATCH_URL"), DB, strict=True))
    env = lane.env | {f"ODOGRAPH_DB_{key}": getattr(lane.endpoints, name) for key, name in urls.items()}
    first, second = (
        replace(
            lane,
            home=lane.home / name,
            env=env
            | {
                "ODOGRAPH_PATHS_HOME": str(lane.home / name),
                "ODOGRAPH_KAFKA_PORT": str(ports[name]),
                "ODOGRAPH_REGION_NAME": name,
                OTHER: f"{other}=127.0.0.1:{ports[other]}",
            },
        )
        for name, other in (("A", "B"), ("B", "A"))
    )
    return first, second


def command(region: Lane, *arguments: str, services_only: bool = True) -> tuple[Lane, str]:
    """A command that leaves the region's services running, and what it says; the region as it is then."""
    done = region.run(*arguments, *["--services-only"] * services_only, timeout_s=START_S)
    assert done.returncode == 0, done.stderr
    there = Endpoints(**json.loads((region.home / ENDPOINTS_FILE).read_text()))
    return replace(region, endpoints=there.logged_in(OPERATOR)), done.stderr


def log(region: Lane, name: str) -> list[tuple[int, str | None, bytes, int]]:
    """A topic's records: partition, key, value, time; in order of their partitions."""
    topic = kafka_topic(region.settings.kafka.prefix, name)
    with LogReader(region.endpoints.kafka_bootstrap, timeout_s=60) as reader:
        return [
            (r.partition, r.key, r.value, r.received_ms)
            for place, span in reader.spans(topic).items()
            for r in reader.records(topic, place, *span)
        ]


def frames(numbers: range) -> list[tuple[str, bytes]]:
    return [(VINS[n % len(VINS)], b'{"seq":%d}' % n) for n in numbers]


def acting(lane: Lane) -> tuple[str, str]:
    row = rows(lane, "SELECT active, copies_to FROM odograph.region")[0]
    return row["active"], row["copies_to"]


@pytest.mark.timeout(3600)
def test_a_region_takes_over_gets_what_it_lacks_and_gives_back_copies_by_lease_only_nobody_told_twice(
    lane: Lane, tmp_path: Path
) -> None:
    first, second = regions(lane)
    first, said = command(first, "up")
    second, said = command(second, "up")
    assert "region A acts: this one, B, copies its log and waits" in said
    assert processes.find(second.home / "run", "mosquitto") is None
    try:
        with Receiver([]) as hook:
            _over_and_back(lane, with_hooks(first, hook.port), with_hooks(second, hook.port), hook)
    finally:
        for region in (first, second):
            end_at_once(region.home)


def _over_and_back(lane: Lane, first: Lane, second: Lane, hook: Receiver) -> None:
    produce(first, "telemetry", frames(range(50)), T0)
    produce(first, "crash", [crash(0, 0, T0)], LONG_AGO)
    with first.process("downlink") as old:
        until_ready(first, "downlink")
        with second.process("mirror") as copying:
            eventually(
                lambda: copying.assert_running() or log(second, "telemetry") == log(first, "telemetry"),
                START_S,
                "the log is copied",
            )
            assert log(second, "crash") == log(first, "crash")
            tell(first, [fresh("a1", VEHICLE), fresh("a2", VEHICLE)])
            eventually(lambda: hook.accepted == ["a1", "a2"], SOON_S, "A tells")
            eventually(lambda: len(log(second, "alerts")) == 2, SOON_S, "and that is copied")
            eventually(lambda: _noted(second) == {"telemetry": 50, "crash": 1, "alerts": 2}, SOON_S, "noted")
        with first.process("jobs", "events"):
            tell(first, [fresh("a3", VEHICLE)])
            produce(first, "telemetry", frames(range(50, 60)), T0)
            eventually(lambda: hook.accepted == ["a1", "a2", "a3"], SOON_S, "A tells what is not copied")
            reads = "SELECT sum(next_offset) AS n FROM odograph.consumer_offset WHERE topic = 'alerts'"
            eventually(lambda: rows(lane, reads)[0]["n"] == 3, SOON_S, "the store knows of it")
        kill(first.home, "kafka")
        second, said = command(second, "failover", "--to", "B")
        assert "at least 1 records of A were not copied" in said
        assert acting(lane) == ("B", "B")
        eventually(lambda: [*(health(first, "downlink") or ())] == ["standby"], SOON_S, "A's stands by")
        old.assert_running()
    with second.process("mirror") as old, second.process("downlink"):
        until_ready(second, "downlink")
        tell(second, [fresh("a3", VEHICLE), fresh("a4", VEHICLE)])
        eventually(lambda: "a4" in hook.accepted, SOON_S, "B tells what is new")
        first, said = command(first, "up")
        assert "region B acts: this one, A, copies its log and waits" in said
        eventually(lambda: len(log(second, "telemetry")) == 60, START_S, "the rest has come")
        came = "SELECT count(*) FILTER (WHERE came_at IS NULL) AS n, count(*) AS of FROM odograph.uncopied"
        eventually(lambda: rows(lane, came)[0] == {"n": 0, "of": 1}, SOON_S, "and that is noted")
        eventually(lambda: len(log(second, "alerts")) == 5, SOON_S, "a3 twice: found again, and copied")
        refused = second.run("failover", "--follow")
        assert (refused.returncode, "acts: the other one follows" in refused.stderr) == (2, True)
        with by_link(first, "mirror") as (copying, link):
            checkpoints = first.home / "checkpoints"
            for query, topics in (("archive", LIVE), ("telemetry", ())):
                (checkpoints / query).mkdir()
                of_before = {kafka_topic(first.settings.kafka.prefix, topic): "of before" for topic in topics}
                (checkpoints / query / LOGS).write_text(json.dumps(of_before))
            first.env["ODOGRAPH_PATHS_CHECKPOINTS"] = f"file://{checkpoints}"
            first, said = command(first, "failover", "--follow")
            assert "region A follows B" in said
            aside = sorted(one.name.partition("-")[0] for one in first.home.glob("checkpoints.old/*"))
            assert ([*checkpoints.iterdir()], aside) == ([], ["archive", "telemetry"])
            assert acting(lane) == ("B", "A")
            eventually(
                lambda: log(first, "telemetry") == log(second, "telemetry"), START_S, "A's log is B's copy"
            )
            eventually(lambda: len(log(first, "alerts")) == 5, SOON_S, "alerts too")
            old.stop()  # it would take the lease
            _copies_by_its_lease_only(lane, second, first, copying, link)
            first, said = command(first, "failover", "--to", "A")
            assert "0 records of B were not copied" in said
    with first.process("downlink"):
        until_ready(first, "downlink")
        tell(first, [fresh("a4", VEHICLE), fresh("a5", VEHICLE)])
        eventually(lambda: "a5" in hook.accepted, SOON_S, "A tells again")
    assert hook.accepted == ["a1", "a2", "a3", "a4", "a5"]


@contextmanager
def by_link(region: Lane, name: str) -> Iterator[tuple[LaneProcess, Link]]:
    """A program of the region that reaches the database by a link."""
    database, file = urlsplit(region.env[INGEST]), region.home / ENDPOINTS_FILE
    before = file.read_text()
    with Link(str(database.hostname), int(database.port or 0)) as link:
        url = region.env[INGEST].replace(f":{database.port}", f":{link.port}")
        file.write_text(json.dumps(asdict(replace(region.endpoints, db_ingest_url=url))))
        with replace(region, env=region.env | {INGEST: url}).process(name) as running:
            eventually(lambda: running.assert_running() or link.heard, SOON_S, "it asks the database")
            file.write_text(before)
            yield running, link


def _copies_by_its_lease_only(
    lane: Lane, source: Lane, target: Lane, copying: LaneProcess, link: Link
) -> None:
    """A mirror that cannot renew its lease copies nothing after it, and goes on when it can.

    That its Java machine ends with the lease where it stands still itself is unit-tested.
    """
    produce(source, "telemetry", frames(range(60, 70)), T0)
    eventually(lambda: _arrived(target, copying, 70), START_S, "what came is copied")
    assert _machines(copying)
    link.refuse()
    over = "SELECT expires_at <= clock_timestamp() AS over FROM odograph.lease WHERE name = 'mirror'"
    eventually(lambda: rows(lane, over)[0]["over"], SOON_S, "the lease has ended")
    produce(source, "telemetry", frames(range(70, 80)), T0)
    eventually(lambda: not _machines(copying), SOON_S, "its Java machine is gone, which was killed before")
    assert len(log(target, "telemetry")) == 70
    link.heal()
    eventually(lambda: _arrived(target, copying, 80), START_S, "what came meanwhile is copied")


def _arrived(target: Lane, copying: LaneProcess, count: int) -> bool:
    copying.assert_running()
    return len(log(target, "telemetry")) == count


def _machines(copying: LaneProcess) -> list[int]:
    """The Java machines that run below a process."""
    found = []
    for pid in processes.tree(copying.child.pid):
        with suppress(OSError):  # it ends this moment
            if processes.start_ticks(pid) is not None and Path(f"/proc/{pid}/comm").read_text() == "java\n":
                found.append(pid)
    return found


@pytest.mark.timeout(1800)
def test_in_secure_homes_the_mirror_is_a_user_of_its_own_and_nothing_is_refused_on_the_way_and_back(
    lane: Lane,
) -> None:
    both = regions(lane)
    alone = (replace(one, env={k: v for k, v in one.env.items() if k != OTHER}) for one in both)
    files = {"CA": "ca", "CERT": "mirror"}
    first, second = (
        replace(
            one,
            env=one.env
            | {f"{OTHER}_{key}_FILE": f"{of.home}/ca/services/{name}.pem" for key, name in files.items()},
        )
        for one, of in zip(both, reversed(both), strict=True)
    )
    try:
        for one in alone:
            command(one, "up", "--secure")
        first, _ = command(first, "up")
        second = _copying(second)
        produce(first, "telemetry", frames(range(20)), T0)
        same = "the log is copied"
        eventually(lambda: log(second, "telemetry") == log(first, "telemetry"), START_S, same)
        second, said = command(second, "failover", "--to", "B")
        assert "0 records of A were not copied" in said
        first = _copying(first)
        assert first.run("failover", "--follow", "--services-only", timeout_s=START_S).returncode == 0
        assert acting(lane) == ("B", "A")
        produce(second, "telemetry", frames(range(20, 30)), T0)
        eventually(lambda: len(log(first, "telemetry")) == 30, START_S, same)
        for one in both:
            assert "is Denied" not in (one.home / "logs" / "kafka.log").read_text()
    finally:
        for one in both:
            end_at_once(one.home)


def _copying(region: Lane) -> Lane:
    """The region after `up`, where it waits: its mirror runs, as a system user of its own."""
    region, said = command(region, "up", services_only=False)
    assert "copies its log and waits" in said
    running = processes.all_running(region.home / "run")
    assert {one.name for one in running} == {"kafka", "supervisor", "mirror"}
    (copying,) = (one.pid for one in running if one.name == "mirror")
    uid = pwd.getpwnam("odograph-mirror").pw_uid
    assert Path(f"/proc/{copying}").stat().st_uid == uid
    return region


def test_offsets_of_one_regions_log_are_not_taken_for_the_others(lane: Lane) -> None:
    prefix, url = lane.settings.kafka.prefix, lane.endpoints.db_owner_url
    topic = kafka_topic(prefix, "telemetry")
    change(lane, "INSERT INTO odograph.consumer_offset VALUES ('events', 'alerts', 0, 5)")
    line = (
        "INSERT INTO odograph.batch_ledger (query_id, batch_id, query, rows, ends) VALUES (%s, 0, %s, 1, %s)"
    )
    change(lane, line, str(uuid4()), "telemetry", json.dumps({topic: {"0": 70, "1": 95}}))
    lag = (
        "INSERT INTO odograph.partition_lag (reader, topic, partition, log_end, read_to, at, good_until) "
        "VALUES ('telemetry', 'telemetry', 1, 90, 80, now(), now()) ON CONFLICT (reader, topic, partition) "
        "DO UPDATE SET region = excluded.region"
    )
    change(lane, lag)
    key = "INSERT INTO odograph.top_key (topic, vehicle_id, partition, share) VALUES ('telemetry', %s, 1, 1)"
    change(lane, key, VINS[0])
    shown, keys = "SELECT lag FROM serving.partition_lag", "SELECT vehicle_id FROM serving.top_key"
    known = {("alerts", 0): (0, 5), ("telemetry", 0): (0, 70), ("telemetry", 1): (0, 95)}
    with connected(url) as database:
        assert known_spans(database, prefix) == known
    found(Region(name="A", other="B=127.0.0.1:1"), url)
    with connected(url) as database:
        assert known_spans(database, prefix) == known
    assert [row["lag"] for row in rows(lane, shown)] == [10]
    assert [row["vehicle_id"] for row in rows(lane, keys)] == VINS[:1]
    change(lane, "UPDATE odograph.region SET active = 'B'")
    with connected(url) as database:
        assert known_spans(database, prefix) == {}
    assert rows(lane, shown) == rows(lane, keys) == []
    with replace(lane, env=lane.env | {"ODOGRAPH_REGION_NAME": "A"}).process("watch"):
        eventually(
            lambda: "region B acts" in (health(lane, "watch") or {}).get("database", ""),
            SOON_S,
            "A's watch waits",
        )
    assert rows(lane, "SELECT 1 FROM odograph.stage_sample") == []
    change(lane, lag)
    with connected(url) as database:
        assert known_spans(database, prefix) == {("telemetry", 1): (0, 90)}
    assert [row["lag"] for row in rows(lane, shown)] == [10]


def _noted(region: Lane) -> dict[str, int]:
    """How far MirrorMaker says that it is, by topic."""
    found: dict[str, int] = {}
    where, prefix = region.endpoints.kafka_bootstrap, region.settings.kafka.prefix
    for (topic, _), end in mirror.copied(where, "A", prefix).items():
        found[topic] = found.get(topic, 0) + end
    notes = ConfigResource(ConfigResource.Type.TOPIC, "mm2-offsets.A.internal")
    if found:  # they are read whole again and again, so they must stay short
        client = admin(where)
        ((_, told),) = client.describe_configs([notes]).items()
        kept = told.result(30)
        assert (kept["segment.ms"].value, kept["cleanup.policy"].value) == ("60000", "compact")
    return found
