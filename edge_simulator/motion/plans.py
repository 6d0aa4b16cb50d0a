"""The private day: when commuters and others leave, and for what. One row a vehicle, one column a departure.

Times are seconds after midnight, inf where a departure does not take place.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edge_simulator.geo import Bools, Floats, Ints
from edge_simulator.motion.agenda import ERRAND, HOME, LEISURE, WORK

HOUR = 3600.0
COLUMNS = 7
SATURDAY, SUNDAY = 5, 6
AT_WORK_SHARE = 0.88
"""Of commuters on a working day; the others stay at home that day."""


@dataclass(frozen=True, slots=True)
class DayPlan:
    """Departures of a day, [n, COLUMNS]."""

    time_s: Floats
    purpose: Ints


def draw(commuter: Bools, weekday: int, rng: np.random.Generator) -> DayPlan:
    """The plan of one day for ``commuter`` (others have no work). ``weekday`` 0 is Monday."""
    n = len(commuter)
    at_leisure = _outings(n, weekday, rng)
    at_work = _working_day(n, rng)
    works = commuter & (weekday < SATURDAY) & (rng.random(n) < AT_WORK_SHARE)
    return DayPlan(
        np.where(works[:, None], at_work.time_s, at_leisure.time_s),
        np.where(works[:, None], at_work.purpose, at_leisure.purpose),
    )


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
    return DayPlan(np.column_stack([leaves, noon, back_s, shop, home, out, again]), np.tile(purpose, (n, 1)))


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
    return DayPlan(np.column_stack([a, a_back, b, b_back, c, c_back, never]), np.column_stack(columns))
