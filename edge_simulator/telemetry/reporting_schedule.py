"""Who reports: vehicles come on line as the stages say, and parked ones report rarely."""

from __future__ import annotations

import numpy as np

from edge_simulator.geo import Bools, Ints
from edge_simulator.scenario import Scenario, on_line, turns

NEVER_MS = -(10**15)


class ReportingSchedule:
    """Keeps who is on line and who reported when; times are the run's clock, ms."""

    def __init__(self, scenario: Scenario) -> None:
        self._sc = scenario
        n = scenario.vehicles
        self._place = turns(n) if scenario.schedule.stages else np.arange(n)
        self._count = self._wanted(0)
        self._drove_ms = np.full(n, NEVER_MS)
        self._sent_ms = np.full(n, NEVER_MS)

    @property
    def everybody(self) -> bool:
        """Whether all vehicles report all the time."""
        return not self._sc.schedule.stages and self._sc.parked_every_ms is None

    def on_line(self) -> Ints:
        """Vehicles that are on line now."""
        return np.flatnonzero(self._place < self._count)

    def advance(self, since_ms: int) -> tuple[Ints, Ints]:
        """Vehicles that come on line and that leave, as the stages want it ``since_ms`` after the start."""
        before, self._count = self._count, self._wanted(since_ms)
        if before == self._count:
            return self._place[:0], self._place[:0]
        low, high = min(before, self._count), max(before, self._count)
        changed = np.flatnonzero((self._place >= low) & (self._place < high))
        return (changed, changed[:0]) if self._count > before else (changed[:0], changed)

    def reporting(self, rows: slice, parked: Bools, now_ms: int) -> Ints:
        """Which of ``rows`` report now: on line, and under way or with their parked interval over."""
        every = self._sc.parked_every_ms
        due = np.ones(rows.stop - rows.start, dtype=np.bool_)
        if every is not None:
            self._drove_ms[rows] = np.where(parked[rows], self._drove_ms[rows], now_ms)
            fresh = (
                now_ms - self._drove_ms[rows] <= self._sc.cadence.interval_ms
            )  # the end of a trip is reported
            due = fresh | (now_ms - self._sent_ms[rows] >= every)
        found: Ints = np.flatnonzero(due & (self._place[rows] < self._count)) + rows.start
        self._sent_ms[found] = now_ms
        return found

    def rate(self, parked: Bools) -> float:
        """Frames/s that are due now: of those on line, the ones under way, and rarely the parked ones."""
        here = self._place < self._count
        every_ms = self._sc.parked_every_ms or self._sc.cadence.interval_ms
        moving, standing = np.count_nonzero(here & ~parked), np.count_nonzero(here & parked)
        return 1000 * (moving / self._sc.cadence.interval_ms + standing / every_ms)

    def _wanted(self, since_ms: int) -> int:
        if not self._sc.schedule.stages:
            return self._sc.vehicles
        full = self._sc.full_rate
        return on_line(self._sc.schedule.rate(since_ms, full), full, self._sc.vehicles)
