"""What a fleet lives by: the agenda of a profile, and how many towns it needs."""

from __future__ import annotations

import numpy as np

from edge_simulator.motion.agenda import Agenda, Steady
from edge_simulator.motion.town_day import Day
from edge_simulator.town.network import RoadNetwork
from edge_simulator.vehicle.vehicles import Specs

VEHICLES_A_TOWN = {"steady": 10_000, "day": 20_000}
"""Most vehicles of one town: of those with a day to live only one in five to ten is under way at a time."""


def towns(profile: str, vehicles: int) -> int:
    """How many towns a fleet needs."""
    return max(1, -(-vehicles // VEHICLES_A_TOWN[profile]))


def for_profile(
    profile: str, net: RoadNetwork, specs: Specs, rng: np.random.Generator, begins_at_s: float, weekday: int
) -> Agenda:
    """The agenda of a profile, ``steady`` or ``day``; t = 0 is ``begins_at_s`` after local midnight."""
    if profile == "steady":
        return Steady(net, len(specs.model), rng)
    return Day(net, specs, rng, begins_at_s, weekday)
