"""Limp home: after a critical alert a vehicle goes on slowly, with little power, until it is switched off."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from edge_simulator.motion.fleet import Fleet

LIMP_MPS = 50 / 3.6
POWER_SHARE = 0.4
SLOWING_MPS2 = 1.0
"""Who is faster loses speed gently: nothing brakes, the power is gone."""

Truth = dict[str, Any]


@dataclass(slots=True)
class _Limping:
    """A vehicle in limp home; ``top_mps`` and ``pull`` are what it had before."""

    why: Mapping[str, Any]
    from_ms: int
    v_mps: float
    """The speed it may still have."""
    top_mps: float
    pull: float


class LimpHome:
    """The vehicles in limp home. It changes what their drivers can ask of them, so motion needs no new rule.

    Where nobody limps a step costs one look at ``busy``.
    """

    def __init__(self, fleet: Fleet, vehicle_ids: list[str]) -> None:
        self._fleet = fleet
        self._ids = vehicle_ids
        self._wanted: dict[int, Mapping[str, Any]] = {}
        self._limping: dict[int, _Limping] = {}
        self.entered = 0

    @property
    def busy(self) -> bool:
        """Whether somebody limps or is about to."""
        return bool(self._wanted or self._limping)

    def enter(self, vehicle: int, why: Mapping[str, Any]) -> None:
        """``vehicle`` is to limp from the next step on, unless it does; ``why`` goes into its truth."""
        if vehicle not in self._limping:
            self._wanted.setdefault(vehicle, why)

    def step(self, now_ms: int, start_ms: int, h_s: float) -> list[Truth]:
        """After a step of motion: begin, slow down, end; returns the truth of those that ended.

        Times are ms after the start and ms since 1970. Who is switched off or broken down when the alert
        comes has nothing to limp with.
        """
        on = self._fleet.ignition_on() & ~self._fleet.state.broken
        for vehicle, why in self._wanted.items():
            if on[vehicle]:
                self._begin(vehicle, why, start_ms + now_ms)
        self._wanted.clear()
        drivers = self._fleet.drivers
        for vehicle, limping in self._limping.items():
            limping.v_mps = max(LIMP_MPS, limping.v_mps - SLOWING_MPS2 * h_s)
            drivers.top_mps[vehicle] = min(limping.top_mps, limping.v_mps)
        over = [vehicle for vehicle in self._limping if not on[vehicle]]
        return [self._end(vehicle, start_ms + now_ms) for vehicle in over]

    def still(self) -> Iterator[Truth]:
        """The truth of those who limp at the run's end."""
        return (self._row(vehicle, limping, None) for vehicle, limping in self._limping.items())

    def _begin(self, vehicle: int, why: Mapping[str, Any], at_ms: int) -> None:
        drivers, v = self._fleet.drivers, float(self._fleet.state.v[vehicle])
        top, pull = float(drivers.top_mps[vehicle]), float(drivers.pull[vehicle])
        drivers.pull[vehicle] = POWER_SHARE * pull
        self._limping[vehicle] = _Limping(why, at_ms, v, top, pull)
        self.entered += 1

    def _end(self, vehicle: int, at_ms: int) -> Truth:
        limping = self._limping.pop(vehicle)
        drivers = self._fleet.drivers
        drivers.top_mps[vehicle], drivers.pull[vehicle] = limping.top_mps, limping.pull
        return self._row(vehicle, limping, at_ms)

    def _row(self, vehicle: int, limping: _Limping, to_ms: int | None) -> Truth:
        return {
            "kind": "limp_home", "vehicle_id": self._ids[vehicle], "from_ms": limping.from_ms,
            "to_ms": to_ms, "details": dict(limping.why),
        }  # fmt: skip
