"""Slots, and the bridges that share them."""

from __future__ import annotations

from collections import Counter

import pytest

from infra.contract.topics import murmur2, partition_of, slot_of
from infra.settings.sections import Bridge
from infra.settings.settings import Settings
from infra.stack.stack import http_parts
from infra.stack.supervisor import programs

JAVA_MURMUR2 = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
"""From the tests of org.apache.kafka.common.utils.Utils; signed there."""


@pytest.mark.parametrize("key", JAVA_MURMUR2)
def test_the_hash_is_that_of_kafkas_java_client(key: bytes) -> None:
    assert murmur2(key) == JAVA_MURMUR2[key] & 0xFFFFFFFF


def test_a_vehicles_partition_is_where_kafka_puts_it() -> None:
    assert [partition_of(b"1HGCM82633A00000%d" % n, 4) for n in range(6)] == [1, 1, 2, 0, 2, 2]


def test_a_vehicles_slot_is_for_ever() -> None:
    assert [slot_of(f"1HGCM82633A00000{n}") for n in range(6)] == [25, 1, 6, 48, 18, 14]


def test_slots_are_of_like_size_and_each_writes_one_of_four_partitions() -> None:
    fleet = [f"1HGCM82633A{n:06d}" for n in range(64_000)]
    sizes = Counter(map(slot_of, fleet))
    assert (len(sizes), min(sizes.values()) > 850, max(sizes.values()) < 1150) == (64, True, True)
    assert all(slot_of(v) % 4 == partition_of(v.encode(), 4) for v in fleet[:1000])


def test_one_bridge_has_no_number_and_several_have_their_own() -> None:
    alone, second = Bridge(), Bridge(shards=3, shard=2)
    assert (alone.process, alone.leased) == ("bridge", False)
    assert (second.process, second.leased) == ("bridge-2", True)
    assert Bridge(shards=3, shard=4).process == "bridge-4", "one more than there are to be"


def test_odograph_up_starts_a_bridge_for_each_shard_with_a_port_of_its_own() -> None:
    one, two = programs(1)[0], programs(2)[:2]
    assert (one.name, one.command[-1]) == ("bridge", "bridge")
    assert [(p.name, *p.command[-2:]) for p in two] == [
        ("bridge-1", "--shard", "1"),
        ("bridge-2", "--shard", "2"),
    ]
    parts = {count: http_parts(Settings(bridge={"shards": count})) for count in (1, 2)}  # type: ignore[arg-type]
    assert [p.name for p in programs(2)] == list(parts[2])
    assert [p.name for p in programs(1)] == list(parts[1])
