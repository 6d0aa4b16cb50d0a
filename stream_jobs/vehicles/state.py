"""The memory of a bucket of vehicles as one blob: MessagePack, plain values only.

Vehicles that a batch does not touch stay as the bytes they are.
"""

from __future__ import annotations

from typing import Final

import msgspec

from stream_jobs.vehicles.beat import NOTHING_SAID
from stream_jobs.vehicles.core import VehicleState
from stream_jobs.vehicles.sequencer import Arrival
from stream_jobs.windows.open_windows import Memory


class Bucket(msgspec.Struct, array_like=True):
    """The vehicles of a bucket as bytes, when (receive clock) each is due, whose memories they hold, and the
    open windows.
    """

    vehicles: dict[str, msgspec.Raw] = {}
    due_ms: dict[str, int] = {}
    rules: list[str] = []
    windows: Memory = msgspec.field(default_factory=Memory)


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
    return _VEHICLE.decode(raw)


def dump_vehicle(state: VehicleState) -> msgspec.Raw:
    """One vehicle's memory as bytes."""
    if state.last is not None:
        state.last = msgspec.structs.replace(state.last, said=NOTHING_SAID, harsh=())
    return msgspec.Raw(_ENCODER.encode(state))


def adopt(bucket: Bucket, rules: list[str]) -> None:
    """Make the bucket one of ``rules``: what another rule, or another version of one, remembered goes.

    Frames that wait for one before them lose what the old rules read of them.
    """
    if bucket.rules == rules:
        return
    before = {name: place for place, name in enumerate(bucket.rules)}
    kept = [before.get(name) for name in rules]
    for vehicle_id, raw in bucket.vehicles.items():
        state = load_vehicle(raw)
        state.memories = [None if place is None else state.memories[place] for place in kept]
        state.dues = [None if place is None else state.dues[place] for place in kept]
        state.order.held = [_unread(each) for each in state.order.held]
        bucket.vehicles[vehicle_id] = dump_vehicle(state)
    bucket.rules = rules


def _unread(each: Arrival) -> Arrival:
    if each.beat is None:
        return each
    return msgspec.structs.replace(each, beat=msgspec.structs.replace(each.beat, said=NOTHING_SAID))
