"""What truly happened on the road: trips, stops, harsh events, edges passed. Rows as they end.

Every row has ``whole``: False where the begin or the end was not seen, because the run began or ended
meanwhile. ``harsh_near`` is no harsh event, but so near to a threshold, of the acceleration or of the speed,
that instruments may see one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edge_simulator.geo import G_MPS2, Ints
from edge_simulator.motion.agenda import PURPOSES
from edge_simulator.motion.fleet import Fleet
from edge_simulator.truth import TruthLog
from infra.contract.signals import BY_NAME

KINDS = ("brake", "accelerate", "corner")
THRESHOLD_G = {"car": (0.40, 0.35, 0.40), "van": (0.35, 0.30, 0.35), "heavy": (0.30, 0.25, 0.30)}  # by KINDS
GATE_MPS = np.array([[10.0], [10.0], [30.0]]) / 3.6
LEAST_MS = 300
MERGE_MS = 3000
NEAR_MPS2 = 0.1  # so far below a threshold three standard deviations of what the instruments add may reach it
NEAR_MPS = BY_NAME["speed_kmh"].sensor_step / 2 / 3.6  # below a gate: so far off a sensor's whole steps are


@dataclass(slots=True)
class Event:
    """Something too hard, m/s2 (absolute); a harsh event once a stretch of it is ``long`` enough.

    ``near``: it would be one from ``NEAR_MPS2`` or ``NEAR_MPS`` less on; ``outdone``: it has an event in it.
    """

    what: str
    vehicle: int
    least_mps2: float
    near: bool
    since_ms: int  # begin of the present stretch, when it was last seen, its peak
    seen_ms: int
    high_mps2: float
    from_ms: int = 0
    to_ms: int = 0
    peak_mps2: float = 0.0
    long: bool = False
    outdone: bool = False

    def go_on(self, since_ms: int, now_ms: int, peak_mps2: float) -> None:
        """One more step; a stretch of sufficient length begins the event, or goes on with the one before."""
        if self.seen_ms < since_ms:
            self.since_ms, self.high_mps2 = since_ms, peak_mps2
        self.seen_ms, self.high_mps2 = now_ms, max(self.high_mps2, peak_mps2)
        if now_ms - self.since_ms >= LEAST_MS:
            self.from_ms, self.to_ms = self.from_ms if self.long else self.since_ms, now_ms
            self.peak_mps2, self.long = max(self.peak_mps2, self.high_mps2), True


class Harsh:
    """Finds harsh events step by step. Only the few vehicles beyond a threshold are looked at one by one."""

    def __init__(self, fleet: Fleet) -> None:
        self._state = fleet.state
        self._least = G_MPS2 * np.array(list(THRESHOLD_G.values()))[fleet.specs.kind].T.copy()
        self._lowest = float(self._least.min()) - NEAR_MPS2
        self._open: dict[tuple[int, int, bool], Event] = {}  # by kind, vehicle, and whether it is only near
        self._now_ms: int | None = None

    def step(self, now_ms: int) -> list[Event]:
        """Events that are over: nothing more came within the time for merging."""
        since_ms = now_ms if self._now_ms is None else self._now_ms
        self._now_ms, st = now_ms, self._state
        rows = np.flatnonzero((np.abs(st.a) > self._lowest) | (np.abs(st.v * st.yaw_rps) > self._lowest))
        if len(rows):
            a, v = st.a[rows], st.v[rows]
            strength, least = np.stack([-a, a, np.abs(v * st.yaw_rps[rows])]), self._least[:, rows]
            counts = (strength > least - NEAR_MPS2) & (v > GATE_MPS - NEAR_MPS) & ~st.crashed[rows]
            true = (strength > least) & (v > GATE_MPS)
            for what, place in np.argwhere(counts).tolist():
                peak, limit, row = float(strength[what, place]), float(least[what, place]), int(rows[place])
                for near in (True, False) if true[what, place] else (True,):
                    fresh = Event(KINDS[what], row, limit, near, since_ms, since_ms, peak)
                    event = self._open.setdefault((what, row, near), fresh)
                    event.go_on(since_ms, now_ms, peak)
                    self._open[what, row, True].outdone |= not near and now_ms - event.since_ms >= LEAST_MS
        return self.close([key for key, event in self._open.items() if now_ms - event.seen_ms > MERGE_MS])

    def close(self, over: Sequence[tuple[int, int, bool]] | None = None) -> list[Event]:
        """The events of what is ``over`` (None: at the end, all)."""
        events = [self._open.pop(key) for key in (list(self._open) if over is None else over)]
        return [event for event in events if event.long and not event.outdone]


STOP_MS = 120_000  # A stop is at least this long, as idling is
STANDING_MPS = 1 / 3.6


class Spells:
    """Since when, and from where, something has been going on with each vehicle."""

    def __init__(self, fleet: Fleet, now_ms: int) -> None:
        self._state = st = fleet.state
        self.from_ms = np.full(fleet.n, now_ms, dtype=np.int64)
        self.lat, self.lon, self.odometer_m = st.lat.copy(), st.lon.copy(), st.odometer_m.copy()
        self.whole = np.zeros(fleet.n, dtype=np.bool_)

    def begin(self, rows: Ints, now_ms: int, whole: bool = True) -> None:
        """Something new begins for ``rows``; not ``whole`` where its begin is not the real one."""
        st = self._state
        self.from_ms[rows], self.whole[rows] = now_ms, whole
        self.lat[rows], self.lon[rows] = st.lat[rows], st.lon[rows]
        self.odometer_m[rows] = st.odometer_m[rows]


class GroundTruth:
    """Watches a fleet. Times are the run's, ms from its start; ``edges`` passed are rows too, and many."""

    def __init__(self, truth: TruthLog, fleet: Fleet, now_ms: int, edges: bool = False) -> None:
        st = fleet.state
        self._truth, self._fleet, self._edges = truth, fleet, edges
        self._harsh = Harsh(fleet)
        self._trip, self._stop, self._passage = (Spells(fleet, now_ms) for _ in range(3))
        self._parked, self._edge, self._purpose = st.parked, st.edge, st.purpose.copy()
        self._on, self._moves = fleet.ignition_on(), st.v > STANDING_MPS

    def step(self, now_ms: int) -> None:
        """Rows of what ended in the step up to ``now_ms``."""
        st, on = self._fleet.state, self._fleet.ignition_on()
        moves = st.v > STANDING_MPS
        self._harsh_ones(self._harsh.step(now_ms))
        turned = np.flatnonzero((moves != self._moves) | (on != self._on))
        if len(turned):
            self._stops(turned, now_ms, whole=True)
            self._stop.begin(turned, now_ms)
        changed = np.flatnonzero(st.parked != self._parked)
        ended = changed[~self._parked[changed]]
        if len(changed):
            self._trips(ended, now_ms, whole=True)
            self._trip.begin(changed, now_ms)
            self._purpose[changed] = st.purpose[changed]
        if self._edges:
            passed = np.flatnonzero(st.edge != self._edge)
            self._passages(passed, now_ms, whole=True)
            self._passages(ended, now_ms, whole=False)
            self._passage.begin(passed, now_ms)
            self._passage.begin(changed, now_ms, whole=False)
        self._parked, self._edge, self._on, self._moves = st.parked, st.edge, on, moves

    def close(self, now_ms: int) -> None:
        """Rows of what goes on at the end, cut there."""
        driving = np.flatnonzero(~self._parked)
        self._harsh_ones(self._harsh.close())
        self._trips(driving, now_ms, whole=False)
        self._stops(np.arange(self._fleet.n), now_ms, whole=False)
        if self._edges:
            self._passages(driving, now_ms, whole=False)

    def _add(
        self, kind: str, rows: Ints, since: Spells, now_ms: int, whole: bool, **columns: list[Any]
    ) -> None:
        """A row for each vehicle of ``rows``; ``columns`` are [n_rows]."""
        columns["whole"] = (since.whole[rows] & whole).tolist()
        for k, vehicle in enumerate(rows.tolist()):
            more = {name: column[k] for name, column in columns.items()}
            self._truth.add(kind, vehicle, int(since.from_ms[vehicle]), now_ms, **more)

    def _trips(self, rows: Ints, now_ms: int, whole: bool) -> None:
        """Trips, from ignition to parking: distance, from where, to where, what for, ignition at the end."""
        st, trip = self._fleet.state, self._trip
        self._add(
            "trip", rows, trip, now_ms, whole,
            distance_m=np.round(st.odometer_m[rows] - trip.odometer_m[rows], 1).tolist(),
            from_lat=np.round(trip.lat[rows], 6).tolist(), from_lon=np.round(trip.lon[rows], 6).tolist(),
            to_lat=np.round(st.lat[rows], 6).tolist(), to_lon=np.round(st.lon[rows], 6).tolist(),
            purpose=[PURPOSES[k] for k in self._purpose[rows]],
            ignition_on=self._fleet.ignition_on()[rows].tolist(),
        )  # fmt: skip

    def _stops(self, rows: Ints, now_ms: int, whole: bool) -> None:
        """Times of standing still, long enough, with the ignition on or off throughout."""
        stop = self._stop
        rows = rows[~self._moves[rows] & (now_ms - stop.from_ms[rows] >= STOP_MS)]
        self._add(
            "stop", rows, stop, now_ms, whole,
            ignition_on=self._on[rows].tolist(), parked=self._parked[rows].tolist(),
            lat=np.round(stop.lat[rows], 6).tolist(), lon=np.round(stop.lon[rows], 6).tolist(),
            edge_id=self._edge[rows].tolist(),
        )  # fmt: skip

    def _passages(self, rows: Ints, now_ms: int, whole: bool) -> None:
        """Edges passed, distance over the time it took; not whole where a trip began or ended."""
        way_m = self._fleet.state.odometer_m[rows] - self._passage.odometer_m[rows]
        took_s = np.maximum(now_ms - self._passage.from_ms[rows], 1) / 1000
        self._add(
            "edge", rows, self._passage, now_ms, whole, edge_id=self._edge[rows].tolist(),
            distance_m=np.round(way_m, 1).tolist(), speed_kmh=np.round(3.6 * way_m / took_s, 2).tolist(),
        )  # fmt: skip

    def _harsh_ones(self, events: Sequence[Event]) -> None:
        for event in events:
            kind = "harsh_near" if event.near else "harsh"
            self._truth.add(
                kind, event.vehicle, event.from_ms, event.to_ms, whole=event.from_ms >= 0, what=event.what,
                peak_g=round(event.peak_mps2 / G_MPS2, 3), limit_g=round(event.least_mps2 / G_MPS2, 3),
                duration_ms=event.to_ms - event.from_ms,
            )  # fmt: skip
