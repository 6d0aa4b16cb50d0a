"""Who drives when, day by day. Times: s after midnight in a plan, after the start in the diary; inf never."""

import numpy as np

from edge_simulator.geo import Bools, Floats, Ints
from edge_simulator.motion.agenda import ERRAND, HOME, LEISURE, WORK

HOUR = 3600.0
COLUMNS = 7
SATURDAY, SUNDAY = 5, 6
AT_WORK_SHARE = 0.88  # of commuters on a working day; the others stay at home that day
DayPlan = tuple[Floats, Ints]  # times and purposes of the departures of a day, each [n, COLUMNS]


def _if(rng: np.random.Generator, share: float, time_s: Floats) -> Floats:
    """The departure for a share of the vehicles only."""
    return np.where(rng.random(len(time_s)) < share, time_s, np.inf)


def _working_day(n: int, rng: np.random.Generator) -> DayPlan:
    """To work, perhaps out at noon, home, perhaps past a shop, perhaps out in the evening."""
    leaves = np.clip(rng.normal(7.55, 0.42, n), 6.4, 9.3) * HOUR + rng.uniform(-600, 600, n)
    noon = _if(rng, 0.10, rng.uniform(11.8, 13.0, n) * HOUR)
    back_s = noon + rng.uniform(1500, 3600, n)
    done = np.clip(rng.normal(17.0, 0.6, n), 15.2, 19.3) * HOUR + rng.uniform(-600, 600, n)
    shop = _if(rng, 0.25, done)
    home = np.where(np.isinf(shop), done, done + rng.uniform(1500, 4200, n))
    out = _if(rng, 0.20, np.maximum(rng.uniform(18.7, 20.3, n) * HOUR, home + 2400))
    again = out + rng.uniform(1.5, 3.2, n) * HOUR
    purpose = np.array([WORK, ERRAND, WORK, ERRAND, HOME, LEISURE, HOME])
    return np.column_stack([leaves, noon, back_s, shop, home, out, again]), np.tile(purpose, (n, 1))


# morning, afternoon, evening: hours of leaving, and hours until the way home
OUTINGS = ((9.0, 12.2, 0.6, 2.0), (14.6, 17.6, 0.6, 1.8), (19.6, 20.8, 1.4, 3.8))
OUTING_SHARES = {SATURDAY: (0.7, 0.6, 0.35), SUNDAY: (0.4, 0.5, 0.2)}  # on other days:
WEEKDAY_OUTING_SHARES = (0.6, 0.45, 0.15)


def _outings(n: int, weekday: int, rng: np.random.Generator) -> DayPlan:
    """Out in the morning, in the afternoon, in the evening, each with some probability; home in between."""
    times: list[Floats] = []
    shares = OUTING_SHARES.get(weekday, WEEKDAY_OUTING_SHARES)
    for share, (from_h, to_h, least_h, most_h) in zip(shares, OUTINGS, strict=True):
        leaves = _if(rng, share, rng.uniform(from_h, to_h, n) * HOUR)
        times += [leaves, leaves + rng.uniform(least_h, most_h, n) * HOUR]
    shops = 0.75 if weekday != SUNDAY else 0.2
    kinds = np.where(rng.random((n, 2)) < shops, ERRAND, LEISURE)
    home = np.full(n, HOME)
    columns = [kinds[:, 0], home, kinds[:, 1], home, np.full(n, LEISURE), home, home]
    return np.column_stack([*times, np.full(n, np.inf)]), np.column_stack(columns)


COMMUTER, PRIVATE, TAXI, PARCELS, TRADES, LOADS, HAUL = range(7)  # loads: lorries of local trade
# shares of the roles among cars, vans and heavy vehicles
OF_CLASS = ({COMMUTER: 0.74, PRIVATE: 0.21, TAXI: 0.05}, {PARCELS: 0.5, TRADES: 0.5}, {LOADS: 0.5, HAUL: 0.5})


