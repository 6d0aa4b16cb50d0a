"""A crash record outlives its simulator: the broker is away, the run ends, and the record still arrives."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge_simulator.edr import crash_store
from infra.contract import messages
from infra.contract.messages import join_crash
from load_tests.drills.link import Link
from tests.integration.broker_support import Broker, Listener, reached_at
from tests.support import eventually

pytestmark = pytest.mark.integration
CRASHING = ("simulate", "-c", "20", "--seed", "5", "--crash-chunk-bytes", "2048")


@pytest.fixture
def link(broker: Broker) -> Iterator[Link]:
    """The way to the broker, which a test can cut."""
    with Link("127.0.0.1", broker.port) as made:
        reached_at(broker.home, made.port)
        yield made


def crash_at(second: int) -> tuple[str, ...]:
    """Options of a run: one of its vehicles has an accident so long after the start, s."""
    return *CRASHING, "--set", f"faults=[{{name: crash, count: 1, onset_s: [{second}, {second}]}}]"


def waiting(home: Path, run: str) -> int:
    """Crash messages of a run that have no PUBACK."""
    return len(crash_store.unacked([home / "runs" / run]))


def run_into_silence(broker: Broker, link: Link, run: str, end: signal.Signals, client: str = "auto") -> None:
    """Simulate until a record was sealed, the link having failed before, then end it."""
    how = ("--run-id", run, "--drain", "1s", "--duration", "20s", "--client", client)
    process = broker.command(*crash_at(4), *how)
    folder = broker.home / "runs" / run
    eventually((folder / "run.json").exists, 90, "a run that publishes")
    link.refuse()
    assert not (folder / crash_store.FOLDER).exists()
    eventually(lambda: waiting(broker.home, run) > 2, 90, "a record kept")
    process.send_signal(end)
    _, err = process.communicate(120)
    assert process.returncode == (1 if end == signal.SIGINT else -9), err
    link.heal()


def crash_of(listener: Listener) -> dict[str, object]:
    """The one crash record whose parts arrived, checked."""
    parts = {part["part"]: part for part in map(messages.decode_crash, listener.channel("crash"))}
    assert sorted(parts) == list(range(parts[0]["parts"]))
    raw = join_crash([parts[k]["data"] for k in sorted(parts)], parts[0]["sha256"])
    record = messages.decode_crash(raw)
    assert record["sha256"] == messages.crash_digest(record)
    return record


@pytest.mark.parametrize("client", ["paho", "lean"])
def test_a_record_that_was_not_acknowledged_is_offered_again_on_request(
    broker: Broker, link: Link, client: str
) -> None:
    run = f"cut-{client}"
    run_into_silence(broker, link, run, signal.SIGINT, client)
    left = waiting(broker.home, run)
    assert left > 2
    with Listener(run).listening(broker.port) as listener:
        out, err = broker.command("edr", "resend", run).communicate(120)
        assert out == f"offered {left}  acknowledged {left}\n", err
        eventually(lambda: len(listener.channel("crash")) == left, 60, "all parts")
        assert crash_of(listener)["complete"] is True
    assert waiting(broker.home, run) == 0
    out, _ = broker.command("edr", "resend", run).communicate(120)
    assert out == "offered 0  acknowledged 0\n"


def test_a_killed_simulators_record_stays_while_the_broker_is_away_and_is_offered_by_the_next_one(
    broker: Broker, link: Link
) -> None:
    run_into_silence(broker, link, "killed", signal.SIGKILL)
    left = waiting(broker.home, "killed")
    assert left > 2
    link.refuse()
    process = broker.command("edr", "resend", "killed")
    _, err = process.communicate(120)
    assert process.returncode == 1
    assert "no MQTT broker at" in err
    assert waiting(broker.home, "killed") == left
    link.heal()
    with Listener("next").listening(broker.port) as listener:
        summary = broker.run("simulate", "-c", "5", "--duration", "1s")
        assert summary["finished"] is True
        assert summary["crashes"] == 0
        eventually(lambda: len(listener.channel("crash")) == left, 60, "all parts")
        assert crash_of(listener)["boot_id"] != summary["boot_id"]
    assert waiting(broker.home, "killed") == 0


@pytest.mark.parametrize("client", ["paho", "lean"])
def test_an_acknowledged_record_is_not_kept_waiting(broker: Broker, link: Link, client: str) -> None:
    run = f"fine-{client}"
    summary = broker.run(*crash_at(1), "--run-id", run, "--duration", "3s", "--client", client)
    assert (summary["crashes"], summary["finished"]) == (1, True)
    acked = (broker.home / "runs" / run / crash_store.FOLDER).glob(f"*{crash_store.ACKED}")
    assert len(list(acked)) > 2
    assert waiting(broker.home, run) == 0


def test_a_run_that_is_not_there_is_named(broker: Broker) -> None:
    process = broker.command("edr", "resend", "nothing")
    _, err = process.communicate(120)
    assert process.returncode == 2
    assert "nothing: no run with crash records" in err
