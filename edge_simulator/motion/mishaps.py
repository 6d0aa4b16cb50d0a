"""Vehicles that cannot go on, and those that only limp home."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from edge_simulator.geo import Floats, Ints
from edge_simulator.motion.dynamics import State
from edge_simulator.motion.lane import Lane
from edge_simulator.town.roads import LANES, RoadNetwork
from edge_simulator.truth import TruthLog

if TYPE_CHECKING:
    from edge_simulator.motion.fleet import Fleet

CRASH_SLOWING_MPS2 = 7.0
ROLLING_OUT_MPS2 = 2.5
PASSED_AFTER_S = 20.0  # so long everybody waits behind a vehicle that has stopped; then they pass, one by one
TOWED_AFTER_S = (600.0, 1800.0)
PASSING_MPS = 1.7
PASSING_FROM_M = 8.0
SLOWING_MPS2 = 1.2


class Mishaps:
    """Broken vehicles of a fleet, from the mishap until they are towed away."""

    def __init__(self, net: RoadNetwork, length_m: Floats, rng: np.random.Generator) -> None:
        n, tracks = len(length_m), LANES * len(net.length_m)
        self._length_m, self._rng = length_m, rng
        self._rows: Ints = np.empty(0, dtype=np.int64)
        self._stood_s, self._towed_s = np.full((2, n), np.inf)
        self._site_m, self._site_length_m = np.full(tracks, np.inf), np.zeros(tracks)
        self._sites = 0

    @property
    def none(self) -> bool:
        return len(self._rows) == 0

    def notice(self, st: State) -> None:
        for vehicle in np.flatnonzero(st.crashed & ~st.broken).tolist():
            self.add(st, vehicle)

    def add(self, st: State, vehicle: int) -> None:
        """``vehicle`` cannot go on from now on; one that is parked will not start."""
        if st.broken[vehicle]:
            return
        st.broken[vehicle] = True
        st.wake_s[vehicle] = np.inf
        if st.on_road[vehicle]:
            self._rows = np.append(self._rows, vehicle)

    def slow(self, st: State, lane: Lane, next_v: Floats, h_s: float) -> None:
        """Speed of broken vehicles that still roll: an impact takes its share at once; in place."""
        at = np.flatnonzero(st.broken[lane.rows])
        rows, v = lane.rows[at], lane.v[at]
        hit = st.impact_mps[rows]
        rolled = v - np.where(st.crashed[rows], CRASH_SLOWING_MPS2, ROLLING_OUT_MPS2) * h_s
        next_v[at] = np.maximum(np.where(hit > 0, v - hit, np.minimum(rolled, next_v[at])), 0.0)
        st.impact_mps[rows] = 0.0

    def progress(self, st: State, t_s: float) -> Ints:
        """What time brings: sites that are passed; vehicles towed away are returned, to be parked."""
        rows = self._rows
        stood = rows[(st.v[rows] <= 0) & (self._stood_s[rows] == np.inf)]
        self._stood_s[stood] = t_s
        self._towed_s[stood] = t_s + self._rng.uniform(*TOWED_AFTER_S, len(stood))
        opened = rows[st.on_road[rows] & (t_s >= self._stood_s[rows] + PASSED_AFTER_S)]
        towed: Ints = rows[t_s >= self._towed_s[rows]]
        if len(opened) or len(towed):
            st.on_road[opened] = False
            self._rows = rows[t_s < self._towed_s[rows]]
            still = self._rows[~st.on_road[self._rows]]
            still = still[np.argsort(-st.s[still], kind="stable")]  # of several on a track the first counts
            track = LANES * st.edge[still] + st.lane[still]
            self._site_m[:] = np.inf
            self._site_m[track], self._site_length_m[track] = st.s[still], self._length_m[still]
            self._sites = len(still)
        return towed

    def passing2(self, lane: Lane) -> Floats | None:
        """Square of the speed that sites ahead allow, (m/s)^2; None where there are none."""
        if self._sites == 0:
            return None
        site = self._site_m[lane.track]
        before = np.maximum(site - self._site_length_m[lane.track] - PASSING_FROM_M - lane.s, 0.0)
        slow = PASSING_MPS**2 + 2 * SLOWING_MPS2 * before
        return np.where(lane.s - lane.own_m < site, slow, np.inf)


LIMP_MPS = 50 / 3.6
POWER_SHARE = 0.4
LIMP_SLOWING_MPS2 = 1.0  # who is faster loses speed gently: nothing brakes, the power is gone


class LimpHome:
    """The vehicles in limp home: it changes what drivers can ask of them, so motion needs no new rule."""

    def __init__(self, fleet: "Fleet", truth: TruthLog) -> None:
        self._fleet, self._truth = fleet, truth
        self._wanted: dict[int, Mapping[str, Any]] = {}
        self._limping: dict[int, tuple[int, Mapping[str, Any]]] = {}  # since when (ms), and why
        drivers = fleet.drivers
        self._sound_top_mps, self._sound_pull = drivers.top_mps.copy(), drivers.pull.copy()
        self._v_mps = np.zeros(fleet.n)  # the speed that one who limps may still have
        self.entered = 0

    def enter(self, vehicle: int, why: Mapping[str, Any]) -> None:
        """``vehicle`` is to limp from the next step on, unless it does; ``why`` goes into its truth."""
        if vehicle not in self._limping:
            self._wanted.setdefault(vehicle, why)

    def step(self, now_ms: int, h_s: float) -> None:
        """Begin, slow down, end, which is truth then. Who is off or broken does not begin."""
        if not (self._wanted or self._limping):
            return
        drivers, st = self._fleet.drivers, self._fleet.state
        on = self._fleet.ignition_on() & ~st.broken
        for vehicle, why in self._wanted.items():
            if on[vehicle]:
                self._v_mps[vehicle] = st.v[vehicle]
                drivers.pull[vehicle] *= POWER_SHARE
                self._limping[vehicle] = (now_ms, why)
                self.entered += 1
        self._wanted.clear()
        for vehicle in list(self._limping):
            v_mps = max(LIMP_MPS, self._v_mps[vehicle] - LIMP_SLOWING_MPS2 * h_s)
            self._v_mps[vehicle] = v_mps
            drivers.top_mps[vehicle] = min(self._sound_top_mps[vehicle], v_mps)
            if not on[vehicle]:
                drivers.top_mps[vehicle] = self._sound_top_mps[vehicle]
                drivers.pull[vehicle] = self._sound_pull[vehicle]
                from_ms, why = self._limping.pop(vehicle)
                self._truth.add("limp_home", vehicle, from_ms, now_ms, details=dict(why))

    def close(self) -> None:
        """The truth of those who limp at the run's end."""
        for vehicle, (from_ms, why) in self._limping.items():
            self._truth.add("limp_home", vehicle, from_ms, None, details=dict(why))
