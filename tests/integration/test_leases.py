"""Pairs of singletons: one acts, the other takes over when it stalls, and who comes back writes nothing."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, replace

import orjson
import psycopg
import pytest

from infra.clients.leases import Lease, LeaseLostError, Term, _now_s
from infra.contract.errors import ConfigError, ServiceError
from infra.settings import sections
from infra.settings.settings import ENDPOINTS_FILE, Settings
from infra.stack.stack import Stack
from stream_jobs.app.database import Connection, Database, execute, fetch
from stream_jobs.recovery.checkpoints import reset
from stream_jobs.recovery.files import LocalFiles
from tests.integration.downlink_support import Receiver, fresh, listening, tell
from tests.integration.events_support import (
    STORED_S,
    T0,
    alert,
    health,
    produce,
    rows,
    snapshot,
    until_count,
    until_read,
    until_ready,
)
from tests.integration.test_downlink import A, with_hooks
from tests.support import Lane, LaneProcess, eventually, http_ports, open_lane

pytestmark = pytest.mark.integration

TTL_S = 2.0


@pytest.fixture
def lane(stack: Stack) -> Iterator[Lane]:
    with open_lane(stack, topics=False, lease={"ttl_s": TTL_S}) as opened:
        yield opened


def elsewhere(lane: Lane) -> Lane:
    """The same installation from another host: a home, health pages and a holder of its own."""
    home = lane.home / "elsewhere"
    home.mkdir()
    addresses = replace(lane.endpoints, http_ports=http_ports(lane.endpoints.http_ports.values()))
    (home / ENDPOINTS_FILE).write_bytes(orjson.dumps(asdict(addresses)))
    for key in lane.home.glob("downlink.*"):
        (home / key.name).write_bytes(key.read_bytes())
        (home / key.name).chmod(0o600)
    return replace(lane, home=home, endpoints=addresses, env=lane.env | {"ODOGRAPH_PATHS_HOME": str(home)})


@contextmanager
def stalled(process: LaneProcess) -> Iterator[None]:
    """A process and its group stand still in the block."""
    os.killpg(process.child.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.killpg(process.child.pid, signal.SIGCONT)


def until_standby(lane: Lane, part: str) -> None:
    eventually(lambda: [*(health(lane, part) or ())] == ["standby"], 60, f"{part} stands by")


def epoch(lane: Lane, name: str) -> int:
    return int(rows(lane, "SELECT epoch FROM odograph.lease WHERE name = %s", name)[0]["epoch"])


def lease(lane: Lane, holder: str, *, optional: bool = False) -> Lease:
    held: Settings = lane.settings.model_copy(
        update={"lease": lane.settings.lease.model_copy(update={"holder": holder})}
    )
    return Lease(held, lane.endpoints.db_ingest_url, "test", threading.Event(), optional=optional)


def taken_by(lane: Lane, holder: str, name: str = "test", ttl_s: float = 60) -> None:
    """The lease runs out, as when its holder stalls, and another process takes it."""
    with psycopg.connect(lane.endpoints.db_ingest_url) as other:
        other.execute("UPDATE odograph.lease SET expires_at = now()")
        other.execute("SELECT * FROM odograph.take_lease(%s, %s, %s, false)", [name, holder, ttl_s])


def test_a_programs_login_changes_its_own_lease_and_no_other_one(lane: Lane) -> None:
    urls = lane.endpoints.db_program_urls
    with psycopg.connect(lane.endpoints.db_owner_url) as owner:
        owner.execute("INSERT INTO odograph.lease VALUES ('jobs', 7, 'a', '-infinity')")
    for program in ("downlink", "mirror"):
        with psycopg.connect(urls[program], autocommit=True) as other:
            assert other.execute("UPDATE odograph.lease SET expires_at = 'infinity'").rowcount == 0
            with pytest.raises(psycopg.errors.NotNullViolation):
                other.execute("INSERT INTO odograph.lease DEFAULT VALUES")
            for taken in ("jobs", "events"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
                    other.execute("SELECT * FROM odograph.take_lease(%s, 'b', 60, false)", [taken])
            row = other.execute("SELECT * FROM odograph.take_lease(%s, 'b', 60, false)", [program]).fetchone()
            assert row == (1, "b")
    with psycopg.connect(urls["jobs"]) as jobs:
        assert jobs.execute("SELECT taken FROM odograph.take_lease('jobs', 'b', 60, false)").fetchone() == (
            8,
        )


def test_a_transaction_of_a_holder_that_was_succeeded_meanwhile_writes_nothing(lane: Lane) -> None:
    attempts: list[int] = []

    def overtaken(connection: Connection) -> None:
        attempts.append(execute(connection, "UPDATE odograph.maintenance_task SET failures = failures + 1"))
        taken_by(lane, "b")
        fetch(connection, "SELECT 1")

    def insert(connection: Connection) -> None:
        statement = "INSERT INTO odograph.maintenance_task (process, task, interval_s, failures) VALUES"
        execute(connection, f"{statement} ('p', 't', 1, 0)")

    terms: list[Term] = []

    def holder(term: Term) -> None:
        terms.append(term)
        with closing(Database(lane.endpoints.db_ingest_url, "test", term)) as database:
            database.run(insert)
            database.run(overtaken)

    held = lease(lane, "a")
    running = threading.Thread(target=held.run, args=(holder,))
    running.start()
    eventually(lambda: held.standby == "b has the lease test", 20, "a stands by")
    held._stop.set()
    running.join()
    (term,) = terms
    assert attempts == [1]
    assert rows(lane, "SELECT failures FROM odograph.maintenance_task") == [{"failures": 0}]
    assert term.is_set()
    with pytest.raises(LeaseLostError):
        term.require()


def test_who_is_started_anew_takes_over_at_once_and_others_when_it_is_given_back(lane: Lane) -> None:
    with suppress(LeaseLostError), lease(lane, "a").held():
        taken_by(lane, "b")
        killed = lease(lane, "b")
        with killed.held() as anew:
            assert anew is not None
            assert (anew.epoch, killed.succeeds) == (3, False)  # it did not stand by
            other = lease(lane, "c")
            found: list[int] = []
            waiting = threading.Thread(
                target=other.run, args=(lambda term: found.append(term.epoch) or term.wait(),)
            )
            waiting.start()
            eventually(lambda: other.standby, 10, "c stands by")
            assert other.standby == "b has the lease test"
            assert not found
        eventually(lambda: found == [4], 10, "c has it")
        other._stop.set()
        waiting.join()
    assert other.standby is None


def test_a_standby_warms_up_a_step_with_each_look_and_says_so_until_it_is_warm_or_that_has_failed(
    lane: Lane,
) -> None:
    for end in ("over", "failed", "kept"):
        check_warm_up(lane, end)


def check_warm_up(lane: Lane, end: str) -> None:
    steps: list[int] = []
    kept = threading.Event()

    def warm_up() -> Iterator[bool | None]:
        for step in range(2):
            steps.append(step)
            yield None
        if end == "failed":
            raise ServiceError("a query has ended")
        while end == "kept":
            yield True
            kept.set()

    def wait(held: Lease) -> None:
        with held.held(warm_up()) as term:
            assert term is not None
            term.wait()

    with lease(lane, "a").held():
        other = lease(lane, "b")
        waiting = threading.Thread(target=wait, args=(other,))
        waiting.start()
        eventually(lambda: other.standby == "a has the lease test; warming up", 10, "b warms up")
        eventually(lambda: other.standby == "a has the lease test", 10, "b is warm")
        assert steps == [0, 1]
        assert end != "kept" or kept.wait(10)
    eventually(lambda: other.standby is None, 10, "b has it")
    assert other.succeeds
    other._stop.set()
    waiting.join()
    alone = lease(lane, "c")
    with alone.held(warm_up()):
        assert steps == [0, 1]
    assert not alone.succeeds


def test_without_the_database_nothing_is_done_elsewhere_once_the_time_is_over(lane: Lane) -> None:
    with lease(lane, "a").held() as term:
        assert term is not None
        term.require()
        term._lease._url = "postgresql://nobody@127.0.0.1:1/none"
        term._lease._close()
        eventually(lambda: term._lease.problem, 10, "it cannot be renewed")
        term.require()
        eventually(lambda: refused(term), 10, "its time is over")
        assert not term.is_set()
        term._lease._url = lane.endpoints.db_ingest_url
        term.require()
        assert term.epoch == 1


def test_what_needs_no_database_goes_on_without_it_until_it_says_that_another_has_the_lease(
    lane: Lane,
) -> None:
    url = lane.endpoints.db_ingest_url
    held, started = (lease(lane, name, optional=True) for name in ("a", "b"))
    for each in (started, held):
        each._url = "postgresql://nobody@127.0.0.1:1/none"
    with suppress(LeaseLostError), started.held() as anew, lease(lane, "a").held():
        assert anew is not None
        assert not refused(anew)
        assert anew.epoch == 0
        started._url = url
        assert anew.wait(10)
        assert refused(anew)
    with suppress(LeaseLostError), held.held() as term:
        assert term is not None
        held._url = url
        eventually(lambda: term.epoch, 10, "it has the lease")
        held._url = "postgresql://nobody@127.0.0.1:1/none"
        held._close()
        eventually(lambda: held.problem and _now_s() > term.until_s, 10, "its time is over")
        assert not refused(term)
        held._url = url
        taken_by(lane, "c")
        assert term.wait(10)
        assert refused(term)


def test_a_checkpoint_is_not_put_aside_while_another_machine_has_the_lease_of_its_program(lane: Lane) -> None:
    files = LocalFiles(str(lane.home / "checkpoints"))
    for name in ("telemetry", "sql_mine", "instant-crash"):
        files.write(f"{name}/metadata", "{}")
    taken_by(lane, "b:/home", "jobs")
    for name in ("telemetry", "sql_mine"):
        with pytest.raises(ConfigError, match=r"jobs runs at b:/home, which has its lease, .* stop it there"):
            reset(files, lane.settings, name)
    reset(files, lane.settings, "instant-crash")
    other = sections.Region(name="a")
    with psycopg.connect(lane.endpoints.db_owner_url) as owner:
        owner.execute("INSERT INTO odograph.region (active) VALUES ('b')")
    reset(files, lane.settings.model_copy(update={"region": other}), "sql_mine")
    with pytest.raises(ConfigError, match="runs at b:/home"):
        reset(files, lane.settings, "telemetry")
    with psycopg.connect(lane.endpoints.db_owner_url) as owner:
        owner.execute("DELETE FROM odograph.region")
    taken_by(lane, "killed", "jobs", TTL_S / 2)
    reset(files, lane.settings, "telemetry")
    assert files.names("") == []


def refused(term: Term) -> bool:
    try:
        term.require()
    except ServiceError:
        return True
    return False


@pytest.mark.usefixtures("topics")
def test_a_second_event_store_takes_over_from_a_stalled_one_that_then_writes_nothing(lane: Lane) -> None:
    other = elsewhere(lane)
    with lane.process("jobs", "events") as first:
        until_ready(lane, "events")
        with other.process("jobs", "events"):
            until_standby(other, "events")
            produce(lane, "alerts", [alert(v, s) for s in range(50) for v in range(8)], T0)
            until_count(lane, "alert_event", 400)
            with stalled(first):
                produce(lane, "alerts", [alert(v, s) for s in range(50, 100) for v in range(8)], T0)
                until_count(lane, "alert_event", 800)
                until_read(lane, 800)
                before = snapshot(lane)
            until_standby(lane, "events")
            assert (snapshot(lane), epoch(lane, "events")) == (before, 2)
            first.kill()
            produce(lane, "alerts", [alert(0, 100)], T0)
            until_count(lane, "alert_event", 801)
            until_ready(other, "events")
    assert sum(a["findings"] for a in rows(lane, "SELECT findings FROM odograph.alert")) == 801


@pytest.mark.usefixtures("topics")
def test_a_second_downlink_takes_over_from_a_stalled_one_that_then_tells_nothing(lane: Lane) -> None:
    with Receiver([]) as receiver, listening(lane, "+/alert") as heard:
        here = with_hooks(lane, receiver.port)
        there = elsewhere(here)
        with here.process("downlink") as first:
            until_ready(here, "downlink")
            with there.process("downlink"):
                until_standby(there, "downlink")

                def over_mqtt() -> set[str]:
                    return {body["alert_id"] for _, body in heard}

                def told(*ids: str) -> None:
                    tell(lane, [fresh(name, A) for name in ids[-2:]])
                    eventually(lambda: {*receiver.accepted} == {*ids}, STORED_S, f"{ids} at the webhook")
                    eventually(lambda: len(over_mqtt()) == len(ids), STORED_S, f"{ids} over MQTT")

                told("a1", "a2")
                with stalled(first):
                    told("a1", "a2", "a3", "a4")
                until_standby(here, "downlink")
                told("a1", "a2", "a3", "a4", "a5", "a6")
                assert epoch(lane, "downlink") == 2
    for found in (receiver.seen, [body["alert_id"] for _, body in heard]):
        told_before = [each for each in found if each in ("a1", "a2")]
        again = told_before[2:]  # it stopped before it had committed these
        assert (told_before[:2], again) in [(["a1", "a2"], rest) for rest in ([], ["a2"], ["a1", "a2"])]
        assert found[len(told_before) :] == ["a3", "a4", "a5", "a6"]
