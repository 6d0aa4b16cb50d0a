"""What each guarantee loses and doubles: the same stream, the same kill -9."""

from __future__ import annotations

from collections import Counter

import orjson
import pytest

from tests.integration.bridge_support import (
    Stored,
    frames,
    metric,
    publish,
    read,
    sequences,
    wait_ready,
)
from tests.support import Lane, eventually

pytestmark = pytest.mark.integration
VEHICLES = 10
ROUND = 100


def received(lane: Lane) -> float:
    try:
        return metric(lane, "odograph_bridge_messages_received_total")
    except OSError:
        return 0


def stream_with_a_kill(lane: Lane, guarantee: str, first: int) -> list[Stored]:
    """Three rounds of frames: one is under way at the kill, one comes while no bridge runs, one after."""
    with lane.process("bridge", "--guarantee", guarantee) as process:
        wait_ready(lane)
        publish(lane, frames(lane, VEHICLES, ROUND, first))
        eventually(lambda: received(lane) > 0, 90, "records flow")
        process.kill()
    publish(lane, frames(lane, VEHICLES, ROUND, first + ROUND))
    with lane.process("bridge", "--guarantee", guarantee):
        wait_ready(lane)
        publish(lane, frames(lane, VEHICLES, ROUND, first + 2 * ROUND))
        last = first + 3 * ROUND - 1

        def all_ended() -> list[Stored]:
            records = [r for r in read(lane, "telemetry") if orjson.loads(r.value)["seq"] >= first]
            ends = [numbers[-1] for numbers in sequences(records).values()]
            assert ends == [last] * VEHICLES, ends
            return records

        return eventually(all_ended, 120, "the last frame of every vehicle")


def test_at_least_once_loses_nothing_and_at_most_once_doubles_nothing(lane: Lane) -> None:
    once = stream_with_a_kill(lane, "at-most-once", first=0)
    copies = Counter(record.value for record in once)
    assert max(copies.values()) == 1, "nothing twice"
    lost = 3 * ROUND * VEHICLES - len(copies)
    assert ROUND * VEHICLES <= lost <= 2 * ROUND * VEHICLES, "at least what came while no bridge ran"
    assert all(numbers == sorted(numbers) for numbers in sequences(once).values())

    least = stream_with_a_kill(lane, "at-least-once", first=1000)
    expected = list(range(1000, 1000 + 3 * ROUND))
    assert sequences(least) == dict.fromkeys(sequences(least), expected), "nothing lost, order kept"
    doubled = len(least) - len({record.value for record in least})
    assert doubled <= ROUND * VEHICLES, "at most what was in flight at the kill"
    assert read(lane, "dead-letter") == []
