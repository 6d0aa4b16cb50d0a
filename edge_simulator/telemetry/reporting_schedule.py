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
        self._drove_ms, self._sent_ms = np.full((2, n), NEVER_MS)
        self.everybody = not scenario.schedule.stages and scenario.parked_every_ms is None
        """Whether all vehicles report all the time."""

    def on_line(self) -> Ints:
        """Vehicles that are on line now."""
        return np.flatnonzero(self._place < self._count)

    def advance(self, since_ms: int) -> tuple[Ints, Ints]:
        """Vehicles that come on line and that leave, as the stages want it ``since_ms`` after the start."""
        before, self._count = self._count, self._wanted(since_ms)
        if before == self._count:
            return self._place[:0], self._place[:0]
        coming = (self._place >= before) & (self._place < self._count)
        leaving = (self._place >= self._count) & (self._place < before)
        return np.flatnonzero(coming), np.flatnonzero(leaving)

    def reporting(self, rows: slice, parked: Bools, now_ms: int) -> Ints:
        """Which of ``rows`` report now: on line, and under way or with their parked interval over."""
        every, due = self._sc.parked_every_ms, self._place[rows] < self._count
        if every is not None:
            self._drove_ms[rows] = np.where(parked[rows], self._drove_ms[rows], now_ms)
            trip_ends = now_ms - self._drove_ms[rows] <= self._sc.cadence.interval_ms  # that is reported too
            due &= trip_ends | (now_ms - self._sent_ms[rows] >= every)
        found: Ints = np.flatnonzero(due) + rows.start
        self._sent_ms[found] = now_ms
        return found

    def rate(self, parked: Bools) -> float:
        """Frames/s that are due now: of those on line, the ones under way, and rarely the parked ones."""
        here, interval_ms = self._place < self._count, self._sc.cadence.interval_ms
        moving, standing = np.count_nonzero(here & ~parked), np.count_nonzero(here & parked)
        return 1000 * (moving / interval_ms + standing / (self._sc.parked_every_ms or interval_ms))

    def _wanted(self, since_ms: int) -> int:
        if not self._sc.schedule.stages:
            return self._sc.vehicles
        full = self._sc.full_rate
        return on_line(self._sc.schedule.rate(since_ms, full), full, self._sc.vehicles)
