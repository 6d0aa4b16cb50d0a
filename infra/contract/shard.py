"""Which of several bridges carries a vehicle: shares by a stable hash, so that a vehicle's order holds.

The hash is Kafka's own (murmur2, as the Java client's partitioner): where the number of shards divides a
topic's number of partitions, a shard writes whole partitions and no two bridges write the same one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from infra.contract.errors import ConfigError

_FORM: Final = re.compile(r"([1-9]\d{0,3})/([1-9]\d{0,3})")
_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_32: Final = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Shard:
    """Share ``number`` of ``count``, from 1."""

    number: int = 1
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> Shard:
        """``2/3``; raises ConfigError."""
        found = _FORM.fullmatch(text)
        if found is None or int(found[1]) > int(found[2]):
            raise ConfigError(f"shard {text!r}: i/n with i from 1 to n is wanted, as 1/2")
        return cls(int(found[1]), int(found[2]))

    @property
    def whole(self) -> bool:
        """Whether there is no other shard."""
        return self.count == 1

    def owns(self, vehicle_id: bytes | None) -> bool:
        """Whether the vehicle is ours; what names no vehicle (None) belongs to shard 1."""
        if self.whole:
            return True
        return self.number == (1 if vehicle_id is None else partition(vehicle_id, self.count) + 1)

    def client_id(self, stem: str, lane: str) -> str:
        """The MQTT client id of a lane; the only shard keeps the name without numbers."""
        return f"{stem}-{lane}" if self.whole else f"{stem}-{self.number}of{self.count}-{lane}"

    @property
    def process(self) -> str:
        """The name of the bridge process: of its pid file, its log and its port."""
        return "bridge" if self.whole else f"bridge-{self.number}"

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


def shards(count: int) -> tuple[Shard, ...]:
    """All of ``count`` shards."""
    return tuple(Shard(number, count) for number in range(1, count + 1))


def partition(key: bytes, count: int) -> int:
    """The partition of ``count`` that Kafka's clients give a record with this key."""
    return (murmur2(key) & 0x7FFFFFFF) % count


def murmur2(key: bytes) -> int:
    """Austin Appleby's MurmurHash2, 32 bits, with the seed of Kafka's Java client; unsigned."""
    value = (_SEED ^ len(key)) & _32
    whole = len(key) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(key[at : at + 4], "little") * _M & _32
        word = (word ^ word >> 24) * _M & _32
        value = (value * _M & _32) ^ word
    if rest := key[whole:]:
        value = (value ^ int.from_bytes(rest, "little")) * _M & _32
    value = (value ^ value >> 13) * _M & _32
    return value ^ value >> 15
