"""Who must stop at a junction: signals, right of way, and room behind it. Arrays over the vehicles near one.

A vehicle that need not stop and could not stop comfortably any more is *through*: it goes first. The first
one of each track that is not through applies for the way; it waits at the stop line

- for a red signal,
- where the street it wants has no room for it (the junction stays clear),
- for a vehicle that comes earlier from another street into the same one,
- on a lesser street without a signal, for whoever comes on the better one within ``GAP_S``.

After ``IMPATIENT_S`` of waiting it goes next, whatever the rules say.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edge_simulator.geo import Bools, Floats, Ints
from edge_simulator.town import streets
from edge_simulator.town.network import RoadNetwork

STOP_LINE_M = 8.0
"""Distance of the stop line from the middle of the junction."""
COMFORTABLE_MPS2 = 2.8
GAP_S = 4.0
MERGE_GAP_S = 2.5
"""Advantage of the motorway over its ramps: those who are on it make room."""
BEHIND_S = 1.4
"""Time between two vehicles that enter the same street, beyond the first one's own length."""
IMPATIENT_S = 30.0
ROOM_M = 2.0
FORESEEN_S = 3.5
"""The street ahead has room if the last vehicle on it leaves enough within this time at its speed."""


@dataclass(frozen=True, slots=True)
class Approach:
    """Vehicles near the end of their edge, in road order, each [n_near]."""

    edge: Ints
    track: Ints
    target: Ints
    """The track it wants to go on to."""
    to_end_m: Floats
    v: Floats
    length_m: Floats
    through: Bools
    first: Bools
    """Nobody is before it on its track who is not through."""
    waited_s: Floats


@dataclass(frozen=True, slots=True)
class Tails:
    """The last vehicle of each track, [n_tracks]: its rear's distance from the begin, and its speed."""

    rear_m: Floats
    v: Floats


@dataclass(frozen=True, slots=True)
class Verdict:
    """For each vehicle of an approach."""

    stop: Bools
    """Must stop at the line."""
    through: Bools
    on_turn: Bools
    """Is first in its row and no signal holds it: standing here is waiting."""
    full: Bools
    """The street it wants has no room."""


def judge(net: RoadNetwork, near: Approach, tails: Tails, t_s: float) -> Verdict:
    """Who of ``near`` must stop at the line."""
    to_line = near.to_end_m - STOP_LINE_M
    late = near.v * near.v > 2 * COMFORTABLE_MPS2 * to_line
    through = near.through | (to_line <= 0)
    red = net.red(near.edge, t_s) & ~through & ~late
    full = ~_room(near, tails, through)
    applies = near.first & ~through & ~red & ~full
    entry = np.flatnonzero(applies | through)
    barred = np.zeros(len(to_line), dtype=np.bool_)
    barred[entry] = _yields(net, near, through, entry)
    barred = (barred & ~late) | full
    stop = red | barred
    through = through | (late & near.first & ~stop)
    return Verdict(stop & ~through, through, near.first & ~red, full)


def _room(near: Approach, tails: Tails, through: Bools) -> Bools:
    """Whether the wanted street can take each vehicle, besides those who are going in already."""
    target = near.target
    coming = np.bincount(
        target[through], weights=near.length_m[through] + ROOM_M, minlength=len(tails.rear_m)
    )
    others = coming[target] - np.where(through, near.length_m + ROOM_M, 0.0)
    soon_m = tails.rear_m[target] + FORESEEN_S * tails.v[target]
    return soon_m - others > near.length_m + ROOM_M


def _yields(net: RoadNetwork, near: Approach, through: Bools, entry: Ints) -> Bools:
    """Who of ``entry`` lets another one go first, [n_entry]."""
    edge, track, target, v = near.edge[entry], near.track[entry], near.target[entry], near.v[entry]
    going, impatient = through[entry], near.waited_s[entry] > IMPATIENT_S
    eta = near.to_end_m[entry] / np.maximum(v, 2.0)
    node = net.edge_to[edge]
    ramp = net.node_class[node] == streets.MOTORWAY
    lesser = (net.road_class[edge] > net.node_class[node]) & (net.signal_cycle_s[node] == 0)
    patience = np.where(ramp, MERGE_GAP_S, GAP_S)
    rank = eta + patience * lesser - 500.0 * impatient - 2000.0 * going
    clears = eta + BEHIND_S + near.length_m[entry] / np.maximum(v, 2.0)
    yields = _behind_another(track, target, rank, eta, clears)
    crossing = lesser & ~ramp & ~impatient
    if crossing.any():
        coming = np.full(len(net.node_lat), np.inf)
        better = ~lesser
        np.minimum.at(coming, node[better], eta[better])
        yields |= crossing & (coming[node] < eta + patience)
    return yields & ~going


def _behind_another(track: Ints, target: Ints, rank: Floats, eta: Floats, clears: Floats) -> Bools:
    """Whether the one ranked before, from another street into the same one, is not clear in time."""
    order = np.lexsort((rank, target))
    one, two = order[:-1], order[1:]
    waits = (target[one] == target[two]) & (track[one] != track[two]) & (clears[one] > eta[two])
    found = np.zeros(len(track), dtype=np.bool_)
    found[two[waits]] = True
    return found
