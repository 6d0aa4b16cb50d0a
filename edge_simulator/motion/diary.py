"""The diary of a fleet: departures and shifts of some days, drawn day by day."""

from __future__ import annotations

import numpy as np

from edge_simulator.geo import Bools, Floats, Ints
from edge_simulator.motion import plans, shifts
from edge_simulator.motion.agenda import ERRAND, HOME

DAY_S = 86_400.0
DAYS = 5
"""Days known at any time: yesterday, today and three to come."""


class Diary:
    """Departures [n, DAYS * COLUMNS] and shifts [n, DAYS], in seconds since the run's start.

    A day follows from ``seed`` and its number alone, whenever it is drawn.
    """

    def __init__(self, role: Ints, late: Bools, seed: int, begins_at_s: float, weekday: int) -> None:
        self._role, self._late, self._seed = role, late, seed
        self._begins_at_s, self._weekday = begins_at_s, weekday
        self._today = 0
        self._done_s = np.full(len(role), -np.inf)
        days = [self._one_day(d) for d in range(-1, DAYS - 1)]
        self._time_s, self._begin_s, self._end_s = (
            np.concatenate([d[k] for d in days], axis=1) for k in (0, 2, 3)
        )
        self._purpose = np.concatenate([d[1] for d in days], axis=1)

    def _one_day(self, day: int) -> tuple[Floats, Ints, Floats, Floats]:
        """Departures, their purposes, begin and end of the shift of one day, s since the run's start."""
        rng = np.random.default_rng([self._seed, day + 1])
        weekday = (self._weekday + day) % 7
        plan = plans.draw(self._role == shifts.COMMUTER, weekday, rng)
        begin, end = shifts.shift(self._role, self._late, weekday, rng)
        midnight_s = day * DAY_S - self._begins_at_s
        time_s, begin, end = plan.time_s + midnight_s, begin + midnight_s, end + midnight_s
        return time_s, plan.purpose, begin[:, None], end[:, None]

    def roll(self, t_s: float) -> None:
        """Forget the day before yesterday and plan another one, as days pass."""
        while t_s >= (self._today + 1) * DAY_S - self._begins_at_s:
            self._today += 1
            time_s, purpose, begin_s, end_s = self._one_day(self._today + DAYS - 2)
            width = plans.COLUMNS
            self._time_s = np.concatenate([self._time_s[:, width:], time_s], axis=1)
            self._purpose = np.concatenate([self._purpose[:, width:], purpose], axis=1)
            self._begin_s = np.concatenate([self._begin_s[:, 1:], begin_s], axis=1)
            self._end_s = np.concatenate([self._end_s[:, 1:], end_s], axis=1)

    def next_departure(self, rows: Ints, t_s: float) -> tuple[Floats, Ints]:
        """The next departure that is planned, and its purpose; one that is late follows at once."""
        time_s = self._time_s[rows]
        later = np.where(time_s > self._done_s[rows][:, None], time_s, np.inf)
        place = later.argmin(axis=1)
        leaves_s = later[np.arange(len(rows)), place]
        none = np.isinf(leaves_s)
        self._done_s[rows] = np.where(none, self._done_s[rows], leaves_s)
        purpose = np.where(none, ERRAND, self._purpose[rows, place])
        return np.maximum(np.where(none, self._horizon_s(), leaves_s), t_s + 120.0), purpose

    def shift(self, rows: Ints, t_s: float) -> tuple[Floats, Floats]:
        """End of the shift that runs at ``t_s`` (-inf if none does), and the begin of the next one."""
        begin, end = self._begin_s[rows], self._end_s[rows]
        until = np.where((begin <= t_s) & (t_s < end), end, -np.inf).max(axis=1)
        following = np.where(begin > t_s, begin, np.inf).min(axis=1)
        return until, np.minimum(following, self._horizon_s())

    def last_departure(self) -> tuple[Floats, Ints, Ints]:
        """For t = 0: time (-inf: none) and purpose of the last departures, purpose of those before them."""
        rows = np.arange(len(self._role))
        past = np.where(self._time_s <= 0, self._time_s, -np.inf)
        last = past.argmax(axis=1)
        left_s = past[rows, last]
        before = np.where(past < left_s[:, None], past, -np.inf)
        earlier = before.argmax(axis=1)
        self._done_s = left_s.copy()
        came_for = np.where(np.isinf(before[rows, earlier]), HOME, self._purpose[rows, earlier])
        return left_s, np.where(np.isinf(left_s), HOME, self._purpose[rows, last]), came_for

    def _horizon_s(self) -> float:
        """A time on the last day known, for those who have nothing planned until then."""
        return (self._today + DAYS - 1.5) * DAY_S - self._begins_at_s
