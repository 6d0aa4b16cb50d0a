"""Who drives behind whom, and who may pull out. Pure functions over arrays in road order.

Road order: by track (a lane of an edge), then by the distance along it: the next entry of the same track is
the vehicle ahead.
"""

from __future__ import annotations

import numpy as np

from edge_simulator.geo import Bools, Floats, Ints

FREE_M = 1e6
"""A gap where nobody is ahead."""
PULL_OUT_AHEAD_M = 1.5
PULL_OUT_BEHIND_M = 2.5
PULL_OUT_BRAKING_MPS2 = 2.0
"""What a driver who pulls out expects of the one behind."""


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
    free: Bools = ~blocked & ~pushed
    return free
