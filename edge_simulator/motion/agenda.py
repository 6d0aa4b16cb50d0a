"""When each vehicle drives and where to: what a fleet asks, and one that drives all the time."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from edge_simulator.geo import Bools, Floats, Ints
from edge_simulator.town import streets
from edge_simulator.town.roads import RoadNetwork

PURPOSES = ("drive", "home", "work", "errand", "leisure", "delivery", "depot", "fare", "rank", "haul", "rest")
DRIVE, HOME, WORK, ERRAND, LEISURE, DELIVERY, DEPOT, FARE, RANK, HAUL, REST = range(len(PURPOSES))
PARKED_AT_START = 0.12
KERB_M = (20.0, 15.0)  # nobody parks nearer than this to an edge's begin and end


@dataclass(frozen=True, slots=True)
class Next:
    """What vehicles that have just parked do next, each [n_rows]: the trip begins at ``wake_s``."""

    wake_s: Floats
    goal: Ints
    goal_s: Floats
    purpose: Ints
    base: Bools  # the place they are at is home or the depot
    idling: Bools  # they leave the engine running


@dataclass(frozen=True, slots=True)
class Start(Next):
    """The fleet at the run's start, each [n_vehicles]. Who is not parked is under way at ``edge``, ``s``."""

    edge: Ints
    s: Floats
    parked: Bools
    parked_for_s: Floats


class Agenda(Protocol):
    """Decides when vehicles drive and where to. Times are seconds since the run's start."""

    def begin(self) -> Start:
        """Where everybody is and what they are at."""

    def parked(self, rows: Ints, t_s: float) -> Next:
        """Vehicles ``rows`` have reached their goal and parked: what next."""

    def passing(self, rows: Ints, edge: Ints, t_s: float) -> tuple[Ints, Ints, Floats]:
        """Of ``rows``, which enter their goal's street by ``edge``, who goes on: (rows, goals, goal_s)."""


def kerb(net: RoadNetwork, edge: Ints, share: Floats) -> Floats:
    """A parking place on an edge, m from its begin, by its ``share`` of the room between junctions."""
    first, last = KERB_M
    room = np.maximum(net.length_m[edge] - first - last, 0.0)
    return np.minimum(first, 0.5 * net.length_m[edge]) + share * room


class PlaceKind:
    """Edges where something is, by town: those of ``mask``, each as likely as its ``weight`` says."""

    def __init__(self, net: RoadNetwork, mask: Bools, weight: Floats) -> None:
        self._edges, self._first = net.by_town(mask)
        self._total = np.cumsum(weight[self._edges])
        self._bounds = np.concatenate([[0.0], self._total])[self._first]

    def draw(self, town: Ints, rng: np.random.Generator) -> Ints:
        """An edge in each of the towns, by weight."""
        low, high = self._bounds[town], self._bounds[town + 1]
        at = np.searchsorted(self._total, low + rng.random(len(town)) * (high - low), side="right")
        found: Ints = self._edges[np.minimum(at, self._first[town + 1] - 1)]
        return found


class Steady:
    """Everybody drives to random places of the town, all the time, and parks for some minutes in between."""

    def __init__(self, net: RoadNetwork, n: int, rng: np.random.Generator) -> None:
        self._net, self._rng = net, rng
        self._town = np.arange(n) % len(net.town_lat)
        self._anywhere = PlaceKind(net, net.road_class != streets.MOTORWAY, np.ones(len(net.length_m)))

    def begin(self) -> Start:
        """Spread over the roads, most of them under way."""
        net, rng, n = self._net, self._rng, len(self._town)
        edge = self._anywhere.draw(self._town, rng)
        parked, no = rng.random(n) < PARKED_AT_START, np.zeros(n, dtype=np.bool_)
        goal = self._anywhere.draw(self._town, rng)
        s, parked_for_s = kerb(net, edge, rng.random(n)), rng.uniform(0, 100, n)
        wake_s = np.where(parked, rng.uniform(5, 400, n), np.inf)
        then = (wake_s, goal, kerb(net, goal, rng.random(n)), np.full(n, DRIVE), no, no)
        return Start(*then, edge, s, parked, parked_for_s)

    def parked(self, rows: Ints, t_s: float) -> Next:
        """A break of about two minutes, then anywhere."""
        n = len(rows)
        goal = self._anywhere.draw(self._town[rows], self._rng)
        wake_s = t_s + np.exp(self._rng.normal(4.9, 0.7, n))
        no = np.zeros(n, dtype=np.bool_)
        return Next(wake_s, goal, kerb(self._net, goal, self._rng.random(n)), np.full(n, DRIVE), no, no)

    def passing(self, rows: Ints, edge: Ints, t_s: float) -> tuple[Ints, Ints, Floats]:  # noqa: ARG002
        """Everybody stops where the trip ends."""
        return rows[:0], rows[:0], np.empty(0)
