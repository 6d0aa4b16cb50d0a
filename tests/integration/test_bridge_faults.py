"""The bridge, the log and the broker are killed, stopped and restarted: nothing is lost, order holds."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from infra.stack.stack import Stack
from load_tests.mqtt_flood import vehicle_id
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


@contextlib.contextmanager
def thief(lane: Lane, client_id: str) -> Iterator[mqtt.Client]:
    """A client with the bridge's own id that begins anew, and goes with the block."""
    client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id, protocol=mqtt.MQTTv5)
    client.connect(lane.endpoints.mqtt_host, lane.endpoints.mqtt_port, clean_start=True)
    client.loop_start()
    try:
        yield client
    finally:
        client.disconnect()
        client.loop_stop()


def test_a_session_that_a_stranger_takes_or_empties_is_told_and_the_flow_goes_on(lane: Lane) -> None:
    client_id = f"{lane.settings.bridge.client_id}-telemetry"
    with bridge(lane):
        wait_ready(lane)
        with thief(lane, client_id):
            eventually(lambda: metric(lane, "odograph_bridge_taken_over_total") >= 1, 30, "it is noticed")
        eventually(lambda: metric(lane, "odograph_bridge_sessions_lost_total") >= 1, 30, "it is told")
        wait_ready(lane)
        publish(lane, frames(lane, 1, 3))
        wait_stored(lane, "telemetry", 3)
    publish(lane, frames(lane, 1, 3, first_seq=3))
    with thief(lane, client_id) as client:
        eventually(client.is_connected, 30, "the stranger is connected")
    with bridge(lane):
        eventually(lambda: metric(lane, "odograph_bridge_sessions_lost_total") == 1, 30, "a restart knows")
        letters = wait_stored(lane, "dead-letter", 2)
    assert {r.headers["reason"] for r in letters} == {b"session_lost"}
    taken, emptied = letters[0].headers["detail"], letters[-1].headers["detail"]
    assert taken == f"{client_id}: another client came with our client id".encode()
    assert emptied == f"{client_id}: the broker does not know it any more".encode()
    assert sequences(read(lane, "telemetry")) == {vehicle_id(0): [0, 1, 2]}, "and what it held is gone"


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
