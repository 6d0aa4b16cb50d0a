"""Shares of the fleet."""

from __future__ import annotations

import pytest

from infra.contract.errors import ConfigError
from infra.contract.shard import Shard, murmur2, partition, shards
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
    assert [partition(b"1HGCM82633A00000%d" % n, 4) for n in range(6)] == [1, 1, 2, 0, 2, 2]


def test_every_vehicle_has_exactly_one_shard_and_shards_are_of_like_size() -> None:
    fleet = [b"1HGCM82633A%06d" % n for n in range(3000)]
    owners = [[shard.number for shard in shards(3) if shard.owns(vehicle)] for vehicle in fleet]
    assert {len(found) for found in owners} == {1}
    sizes = [sum(found == [number] for found in owners) for number in (1, 2, 3)]
    assert sizes == [997, 1010, 993]


def test_two_shards_of_four_partitions_write_whole_partitions() -> None:
    fleet = [b"1HGCM82633A%06d" % n for n in range(200)]
    written = {shard.number: {partition(v, 4) for v in fleet if shard.owns(v)} for shard in shards(2)}
    assert written == {1: {0, 2}, 2: {1, 3}}


def test_what_names_no_vehicle_belongs_to_the_first_shard() -> None:
    assert [shard.owns(None) for shard in shards(3)] == [True, False, False]


def test_the_only_shard_keeps_its_names_and_the_others_have_numbers() -> None:
    assert (Shard().client_id("b", "crash"), Shard().process) == ("b-crash", "bridge")
    second = Shard.parse("2/3")
    assert (second.client_id("b", "crash"), second.process, str(second)) == (
        "b-2of3-crash",
        "bridge-2",
        "2/3",
    )


@pytest.mark.parametrize("text", ["", "0/2", "3/2", "1", "1/0", "1/2/3", "a/b", "-1/2", "01/2"])
def test_another_form_of_a_shard_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="i/n"):
        Shard.parse(text)


def test_odograph_up_starts_a_bridge_for_each_shard_with_a_port_of_its_own() -> None:
    one, two = programs(1)[0], programs(2)[:2]
    assert (one.name, one.command[-1]) == ("bridge", "bridge")
    assert [(p.name, *p.command[-2:]) for p in two] == [
        ("bridge-1", "--shard", "1/2"),
        ("bridge-2", "--shard", "2/2"),
    ]
    parts = {count: http_parts(Settings(bridge={"shards": count})) for count in (1, 2)}  # type: ignore[arg-type]
    assert [p.name for p in programs(2)] == list(parts[2])
    assert [p.name for p in programs(1)] == list(parts[1])
