"""Who drives behind whom, who may pull out, who must stop at a junction. Pure functions over arrays.

Road order: by track (a lane of an edge), then by the distance along it: the next entry of the same track is
the vehicle ahead.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edge_simulator.geo import Bools, Floats, Ints
from edge_simulator.town import streets
from edge_simulator.town.network import RoadNetwork

FREE_M = 1e6  # A gap where nobody is ahead
PULL_OUT_AHEAD_M = 1.5
PULL_OUT_BEHIND_M = 2.5
PULL_OUT_BRAKING_MPS2 = 2.0  # what a driver who pulls out expects of the one behind


def in_order(rows: Ints, key: Floats) -> Ints:
    """``rows`` by rising ``key`` ([n_vehicles]); cheap where they nearly are in order already."""
    at = key[rows]
    if bool((at[1:] >= at[:-1]).all()):
        return rows
    return rows[np.argsort(at, kind="stable")]


def fronts(track: Ints) -> Ints:
    """Places of the first vehicle of each track, for vehicles in road order."""
    return np.append(np.flatnonzero(track[1:] != track[:-1]), len(track) - 1)


def tails(track: Ints, front: Ints, n_tracks: int) -> Ints:
    """Place of the last vehicle on each track, [n_tracks]; -1 where one is empty."""
    tail = np.full(n_tracks, -1, dtype=np.int64)
    first = np.concatenate([[0], front[:-1] + 1])
    tail[track[first]] = first
    return tail


def gaps(
    s_m: Floats, length_m: Floats, to_end_m: Floats, next_track: Ints, front: Ints, tail: Ints
) -> tuple[Floats, Ints]:
    """Free road to the bumper ahead, and the place of that vehicle (itself where there is none).

    The first vehicle of a track looks for the last one of its next track.
    """
    gap = np.empty(len(s_m))
    rear = s_m - length_m
    gap[:-1] = rear[1:] - s_m[:-1]
    ahead = tail[next_track[front]]
    found = (ahead >= 0) & (ahead != front)
    gap[front] = np.where(found, to_end_m[front] + rear[ahead], FREE_M)
    leader = np.arange(1, len(s_m) + 1)
    leader[front] = np.where(found, ahead, front)
    return gap, leader


def fits(
    key: Floats, s_m: Floats, v: Floats, length_m: Floats, track: Ints,
    own_key: Floats, own_track: Ints, own_s: Floats, own_length_m: Floats,
) -> Bools:  # fmt: skip
    """Whether each vehicle at the kerb has a gap to pull out into, [n_own]; the others in road order."""
    if len(key) == 0:
        return np.ones(len(own_key), dtype=np.bool_)
    place = np.searchsorted(key, own_key)
    ahead, behind = np.minimum(place, len(key) - 1), np.maximum(place - 1, 0)
    blocked = (place < len(key)) & (track[ahead] == own_track)
    blocked &= s_m[ahead] - length_m[ahead] - own_s < PULL_OUT_AHEAD_M
    need = PULL_OUT_BEHIND_M + v[behind] + v[behind] ** 2 / (2 * PULL_OUT_BRAKING_MPS2)
    pushed = (place > 0) & (track[behind] == own_track) & (own_s - own_length_m - s_m[behind] < need)
    found: Bools = ~blocked & ~pushed
    return found


STOP_LINE_M = 8.0  # distance of the stop line from the middle of the junction
COMFORTABLE_MPS2 = 2.8
GAP_S = 4.0
MERGE_GAP_S = 2.5  # advantage of the motorway over its ramps: those who are on it make room
BEHIND_S = 1.4  # time between two vehicles that enter the same street, beyond the first one's own length
IMPATIENT_S = 30.0
ROOM_M = 2.0
FORESEEN_S = 3.5
"""The street ahead has room if the last vehicle on it leaves enough within this time at its speed."""


@dataclass(frozen=True, slots=True)
class Approach:
    """Vehicles near the end of their edge, in road order, each [n_near]."""

    edge: Ints
    track: Ints
    target: Ints  # the track it wants to go on to
    to_end_m: Floats
    v: Floats
    length_m: Floats
    through: Bools
    first: Bools  # nobody is before it on its track who is not through
    waited_s: Floats


@dataclass(frozen=True, slots=True)
class Tails:
    """The last vehicle of each track, [n_tracks]: its rear's distance from the begin, and its speed."""

    rear_m: Floats
    v: Floats


@dataclass(frozen=True, slots=True)
class Verdict:
    """For each vehicle of an approach."""

    stop: Bools  # must stop at the line
    through: Bools
    on_turn: Bools  # is first in its row and no signal holds it: standing here is waiting
    full: Bools  # the street it wants has no room


def judge(net: RoadNetwork, near: Approach, tails: Tails, t_s: float) -> Verdict:
    """Who of ``near`` must stop at the line.

    A vehicle that need not stop and could not stop comfortably any more is *through*: it goes first. The
    first one of each track that is not through waits for a red signal, where the street it wants has no room
    (the junction stays clear), for a vehicle that comes earlier from another street into the same one, and on
    a lesser street without a signal for whoever comes on the better one within ``GAP_S``. After
    ``IMPATIENT_S`` of waiting it goes next, whatever the rules say.
    """
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
