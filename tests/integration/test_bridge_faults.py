"""The bridge, the log and the broker are killed, stopped and restarted: nothing is lost, order holds."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

import pytest

from infra.stack.stack import Stack
from tests.integration.bridge_support import (
    all_in_order,
    bridge,
    frames,
    metric,
    publish,
    read,
    readiness,
    sequences,
    wait_ready,
    wait_stored,
)
from tests.support import Lane, eventually

pytestmark = pytest.mark.integration

VEHICLES = 20
COUNT = 500


@contextlib.contextmanager
def stopped(stack: Stack, service: str) -> Iterator[None]:
    """SIGSTOP for the block, SIGCONT after it."""
    running = stack.runner.find(service)
    assert running is not None
    os.kill(running.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(running.pid, signal.SIGCONT)


def establish_session(lane: Lane) -> None:
    """Let the bridge subscribe, and go."""
    with bridge(lane):
        pass


def test_kafka_stopped_and_continued_drains_with_nothing_dead_lettered(lane: Lane, stack: Stack) -> None:
    with bridge(lane):
        with stopped(stack, "kafka"):
            publish(lane, frames(lane, VEHICLES, COUNT))
            eventually(lambda: readiness(lane)[0] == 503, 90, "not ready while Kafka is away")
            assert set(readiness(lane)[1]) == {"kafka"}
        records = wait_stored(lane, "telemetry", VEHICLES * COUNT)
        wait_ready(lane)
    assert sequences(records) == all_in_order(VEHICLES, COUNT)
    assert read(lane, "dead-letter") == []


def test_a_bridge_started_without_kafka_says_so_and_begins_when_it_comes(lane: Lane, stack: Stack) -> None:
    with contextlib.ExitStack() as ending:
        with stopped(stack, "kafka"):
            process = ending.enter_context(lane.process("bridge"))
            eventually(lambda: set(readiness(lane)[1]) == {"kafka"}, 90, "only Kafka is missing")
            publish(lane, frames(lane, VEHICLES, 10))
            process.assert_running()
        wait_ready(lane)
        wait_stored(lane, "telemetry", VEHICLES * 10)


def test_sigterm_finishes_what_was_read_and_leaves_the_rest_to_the_next(lane: Lane) -> None:
    establish_session(lane)
    publish(lane, frames(lane, VEHICLES, COUNT))
    with bridge(lane) as process:
        eventually(lambda: metric(lane, "odograph_bridge_messages_received_total") > 0, 90, "records flow")
        assert process.stop() == 0
    with bridge(lane):
        records = wait_stored(lane, "telemetry", VEHICLES * COUNT)
    assert len(records) == VEHICLES * COUNT
    assert sequences(records) == all_in_order(VEHICLES, COUNT)


def test_the_flow_resumes_by_itself_after_a_restart_of_the_broker(lane: Lane, stack: Stack) -> None:
    with bridge(lane):
        publish(lane, frames(lane, VEHICLES, 10))
        wait_stored(lane, "telemetry", VEHICLES * 10)
        stack.runner.stop("mosquitto")
        eventually(lambda: "mqtt-crash" in readiness(lane)[1], 90, "not ready without the broker")
        stack.up()
        wait_ready(lane)
        publish(lane, frames(lane, VEHICLES, 10, first_seq=10))
        records = wait_stored(lane, "telemetry", VEHICLES * 20)
    assert sequences(records) == all_in_order(VEHICLES, 20)
