"""What is remembered of the vehicles of a bucket: arrays by the vehicle's place."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from stream_jobs.frames import state
from stream_jobs.frames.arrays import Ints
from stream_jobs.rules.detect.base import Kept, Memory
from stream_jobs.rules.inputs import unknown_inputs
from stream_jobs.rules.rule_set import RuleSet
from stream_jobs.vehicles.features import Features
from stream_jobs.vehicles.journeys.journey import JourneyMemory, unknown
from stream_jobs.vehicles.sequencer import NO_BOOT, Order
from stream_jobs.windows.open_windows import Memory as WindowMemory

VEHICLE: Final = np.dtype([
    ("boot", "i8"), ("next", "i8"), ("boot_from", "i8"), ("filled", "i8"),
    ("clock", "f8"), ("due", "f8"),
    ("seen", "?"), ("last_boot", "i8"), ("last_seq", "i8"), ("lat", "f8"), ("lon", "f8"),
])  # fmt: skip
"""Order (see sequencer.Order); newest receipt and when it is due (receive clock, ms); the newest frame in
order, if there was one (``seen``).
"""
_ORDER: Final = {"boot": "boot_id", "next": "next_seq", "boot_from": "boot_from_ms", "filled": "filled_ms"}


class KeptFleet(msgspec.Struct, array_like=True):
    """A fleet as a checkpoint has it; ``rules``: of whom ``detectors`` are, ``specs``: what they said."""

    ids: list[str]
    vehicles: npt.NDArray[Any]
    waiting: dict[int, Order]
    held: Features | None
    journeys: JourneyMemory
    rules: list[str]
    detectors: list[Kept]
    specs: list[str] = []


class Fleet:
    """The vehicles of a bucket; a vehicle's place is that of its id in ``ids``.

    ``vehicles``: VEHICLE, [n]. ``waiting``: of few, by place; rows of what they hold are those of ``held``.
    """

    def __init__(self, rule_set: RuleSet, kept: KeptFleet | None = None) -> None:
        if kept is None:
            kept = KeptFleet([], np.zeros(0, VEHICLE), {}, None, JourneyMemory(unknown(0)), [], [])
        self.ids, self.vehicles, self.waiting = kept.ids, kept.vehicles, kept.waiting
        self._places = {vehicle_id: place for place, vehicle_id in enumerate(self.ids)}
        self.rules = [f"{detector.rule.id}@{detector.rule.version}" for detector in rule_set]
        self.specs = [detector.spec_hash for detector in rule_set]
        held, self.held, self.journeys = kept.held, kept.held, kept.journeys
        named = [k for k, detector in enumerate(rule_set) if detector.rule.names]
        if held and not (held.rules and kept.rules == self.rules and [*held.rules.names] == named):
            nothing = unknown_inputs(len(self.rules), len(held), named)
            self.held = replace(held, rules=nothing)  # what the old rules read of it is lost
        specs = dict(zip(kept.rules, kept.specs, strict=False))  # fences in a file change without a version
        before = dict(zip(kept.rules, kept.detectors, strict=True))
        of_id = {name.partition("@")[0]: each for name, each in before.items()}
        self.detectors: list[Memory] = []
        for name, spec, detector in zip(self.rules, self.specs, rule_set, strict=True):
            if detector.outlasts_versions:
                found = of_id.get(detector.rule.id)
            else:
                found = before.get(name) if specs.get(name, spec) == spec else None
            self.detectors.append(detector.memory(len(self.ids), found))

    def places(self, ids: Sequence[str]) -> Ints:
        """Where the vehicles are; those never seen get a place."""
        for vehicle_id in ids:
            if vehicle_id not in self._places:
                self._places[vehicle_id] = len(self.ids)
                self.ids.append(vehicle_id)
        count, before = len(self.ids), len(self.vehicles)
        if count > before:
            more = np.zeros(count - before, VEHICLE)
            more["boot"], more["due"] = NO_BOOT, np.inf
            self.vehicles = np.concatenate([self.vehicles, more])
            self.journeys.grow(count)
            for memory in self.detectors:
                memory.grow(count)
        return np.array([self._places[vehicle_id] for vehicle_id in ids], np.int64)

    def forget(self, places: Ints) -> None:
        stay = np.setdiff1d(np.arange(len(self.ids)), places)
        if len(stay) == len(self.ids):
            return
        self.ids = [self.ids[place] for place in stay.tolist()]
        self._places = {vehicle_id: place for place, vehicle_id in enumerate(self.ids)}
        self.vehicles = self.vehicles[stay]
        moved = {old: new for new, old in enumerate(stay.tolist())}
        self.waiting = {moved[old]: each for old, each in self.waiting.items() if old in moved}
        self.journeys.keep(stay)
        for memory in self.detectors:
            memory.keep(stay)

    def order(self, place: int) -> Order:
        """The order of one vehicle's frames, to be put back."""
        head, order = self.vehicles[place], self.waiting.get(place) or Order()
        for name, of in _ORDER.items():
            setattr(order, of, int(head[name]))
        return order

    def put_order(self, place: int, order: Order) -> None:
        for name, of in _ORDER.items():
            self.vehicles[name][place] = getattr(order, of)
        if order.held or order.gaps or order.boots:
            self.waiting[place] = order
        else:
            self.waiting.pop(place, None)


def load(blob: bytes | None, rule_set: RuleSet) -> tuple[Fleet, WindowMemory]:
    """The bucket in ``blob``; an empty one of nothing. Of rules that changed nothing is remembered."""
    if blob is None:
        return Fleet(rule_set), WindowMemory()
    fleet, windows = BUCKET.decode(blob)
    return Fleet(rule_set, state.load(fleet, KeptFleet)), windows


def dump(fleet: Fleet, windows: WindowMemory) -> bytes:
    """What a bucket remembers as bytes: its vehicles, compressed, and the open windows, which are already."""
    detectors = [memory.dump() for memory in fleet.detectors]
    head = fleet.ids, fleet.vehicles, fleet.waiting, fleet.held, fleet.journeys, fleet.rules
    return msgspec.msgpack.encode((state.dump(KeptFleet(*head, detectors, fleet.specs)), windows))


BUCKET: Final = msgspec.msgpack.Decoder(tuple[bytes, WindowMemory])
