"""The memory of a bucket of vehicles as one blob: MessagePack, plain values only.

Vehicles that a batch does not touch stay as the bytes they are.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from stream_jobs.vehicles.core import VehicleState


class Bucket(msgspec.Struct, array_like=True):
    """The vehicles of a bucket as bytes, and when (receive clock) each is due."""

    vehicles: dict[str, msgspec.Raw] = {}
    due_ms: dict[str, int] = {}


_ENCODER: Final = msgspec.msgpack.Encoder()
_BUCKET: Final = msgspec.msgpack.Decoder(Bucket)
_VEHICLE: Final = msgspec.msgpack.Decoder(VehicleState)


def load_bucket(blob: bytes | None) -> Bucket:
    """The bucket in ``blob``; an empty one of nothing."""
    return Bucket() if blob is None else _BUCKET.decode(blob)


def dump_bucket(bucket: Bucket) -> bytes:
    """The bucket as bytes."""
    return _ENCODER.encode(bucket)


def load_vehicle(raw: msgspec.Raw) -> VehicleState:
    """One vehicle's memory; what detectors remember comes back as the tuples it was."""
    state = _VEHICLE.decode(raw)
    state.memories = [_tuples(memory) for memory in state.memories]
    return state


def dump_vehicle(state: VehicleState) -> msgspec.Raw:
    """One vehicle's memory as bytes."""
    return msgspec.Raw(_ENCODER.encode(state))


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if type(value) is list else value
