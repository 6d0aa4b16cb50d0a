"""A copy of a frame: one record in the log. Delivery is at least once, so a frame may have several. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import orjson

_SEQ = re.compile(rb'"seq"\s*:\s*(\d+)')
_BOOT = re.compile(rb'"boot_id"\s*:\s*(\d+)')


@dataclass(frozen=True, slots=True)
class Wanted:
    """The frame that is looked for; ``boot_id`` None: the newest that has the sequence number."""

    vehicle_id: str
    seq: int
    boot_id: int | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """A record of the log; times in ms since 1970."""

    topic: str
    partition: int
    offset: int
    received_ms: int
    value: bytes
    headers: dict[str, str]
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Archived:
    """A row of the archive and the file it lies in."""

    file: str
    row: int
    partition: int
    offset: int
    received_ms: int
    boot_id: int
    verdict: str
    value: bytes


def identity(value: bytes) -> tuple[int, int] | None:
    """Boot id and sequence number of a payload, as far as it can be read; None where it says neither.

    Of what is no JSON (a dead letter) the first number after the key is taken.
    """
    try:
        message: Any = orjson.loads(value)
        return int(message["boot_id"]), int(message["seq"])
    except (ValueError, TypeError, KeyError):
        seq, boot = _SEQ.search(value), _BOOT.search(value)
        return (int(boot[1]) if boot else -1, int(seq[1])) if seq else None


def matches(value: bytes, wanted: Wanted) -> bool:
    """Whether a payload is the frame wanted. The vehicle is the record's key: it is not compared here."""
    if b"%d" % wanted.seq not in value:
        return False
    found = identity(value)
    return found is not None and found[1] == wanted.seq and wanted.boot_id in (None, found[0])


def murmur2(data: bytes) -> int:
    """Murmur hash 2, 32 bits, seed 0x9747b28c: what Kafka's producers choose a partition by."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = 0x9747B28C ^ len(data)
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = (h * m & mask) ^ k
    if whole < len(data):
        h = (h ^ int.from_bytes(data[whole:], "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a key, as every producer of this project chooses it."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
