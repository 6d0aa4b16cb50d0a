"""Several bridges on one broker and one log: they share the slots, and take over from each other."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

import pytest

from bridge.uplink import service
from infra.contract.topics import slot_of
from infra.settings.settings import Settings
from infra.stack import processes
from load_tests.mqtt_flood import frame, vehicle_id
from tests import forked
from tests.integration.bridge_support import (
    T0_MS,
    all_in_order,
    bridge,
    count,
    frames,
    publish,
    read,
    sequences,
    wait_stored,
)
from tests.support import Lane, LaneProcess, eventually

pytestmark = pytest.mark.integration
VEHICLES = 40


@contextlib.contextmanager
def one_of_several(lane: Lane, number: int) -> Iterator[LaneProcess]:
    """Bridge ``number`` of a fleet's."""
    name = f"bridge-{number}"
    words = ["bridge", "--shard", str(number)]
    log, env = lane.home / "logs" / f"{name}.log", lane.env | {"ODOGRAPH_BRIDGE_SHARDS": "3"}
    process = LaneProcess(name, forked.spawn(lane.home / "run", name, words, log, env), log)
    try:
        yield process
    finally:
        process.stop()
        processes.pid_file(lane.home / "run", name).unlink(missing_ok=True)


def several(lane: Lane) -> Settings:
    """The lane's settings with more than one bridge."""
    shared = lane.settings.bridge.model_copy(update={"shards": 3})
    return lane.settings.model_copy(update={"bridge": shared})


def part(lane: Lane, number: int) -> int:
    """Publish the ``number``-th ten frames of every vehicle; how many frames."""
    return publish(lane, frames(lane, VEHICLES, 10, first_seq=10 * number))


def told(process: LaneProcess, slots: int) -> int:
    """How often it has said that it serves so many slots."""
    return process.log.read_text().count(f'"now": {slots},')


def serves(process: LaneProcess, slots: int, times: int = 1) -> None:
    """Wait until the group has given it so many slots."""
    eventually(lambda: told(process, slots) >= times, 60, f"{process.command} serves {slots} slots")


def share(*two: LaneProcess) -> None:
    """Wait until each has its half of the slots: who came first has one more."""
    eventually(lambda: all(told(each, 32) or told(each, 33) for each in two), 60, "each serves its half")


def test_one_bridge_becomes_several_with_nothing_lost_and_no_order_broken(lane: Lane) -> None:
    with bridge(lane):
        part(lane, 0)
        wait_stored(lane, "telemetry", 10 * VEHICLES)
    assert service.prepare(several(lane), lane.endpoints) == 0
    part(lane, 1)
    assert service.retire(lane.settings, lane.endpoints) == 0
    assert sequences(read(lane, "telemetry")) == all_in_order(VEHICLES, 20)

    part(lane, 2)
    assert service.retire(lane.settings, lane.endpoints) == 0
    assert count(lane, "telemetry") == 20 * VEHICLES, "the old session is gone: it took nothing more"

    with one_of_several(lane, 1):
        wait_stored(lane, "telemetry", 30 * VEHICLES)
    records = read(lane, "telemetry")
    assert sequences(records) == all_in_order(VEHICLES, 30)
    assert len(records) == 40 * VEHICLES, "twice is only what both the old and the new queues held"
    assert read(lane, "dead-letter") == []


def test_slots_move_to_a_bridge_that_joins_and_away_from_one_that_is_killed_stopped_or_ended(
    lane: Lane,
) -> None:
    service.prepare(several(lane), lane.endpoints)
    with contextlib.ExitStack() as ending:
        first = ending.enter_context(one_of_several(lane, 1))
        serves(first, 65)
        part(lane, 0)
        second = ending.enter_context(one_of_several(lane, 2))
        part(lane, 1)
        serves(first, 33)
        part(lane, 2)
        second.kill()
        part(lane, 3)
        wait_stored(lane, "telemetry", 40 * VEHICLES)
        serves(first, 65, times=2)
        third = ending.enter_context(one_of_several(lane, 3))
        serves(third, 32)
        os.kill(third.child.pid, signal.SIGSTOP)
        part(lane, 4)
        wait_stored(lane, "telemetry", 50 * VEHICLES)
        os.kill(third.child.pid, signal.SIGCONT)
        part(lane, 5)
        serves(third, 32, times=2)
        part(lane, 6)
        assert first.stop() == 0
        serves(third, 65)
        part(lane, 7)
        wait_stored(lane, "telemetry", 80 * VEHICLES)
        assert third.stop() == 0
    assert sequences(read(lane, "telemetry")) == all_in_order(VEHICLES, 80)
    assert read(lane, "dead-letter") == []


def test_topics_without_a_slot_are_carried_and_what_names_no_vehicle_is_dead_lettered_once(
    lane: Lane,
) -> None:
    service.prepare(several(lane), lane.endpoints)
    root, vin = lane.settings.mqtt.root, vehicle_id(7)
    other = (slot_of(vin) + 1) % 64
    topics = (f"{vin}/telemetry", "short/telemetry", "s/5/short/telemetry", f"s/{other}/{vin}/telemetry")
    publish(lane, [(f"{root}/{topic}".encode(), frame(7, 0, T0_MS)) for topic in topics])
    publish(lane, frames(lane, VEHICLES, 1, first_seq=1))
    with one_of_several(lane, 1), one_of_several(lane, 2):
        wait_stored(lane, "telemetry", VEHICLES + 1)
        letters = wait_stored(lane, "dead-letter", 2)
    assert sorted(sequences(read(lane, "telemetry"))[vin]) == [0, 1], "of two sessions: in no order"
    reasons = sorted(
        (r.headers["reason"], r.headers["mqtt_topic"].removeprefix(f"{root}/".encode())) for r in letters
    )
    assert reasons == [
        (b"bad_identity", b"s/5/short/telemetry"),
        (b"bad_identity", b"short/telemetry"),
        (b"bad_topic", topics[3].encode()),
    ]
