"""Who drives when: private departures and working shifts, drawn day by day.

One row a vehicle. Times: s after midnight in a plan, s after the start of the run in the diary; inf is never.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edge_simulator.geo import Bools, Floats, Ints
from edge_simulator.motion.agenda import ERRAND, HOME, LEISURE, WORK

HOUR = 3600.0
COLUMNS = 7
SATURDAY, SUNDAY = 5, 6
AT_WORK_SHARE = 0.88  # of commuters on a working day; the others stay at home that day


DayPlan = tuple[Floats, Ints]  # times and purposes of the departures of a day, each [n, COLUMNS]


def draw_plan(commuter: Bools, weekday: int, rng: np.random.Generator) -> DayPlan:
    """The plan of one day for ``commuter`` (others have no work). ``weekday`` 0 is Monday."""
    n = len(commuter)
    at_leisure = _outings(n, weekday, rng)
    at_work = _working_day(n, rng)
    works = commuter & (weekday < SATURDAY) & (rng.random(n) < AT_WORK_SHARE)
    times, purposes = (np.where(works[:, None], at_work[k], at_leisure[k]) for k in (0, 1))
    return times, purposes


def _normal(
    rng: np.random.Generator, n: int, hour: float, spread_h: float, low_h: float, high_h: float
) -> Floats:
    return np.clip(rng.normal(hour, spread_h, n), low_h, high_h) * HOUR


def _if(rng: np.random.Generator, share: float, time_s: Floats) -> Floats:
    """The departure for a share of the vehicles only."""
    return np.where(rng.random(len(time_s)) < share, time_s, np.inf)


def _working_day(n: int, rng: np.random.Generator) -> DayPlan:
    """To work, perhaps out at noon, home, perhaps past a shop, perhaps out in the evening."""
    leaves = _normal(rng, n, 7.55, 0.42, 6.4, 9.3) + rng.uniform(-600, 600, n)
    noon = _if(rng, 0.10, rng.uniform(11.8, 13.0, n) * HOUR)
    back_s = noon + rng.uniform(1500, 3600, n)
    done = _normal(rng, n, 17.0, 0.6, 15.2, 19.3) + rng.uniform(-600, 600, n)
    shop = _if(rng, 0.25, done)
    home = np.where(np.isinf(shop), done, done + rng.uniform(1500, 4200, n))
    out = _if(rng, 0.20, np.maximum(rng.uniform(18.7, 20.3, n) * HOUR, home + 2400))
    again = out + rng.uniform(1.5, 3.2, n) * HOUR
    purpose = np.array([WORK, ERRAND, WORK, ERRAND, HOME, LEISURE, HOME])
    return np.column_stack([leaves, noon, back_s, shop, home, out, again]), np.tile(purpose, (n, 1))


def _outings(n: int, weekday: int, rng: np.random.Generator) -> DayPlan:
    """Out in the morning, in the afternoon, in the evening, each with some probability; home in between."""
    first, second, third = {SATURDAY: (0.7, 0.6, 0.35), SUNDAY: (0.4, 0.5, 0.2)}.get(
        weekday, (0.6, 0.45, 0.15)
    )
    a = _if(rng, first, rng.uniform(9.0, 12.2, n) * HOUR)
    a_back = a + rng.uniform(0.6, 2.0, n) * HOUR
    b = _if(rng, second, rng.uniform(14.6, 17.6, n) * HOUR)
    b_back = b + rng.uniform(0.6, 1.8, n) * HOUR
    c = _if(rng, third, rng.uniform(19.6, 20.8, n) * HOUR)
    c_back = c + rng.uniform(1.4, 3.8, n) * HOUR
    never = np.full(n, np.inf)
    shops = 0.75 if weekday != SUNDAY else 0.2
    kinds = np.where(rng.random((n, 2)) < shops, ERRAND, LEISURE)
    home = np.full(n, HOME)
    columns = [kinds[:, 0], home, kinds[:, 1], home, np.full(n, LEISURE), home, home]
    return np.column_stack([a, a_back, b, b_back, c, c_back, never]), np.column_stack(columns)


COMMUTER, PRIVATE, TAXI, PARCELS, TRADES, LOADS, HAUL = range(7)
"""Roles. Trades are craftsmen, loads the lorries of local trade, haul those of the motorway."""
ROLE_NAMES = ("commuter", "private", "taxi", "parcels", "trades", "loads", "haul")
OF_CLASS = {
    "car": {COMMUTER: 0.74, PRIVATE: 0.21, TAXI: 0.05},
    "van": {PARCELS: 0.5, TRADES: 0.5},
    "heavy": {LOADS: 0.5, HAUL: 0.5},
}


@dataclass(frozen=True, slots=True)
class Duty:
    """How a working role spends its day. Hours of the day; stops log-normal around ``stop_min``."""

    starts_h: tuple[float, float]  # mean and spread of the first shift's begin
    late_share: float  # share of vehicles that begin ``late_h`` later
    late_h: float
    length_h: tuple[float, float]
    on_weekday: tuple[float, float, float]  # share on duty Monday to Friday, on Saturday, on Sunday
    stop_min: float
    stop_spread: float
    driving: float  # share of the shift spent at the wheel, for the state at the run's start
    idling: float  # share of stops with the engine running


DUTIES = {
    TAXI: Duty((5.8, 1.0), 0.45, 10.0, (9.0, 11.0), (0.85, 0.9, 0.8), 5.0, 0.7, 0.6, 0.3),
    PARCELS: Duty((7.9, 0.4), 0.0, 0.0, (7.8, 9.4), (0.95, 0.4, 0.02), 5.0, 0.6, 0.45, 0.15),
    TRADES: Duty((7.2, 0.4), 0.0, 0.0, (8.0, 9.5), (0.93, 0.12, 0.02), 70.0, 0.6, 0.15, 0.02),
    LOADS: Duty((6.3, 0.7), 0.0, 0.0, (8.5, 10.5), (0.93, 0.25, 0.02), 22.0, 0.5, 0.4, 0.1),
    HAUL: Duty((6.0, 2.2), 0.42, 12.0, (9.5, 12.0), (0.9, 0.5, 0.15), 50.0, 0.3, 0.8, 0.0),
}


def roles(kind: Ints, rng: np.random.Generator) -> Ints:
    """The role of each vehicle by its class: ``kind`` 0 car, 1 van, 2 heavy."""
    draw = rng.random(len(kind))
    found = np.zeros(len(kind), dtype=np.int64)
    for index, shares in enumerate(OF_CLASS.values()):
        bounds = np.cumsum(list(shares.values()))
        choice = np.minimum(np.searchsorted(bounds, draw, side="right"), len(bounds) - 1)
        found = np.where(kind == index, np.array(list(shares))[choice], found)
    return found


def of_role(role: Ints, name: str) -> Floats:
    """A figure of :class:`Duty` for each vehicle; nan where its role has no duty."""
    table = np.full(len(ROLE_NAMES), np.nan)
    for key, duty in DUTIES.items():
        table[key] = getattr(duty, name)
    return table[role]


def shift(role: Ints, late: Bools, weekday: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Begin and end of one day's shift, s after its midnight, [n]; inf where there is none."""
    n = len(role)
    draws = rng.random((2, n)), rng.standard_normal(n)
    start, end = np.full(n, np.inf), np.full(n, np.inf)
    for key, duty in DUTIES.items():
        mean, spread = duty.starts_h
        begin = np.clip(mean + spread * np.clip(draws[1], -2, 2) + duty.late_h * late, 0.0, 23.9)
        low, high = duty.length_h
        works = (role == key) & (draws[0][0] < duty.on_weekday[max(weekday - 4, 0)])
        start = np.where(works, begin * HOUR, start)
        end = np.where(works, (begin + low + draws[0][1] * (high - low)) * HOUR, end)
    return start, end


def stop_s(role: Ints, rng: np.random.Generator) -> Floats:
    """How long a stop takes, s."""
    median, spread = of_role(role, "stop_min"), of_role(role, "stop_spread")
    return 60 * median * np.exp(spread * rng.standard_normal(len(role)))


DAY_S = 86_400.0
DAYS = 5  # days known at any time: yesterday, today and three to come


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
        time_s, purpose = draw_plan(self._role == COMMUTER, weekday, rng)
        begin, end = shift(self._role, self._late, weekday, rng)
        midnight_s = day * DAY_S - self._begins_at_s
        return time_s + midnight_s, purpose, (begin + midnight_s)[:, None], (end + midnight_s)[:, None]

    def roll(self, t_s: float) -> None:
        """Forget the day before yesterday and plan another one, as days pass."""
        while t_s >= (self._today + 1) * DAY_S - self._begins_at_s:
            self._today += 1
            time_s, purpose, begin_s, end_s = self._one_day(self._today + DAYS - 2)
            width = COLUMNS
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
