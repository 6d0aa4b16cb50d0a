"""Slots: fixed parts of the fleet in the topic tree, which devices and bridges compute alike.

A slot is the unit in which several bridges share the fleet. The hash is Kafka's own (murmur2, as the Java
client's partitioner): where a topic's partitions divide the number of slots, a slot's vehicles are in one.
"""

from typing import Final

SLOTS: Final = 64
"""For ever: devices have it in their firmware."""
_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_32: Final = 0xFFFFFFFF


def slot_of(vehicle_id: str) -> int:
    """The slot of a vehicle, from 0 to ``SLOTS`` - 1."""
    return partition(vehicle_id.encode(), SLOTS)


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
