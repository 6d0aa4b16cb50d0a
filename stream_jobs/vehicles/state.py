"""The memory of a bucket of vehicles as one blob: MessagePack, compressed."""

from __future__ import annotations

from typing import Final

import msgspec
import pyarrow as pa

from stream_jobs.rules.rule_set import RuleSet
from stream_jobs.vehicles.fleet import Fleet, KeptFleet
from stream_jobs.windows.block import CODEC
from stream_jobs.windows.open_windows import Memory

LENGTH: Final = 8
"""Bytes of a blob before what is compressed: how long that is."""


class Kept(msgspec.Struct, array_like=True):
    """What a bucket remembers: its vehicles, compressed, and the open windows."""

    fleet: bytes
    windows: Memory


_ENCODER: Final = msgspec.msgpack.Encoder()
_KEPT: Final = msgspec.msgpack.Decoder(Kept)
_FLEET: Final = msgspec.msgpack.Decoder(KeptFleet)


def load(blob: bytes | None, rule_set: RuleSet) -> tuple[Fleet, Memory]:
    """The bucket in ``blob``; an empty one of nothing. Of rules that changed nothing is remembered."""
    if blob is None:
        return Fleet(rule_set), Memory()
    kept = _KEPT.decode(blob)
    length = int.from_bytes(kept.fleet[:LENGTH], "little")
    plain = pa.decompress(kept.fleet[LENGTH:], length, CODEC, asbytes=True)
    return Fleet(rule_set, _FLEET.decode(plain)), kept.windows


def dump(fleet: Fleet, windows: Memory) -> bytes:
    """The bucket as bytes."""
    plain = _ENCODER.encode(fleet.dump())
    squeezed = pa.compress(plain, CODEC, asbytes=True)
    return _ENCODER.encode(Kept(len(plain).to_bytes(LENGTH, "little") + squeezed, windows))
