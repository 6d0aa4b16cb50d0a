"""What truly happened on the road: trips, stops, harsh events, edges passed. Rows as they end.

Every row has ``kind``, ``vehicle_id``, ``from_ms``, ``to_ms`` and ``whole``: False where the begin or the end
was not seen, because the run began or ended meanwhile. ``harsh_near`` is no harsh event, but so near to the
threshold that instruments may see one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edge_simulator.geo import Floats, Ints
from edge_simulator.motion.agenda import PURPOSES
from edge_simulator.motion.dynamics import G
from edge_simulator.motion.fleet import Fleet

KINDS = ("brake", "accelerate", "corner")
THRESHOLD_G = {"car": (0.40, 0.35, 0.40), "van": (0.35, 0.30, 0.35), "heavy": (0.30, 0.25, 0.30)}
"""In the order of KINDS."""
GATE_MPS = np.array([[10.0], [10.0], [30.0]]) / 3.6
LEAST_MS = 300
MERGE_MS = 3000
NEAR_MPS2 = 0.1  # so far below a threshold three standard deviations of what the instruments add may reach it


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
    outdone: bool = False  # it was near, and there was an event in it


Key = tuple[int, int, bool]  # kind, vehicle, and whether it is beyond the threshold or only near


class Harsh:
    """Finds harsh events step by step. Only the few vehicles beyond a threshold are looked at one by one."""

    def __init__(self, fleet: Fleet) -> None:
        self._least = G * np.array(list(THRESHOLD_G.values()))[fleet.specs.kind].T.copy()
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
        return self._take([key for key, run in self._runs.items() if now_ms - run.to_ms > MERGE_MS])

    def close(self) -> list[Event]:
        """The events that are left at the end."""
        return self._take(list(self._runs))

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

    def _take(self, over: list[Key]) -> list[Event]:
        """The events of runs that are over, without what was near around an event."""
        runs = [self._runs.pop(key) for key in over]
        return [run.event for run in runs if run.event is not None and not run.outdone]


Row = dict[str, Any]
STOP_MS = 120_000  # A stop is at least this long (domain.md, section 3: idling)
STANDING_MPS = 1 / 3.6


class Spells:
    """Since when, and from where, something has been going on with each vehicle."""

    def __init__(self, fleet: Fleet, now_ms: int) -> None:
        self.from_ms = np.full(fleet.n, now_ms, dtype=np.int64)
        self.lat, self.lon = fleet.state.lat.copy(), fleet.state.lon.copy()
        self.odometer_m = fleet.state.odometer_m.copy()
        self.whole = np.zeros(fleet.n, dtype=np.bool_)

    def begin(self, rows: Ints, fleet: Fleet, now_ms: int, whole: bool = True) -> None:
        """Something new begins for ``rows``; not ``whole`` where its begin is not the real one."""
        st = fleet.state
        self.from_ms[rows], self.whole[rows] = now_ms, whole
        self.lat[rows], self.lon[rows] = st.lat[rows], st.lon[rows]
        self.odometer_m[rows] = st.odometer_m[rows]


class GroundTruth:
    """Watches a fleet. ``vehicle_ids`` as in the messages; ``edges``: edges passed are rows too, and many."""

    def __init__(self, vehicle_ids: Sequence[str], fleet: Fleet, now_ms: int, edges: bool = False) -> None:
        st = fleet.state
        self._ids, self._edges, self._start_ms = vehicle_ids, edges, 0
        self._harsh = Harsh(fleet)
        self._trip, self._stop, self._passage = (Spells(fleet, now_ms) for _ in range(3))
        self._parked, self._edge, self._purpose = st.parked, st.edge, st.purpose.copy()
        self._on, self._moves = fleet.ignition_on(), st.v > STANDING_MPS

    def step(self, fleet: Fleet, now_ms: int, start_ms: int = 0) -> list[Row]:
        """Rows of what ended in the step up to ``now_ms``, their times moved by ``start_ms``."""
        self._start_ms = start_ms
        st, on, moves = fleet.state, fleet.ignition_on(), fleet.state.v > STANDING_MPS
        rows = [self._harsh_row(event) for event in self._harsh.step(fleet, now_ms)]
        turned = np.flatnonzero((moves != self._moves) | (on != self._on))
        if len(turned):
            rows += self._stops(turned, now_ms, whole=True)
            self._stop.begin(turned, fleet, now_ms)
        changed = np.flatnonzero(st.parked != self._parked)
        if len(changed):
            rows += self._trips(changed[~self._parked[changed]], fleet, now_ms, whole=True)
            self._trip.begin(changed, fleet, now_ms)
            self._purpose[changed] = st.purpose[changed]
        if self._edges:
            passed = np.flatnonzero(st.edge != self._edge)
            rows += self._passages(passed, fleet, now_ms, whole=True)
            rows += self._passages(changed[~self._parked[changed]], fleet, now_ms, whole=False)
            self._passage.begin(passed, fleet, now_ms)
            self._passage.begin(changed, fleet, now_ms, whole=False)
        self._parked, self._edge, self._on, self._moves = st.parked, st.edge, on, moves
        return rows

    def close(self, fleet: Fleet, now_ms: int, start_ms: int = 0) -> list[Row]:
        """Rows of what goes on at the end, cut there."""
        self._start_ms = start_ms
        driving = np.flatnonzero(~self._parked)
        rows = [self._harsh_row(event) for event in self._harsh.close()]
        rows += self._trips(driving, fleet, now_ms, whole=False)
        rows += self._stops(np.arange(fleet.n), now_ms, whole=False)
        return rows + (self._passages(driving, fleet, now_ms, whole=False) if self._edges else [])

    def _rows(
        self, kind: str, rows: Ints, spells: Spells, now_ms: int, whole: bool, **columns: list[Any]
    ) -> list[Row]:
        n = len(rows)
        table = {
            "kind": [kind] * n,
            "vehicle_id": [self._ids[k] for k in rows.tolist()],
            "from_ms": (spells.from_ms[rows] + self._start_ms).tolist(),
            "to_ms": [now_ms + self._start_ms] * n,
            "whole": (spells.whole[rows] & whole).tolist(),
            **columns,
        }
        return [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]

    def _trips(self, rows: Ints, fleet: Fleet, now_ms: int, whole: bool) -> list[Row]:
        """Trips, from ignition to parking: distance, from where, to where, what for."""
        st, trip = fleet.state, self._trip
        return self._rows(
            "trip", rows, trip, now_ms, whole,
            distance_m=_rounded(st.odometer_m[rows] - trip.odometer_m[rows], 1),
            from_lat=_rounded(trip.lat[rows], 6), from_lon=_rounded(trip.lon[rows], 6),
            to_lat=_rounded(st.lat[rows], 6), to_lon=_rounded(st.lon[rows], 6),
            purpose=[PURPOSES[k] for k in self._purpose[rows]],
        )  # fmt: skip

    def _stops(self, rows: Ints, now_ms: int, whole: bool) -> list[Row]:
        """Times of standing still, long enough, with the ignition on or off throughout."""
        stop = self._stop
        rows = rows[~self._moves[rows] & (now_ms - stop.from_ms[rows] >= STOP_MS)]
        return self._rows(
            "stop", rows, stop, now_ms, whole,
            ignition_on=self._on[rows].tolist(), parked=self._parked[rows].tolist(),
            lat=_rounded(stop.lat[rows], 6), lon=_rounded(stop.lon[rows], 6),
            edge_id=self._edge[rows].tolist(),
        )  # fmt: skip

    def _passages(self, rows: Ints, fleet: Fleet, now_ms: int, whole: bool) -> list[Row]:
        """Edges passed, distance over the time it took; not whole where a trip began or ended."""
        way_m = fleet.state.odometer_m[rows] - self._passage.odometer_m[rows]
        took_s = np.maximum(now_ms - self._passage.from_ms[rows], 1) / 1000
        return self._rows(
            "edge", rows, self._passage, now_ms, whole, edge_id=self._edge[rows].tolist(),
            distance_m=_rounded(way_m, 1), speed_kmh=_rounded(3.6 * way_m / took_s, 2),
        )  # fmt: skip

    def _harsh_row(self, event: Event) -> Row:
        return {
            "kind": "harsh_near" if event.near else "harsh", "vehicle_id": self._ids[event.vehicle],
            "from_ms": event.from_ms + self._start_ms, "to_ms": event.to_ms + self._start_ms, "whole": True,
            "what": event.what, "peak_g": round(event.peak_mps2 / G, 3),
            "limit_g": round(event.least_mps2 / G, 3), "duration_ms": event.to_ms - event.from_ms,
        }  # fmt: skip


def _rounded(values: Floats, digits: int) -> list[Any]:
    found: list[Any] = np.round(values, digits).tolist()
    return found
