"""Two bridges on one broker and one log; and how one became two."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

import pytest

from bridge.uplink import service
from infra.contract.shard import Shard
from infra.settings.settings import Settings
from infra.stack import processes
from load_tests.mqtt_flood import vehicle_id
from tests.integration.bridge_support import (
    all_in_order,
    count,
    frames,
    publish,
    read,
    sequences,
    wait_stored,
)
from tests.support import Lane, LaneProcess, eventually

pytestmark = pytest.mark.integration
VEHICLES = 8
FIRST, SECOND = Shard(1, 2), Shard(2, 2)
OF_FIRST = [v for v in range(VEHICLES) if FIRST.owns(vehicle_id(v).encode())]


@contextlib.contextmanager
def shard_bridge(lane: Lane, shard: Shard) -> Iterator[LaneProcess]:
    command = [sys.executable, "-m", "infra.cli", "bridge", "--shard", str(shard)]
    log = lane.home / "logs" / f"{shard.process}.log"
    process = LaneProcess(
        shard.process, processes.spawn(lane.home / "run", shard.process, command, log, env=lane.env), log
    )
    try:
        yield process
    finally:
        process.stop()
        processes.remove_pid_file(lane.home / "run", shard.process)


def settings_of(lane: Lane, shard: Shard) -> Settings:
    bridge = lane.settings.bridge.model_copy(update={"shard": str(shard)})
    return lane.settings.model_copy(update={"bridge": bridge})


def part(lane: Lane, number: int) -> int:
    """Publish the ``number``-th ten frames of every vehicle; how many frames."""
    return publish(lane, frames(lane, VEHICLES, 10, first_seq=10 * number))


def test_one_bridge_becomes_two_with_nothing_lost_no_order_broken_and_no_vehicle_in_both(lane: Lane) -> None:
    whole = lane.settings
    assert service.prepare(whole, lane.endpoints) == 0
    part(lane, 0)
    for shard in (FIRST, SECOND):
        assert service.prepare(settings_of(lane, shard), lane.endpoints) == 0
    part(lane, 1)
    assert service.retire(whole, lane.endpoints) == 0
    assert sequences(read(lane, "telemetry")) == all_in_order(VEHICLES, 20)

    part(lane, 2)
    assert service.retire(whole, lane.endpoints) == 0
    assert count(lane, "telemetry") == 20 * VEHICLES, "the old session is gone: it took nothing more"

    with shard_bridge(lane, FIRST) as first:
        of_first = wait_stored(lane, "telemetry", 20 * VEHICLES + 10 * len(OF_FIRST))
        lasting = {v for v, seqs in sequences(of_first).items() if seqs[-1] == 29}
        assert lasting == {vehicle_id(v) for v in OF_FIRST}, "the other shard is missing: its queue holds"
        with shard_bridge(lane, SECOND) as second:
            wait_stored(lane, "telemetry", 30 * VEHICLES)
            part(lane, 3)
            wait_stored(lane, "telemetry", 40 * VEHICLES)
            assert (first.stop(), second.stop()) == (0, 0)
    records = read(lane, "telemetry")
    assert sequences(records) == all_in_order(VEHICLES, 40)
    copies = 10 * VEHICLES
    assert len(records) == 40 * VEHICLES + copies, "twice is only what both the old and the new queues held"
    assert read(lane, "dead-letter") == []


def test_what_names_no_vehicle_is_dead_lettered_once_by_the_first_shard(lane: Lane) -> None:
    for shard in (FIRST, SECOND):
        service.prepare(settings_of(lane, shard), lane.endpoints)
    publish(
        lane, [(f"{lane.settings.mqtt.root}/short/telemetry".encode(), b"{}"), *frames(lane, VEHICLES, 1)]
    )
    for shard in (SECOND, FIRST):
        assert service.retire(settings_of(lane, shard), lane.endpoints) == 0
        expected = {SECOND: VEHICLES - len(OF_FIRST), FIRST: VEHICLES}[shard]
        eventually(lambda n=expected: count(lane, "telemetry") == n, 60, f"{expected} frames")
        assert count(lane, "dead-letter") == (shard == FIRST)