DUTIES = {
    "starts_h": (5.8, 7.9, 7.2, 6.3, 6.0),  # hour of the first shift's begin, and its spread
    "starts_spread_h": (1.0, 0.4, 0.4, 0.7, 2.2),
    "late_share": (0.45, 0.0, 0.0, 0.0, 0.42),  # share of vehicles that begin ``late_h`` later
    "late_h": (10.0, 0.0, 0.0, 0.0, 12.0),
    "least_h": (9.0, 7.8, 8.0, 8.5, 9.5),  # length of a shift
    "most_h": (11.0, 9.4, 9.5, 10.5, 12.0),
    "on_weekday": (0.85, 0.95, 0.93, 0.93, 0.9),  # share on duty
    "on_saturday": (0.9, 0.4, 0.12, 0.25, 0.5),
    "on_sunday": (0.8, 0.02, 0.02, 0.02, 0.15),
    "stop_min": (5.0, 5.0, 70.0, 22.0, 50.0),  # stops are log-normal around it
    "stop_spread": (0.7, 0.6, 0.6, 0.5, 0.3),
    "driving": (0.6, 0.45, 0.15, 0.4, 0.8),  # share of the shift at the wheel, for the state at the start
    "idling": (0.3, 0.15, 0.02, 0.1, 0.0),  # share of stops with the engine running
}
"""How the working roles spend their day, from TAXI to HAUL."""


def roles(kind: Ints, rng: np.random.Generator) -> Ints:
    """The role of each vehicle by its class: ``kind`` 0 car, 1 van, 2 heavy."""
    draw = rng.random(len(kind))
    found = np.zeros(len(kind), dtype=np.int64)
    for index, shares in enumerate(OF_CLASS):
        bounds = np.cumsum(list(shares.values()))
        choice = np.minimum(np.searchsorted(bounds, draw, side="right"), len(bounds) - 1)
        found = np.where(kind == index, np.array(list(shares))[choice], found)
    return found


def of_role(role: Ints, name: str) -> Floats:
    """A figure of DUTIES for each vehicle; 0 where its role has no duty."""
    return np.array((*[0.0] * TAXI, *DUTIES[name]))[role]


DAY_S = 86_400.0
DAYS = 5  # days known at any time: yesterday, today and three to come


class Diary:
    """Departures [n, DAYS * COLUMNS] and shifts [n, DAYS], s since the run's start; each day has a seed."""

    def __init__(self, role: Ints, late: Bools, seed: int, begins_at_s: float, weekday: int) -> None:
        self._role, self._late, self._seed = role, late, seed
        self._begins_at_s, self._weekday, self._today = begins_at_s, weekday, 0
        self._done_s = np.full(len(role), -np.inf)
        days = [self._one_day(d) for d in range(-1, DAYS - 1)]
        self._time_s, self._purpose, self._begin_s, self._end_s = (
            np.concatenate(tables, axis=1) for tables in zip(*days, strict=True)
        )

    def _one_day(self, day: int) -> tuple[Floats, Ints, Floats, Floats]:
        """Departures, their purposes, begin and end of the shift of one day, s since the run's start."""
        role, n = self._role, len(self._role)
        rng = np.random.default_rng([self._seed, day + 1])
        weekday = (self._weekday + day) % 7
        midnight_s = day * DAY_S - self._begins_at_s
        at_leisure, at_work = _outings(n, weekday, rng), _working_day(n, rng)
        works = (role == COMMUTER) & (weekday < SATURDAY) & (rng.random(n) < AT_WORK_SHARE)
        time_s, purpose = (np.where(works[:, None], at_work[k], at_leisure[k]) for k in (0, 1))
        (on_duty, length), offset = rng.random((2, n)), rng.standard_normal(n)
        spread = of_role(role, "starts_spread_h") * np.clip(offset, -2, 2)
        begin = of_role(role, "starts_h") + spread + of_role(role, "late_h") * self._late
        begin, least = np.clip(begin, 0.0, 23.9), of_role(role, "least_h")
        share = of_role(role, ("on_weekday", "on_saturday", "on_sunday")[max(weekday - 4, 0)])
        here = (role >= TAXI) & (on_duty < share)
        start = np.where(here, begin * HOUR, np.inf)
        end = np.where(here, (begin + least + length * (of_role(role, "most_h") - least)) * HOUR, np.inf)
        return time_s + midnight_s, purpose, (start + midnight_s)[:, None], (end + midnight_s)[:, None]

    def roll(self, t_s: float) -> None:
        """Forget the day before yesterday and plan another one, as days pass."""
        while t_s >= (self._today + 1) * DAY_S - self._begins_at_s:
            self._today += 1
            known = self._time_s, self._purpose, self._begin_s, self._end_s
            self._time_s, self._purpose, self._begin_s, self._end_s = (
                np.concatenate([old[:, new.shape[1] :], new], axis=1)
                for old, new in zip(known, self._one_day(self._today + DAYS - 2), strict=True)
            )

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
