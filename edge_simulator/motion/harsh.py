"""Harsh driving by the thresholds and gates of domain.md, section 4, from the true motion."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edge_simulator.geo import Ints
from edge_simulator.motion.dynamics import G
from edge_simulator.motion.fleet import Fleet

KINDS = ("brake", "accelerate", "corner")
THRESHOLD_G = {"car": (0.40, 0.35, 0.40), "van": (0.35, 0.30, 0.35), "heavy": (0.30, 0.25, 0.30)}
"""In the order of KINDS."""
GATE_MPS = np.array([[10.0], [10.0], [30.0]]) / 3.6
LEAST_MS = 300
MERGE_MS = 3000
NEAR_MPS2 = 0.1
"""So far below a threshold three standard deviations of what the instruments add may reach it."""


@dataclass(slots=True)
class Event:
    """A harsh event of one vehicle; times in ms, peak and threshold in m/s2 (absolute).

    ``near``: it would have been one from ``NEAR_MPS2`` less on, and is none.
    """

    what: str
    vehicle: int
    from_ms: int
    to_ms: int
    peak_mps2: float
    least_mps2: float
    near: bool = False


@dataclass(slots=True)
class _Run:
    """What a vehicle does too hard just now, or has done in the last seconds."""

    from_ms: int
    to_ms: int
    peak: float
    event: Event | None = None
    outdone: bool = False
    """It was near, and there was an event in it."""


Key = tuple[int, int, bool]
"""Kind, vehicle, and whether it is beyond the threshold or only near."""


class Harsh:
    """Finds harsh events step by step. Only the few vehicles beyond a threshold are looked at one by one."""

    def __init__(self, fleet: Fleet) -> None:
        mass = fleet.specs("mass_kg")
        kind = np.select([mass > 10_000, mass > 2_000], [2, 1], 0)
        self._least = G * np.array(list(THRESHOLD_G.values()))[kind].T.copy()
        self._lowest = float(self._least.min()) - NEAR_MPS2
        self._runs: dict[Key, _Run] = {}
        self._now_ms: int | None = None

    def step(self, fleet: Fleet, now_ms: int) -> list[Event]:
        """Events that are over: nothing more came within the time for merging."""
        since_ms = now_ms if self._now_ms is None else self._now_ms
        self._now_ms = now_ms
        st = fleet.state
        side = st.v * st.yaw_rps
        rows = np.flatnonzero((np.abs(st.a) > self._lowest) | (np.abs(side) > self._lowest))
        if len(rows):
            self._look(fleet, rows, since_ms, now_ms)
        return self._over(now_ms) if self._runs else []

    def close(self) -> list[Event]:
        """Events not told yet, at the end."""
        return self._told(list(self._runs))

    def _look(self, fleet: Fleet, rows: Ints, since_ms: int, now_ms: int) -> None:
        st = fleet.state
        a, v = st.a[rows], st.v[rows]
        strength = np.stack([-a, a, np.abs(v * st.yaw_rps[rows])])
        least = self._least[:, rows]
        counts = (strength > least - NEAR_MPS2) & (v > GATE_MPS) & ~st.crashed[rows]
        for what, place in np.argwhere(counts).tolist():
            vehicle = int(rows[place])
            peak, limit = float(strength[what, place]), float(least[what, place])
            self._go_on((what, vehicle, False), (since_ms, now_ms), peak, limit)
            if peak > limit:
                self._go_on((what, vehicle, True), (since_ms, now_ms), peak, limit)

    def _go_on(self, key: Key, step_ms: tuple[int, int], peak: float, limit: float) -> None:
        """One more step of a run; one of sufficient length is an event, or goes on with the one before."""
        since_ms, now_ms = step_ms
        run = self._runs.get(key)
        if run is None:
            run = self._runs[key] = _Run(since_ms, now_ms, peak)
        elif run.to_ms < since_ms:
            run.from_ms, run.peak = since_ms, peak
        run.to_ms, run.peak = now_ms, max(run.peak, peak)
        if run.to_ms - run.from_ms < LEAST_MS:
            return
        what, vehicle, beyond = key
        if beyond:
            self._runs[what, vehicle, False].outdone = True
        if run.event is None:
            run.event = Event(KINDS[what], vehicle, run.from_ms, run.to_ms, run.peak, limit, not beyond)
        run.event.to_ms = run.to_ms
        run.event.peak_mps2 = max(run.event.peak_mps2, run.peak)

    def _over(self, now_ms: int) -> list[Event]:
        return self._told([key for key, run in self._runs.items() if now_ms - run.to_ms > MERGE_MS])

    def _told(self, over: list[Key]) -> list[Event]:
        """The events of runs that are over, without what was near around an event."""
        runs = [self._runs.pop(key) for key in over]
        return [run.event for run in runs if run.event is not None and not run.outdone]
