"""Working vehicles: who is on duty when, how long they stand at a stop. Data and draws, no state."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edge_simulator.geo import Bools, Floats, Ints
from edge_simulator.motion.plans import HOUR

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

    starts_h: tuple[float, float]
    """Mean and spread of the first shift's begin."""
    late_share: float
    """Share of vehicles that begin ``late_h`` later."""
    late_h: float
    length_h: tuple[float, float]
    on_weekday: tuple[float, float, float]
    """Share on duty Monday to Friday, on Saturday, on Sunday."""
    stop_min: float
    stop_spread: float
    driving: float
    """Share of the shift spent at the wheel, for the state at the run's start."""
    idling: float
    """Share of stops with the engine running."""


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
