"""Copies of frames: which boots' numbers of a vehicle were seen, as intervals."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from stream_jobs.frames.arrays import Flags, Ints


class Interval(msgspec.Struct, array_like=True):
    """Numbers of one boot, both ends included; after ``until_ms`` nobody asks for them again."""

    boot_id: int
    first: int
    last: int
    until_ms: int


Seen = dict[str, list[Interval]]
"""By vehicle, in order; nearly always one interval, which grows."""


def unseen(seen: Seen, vehicles: Sequence[str], of: Ints, boot_id: Ints, seq: Ints, until_ms: Ints) -> Flags:
    """Which frames are seen for the first time; ``seen`` knows them from now on.

    Arrays of shape [n_frames]; ``of``: the place of each frame's vehicle among ``vehicles``. Of copies in one
    call the first counts. The common case, numbers that follow on each other, costs one step a vehicle.
    """
    fresh = np.ones(len(seq), np.bool_)
    if not len(seq):
        return fresh
    order = np.lexsort((seq, boot_id, of))  # stable: of copies the first stays first
    at = np.column_stack([of[order], boot_id[order], seq[order]])
    same = np.all(at[1:, :2] == at[:-1, :2], axis=1)
    again = same & (at[1:, 2] == at[:-1, 2])
    fresh[order[1:][again]] = False
    begins = np.flatnonzero(np.concatenate([[True], ~(same & (at[1:, 2] - at[:-1, 2] <= 1))]))
    ends = np.append(begins[1:], len(order))
    until = np.maximum.reduceat(until_ms[order], begins)
    bounds = (at[begins], at[ends - 1, 2], until, begins, ends)
    for (vehicle, boot, low), high, last_ms, begin, end in zip(*(x.tolist() for x in bounds), strict=True):
        known = seen.setdefault(vehicles[vehicle], [])
        newest = known[-1] if known else None
        if newest is not None and newest.boot_id == boot and low == newest.last + 1:
            newest.last, newest.until_ms = high, max(newest.until_ms, last_ms)
            continue
        overlapping = [i for i in known if i.boot_id == boot and i.first <= high + 1 and low <= i.last + 1]
        for each in overlapping:
            taken = (at[begin:end, 2] >= each.first) & (at[begin:end, 2] <= each.last)
            fresh[order[begin:end][taken]] = False
            low, high = min(low, each.first), max(high, each.last)  # noqa: PLW2901  they become one
            last_ms = max(last_ms, each.until_ms)  # noqa: PLW2901
        if overlapping:
            known[:] = [each for each in known if all(each is not other for other in overlapping)]
        known.append(Interval(boot, low, high, last_ms))
        known.sort(key=lambda each: (each.boot_id, each.first))
    return fresh


def forget(seen: Seen, clock_ms: int) -> None:
    """Let go what nobody asks for any more."""
    for vehicle in list(seen):
        kept = [each for each in seen[vehicle] if each.until_ms >= clock_ms]
        if kept:
            seen[vehicle] = kept
        else:
            del seen[vehicle]
