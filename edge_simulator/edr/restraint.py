"""The restraint controller: wakes on a hard knock and fires what does not reverse, by delta-V over time.

Its figures are engineering defaults: a frontal air bag stays in at 16 km/h into a barrier in 100 ms and comes
at 25; a stiffer pulse fires it earlier.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from edge_simulator.edr.pulse import G_MPS2, SAMPLE_HZ
from edge_simulator.geo import Bools, Floats, Ints

WAKE_G = 3.0
SMOOTHED_MS = 3
SLEEP_MS = 50
"""The algorithm rests again when the knock is over for so long."""


@dataclass(frozen=True, slots=True)
class Restraint:
    """Fires at ``|dV| >= base + slope * t``: t is the ms since wake-up, dV the change since on ``axis``.

    ``sign`` is the side that it is for: -1 as in a frontal impact, 0 either.
    """

    name: str
    axis: str
    sign: int
    base_kmh: float
    slope_kmh_per_ms: float
    air_bag: bool


FITTED = (
    Restraint("pretensioner", "long", 0, 4.0, 0.15, air_bag=False),
    Restraint("front_airbag", "long", -1, 5.0, 0.20, air_bag=True),
    Restraint("side_airbag", "lat", 0, 4.0, 0.15, air_bag=True),
)
AIR_BAGS = frozenset(restraint.name for restraint in FITTED if restraint.air_bag)


def deployments(long: Floats, lat: Floats, spent: Collection[str] = ()) -> list[tuple[int, str]]:
    """What fires in a burst and when, ms from its begin, in order; what is ``spent`` cannot fire again."""
    fired: dict[str, int] = {}
    for begin, end in spans(_awake(long, lat), SLEEP_MS):
        for restraint in FITTED:
            axis = long if restraint.axis == "long" else lat
            at = _fires(restraint, axis[begin : end + SLEEP_MS])
            if at is not None and restraint.name not in spent:
                fired.setdefault(restraint.name, begin + at)
    return sorted((at, name) for name, at in fired.items())


def wake_ups(long: Floats, lat: Floats) -> Ints:
    """When the algorithm is activated, ms from the burst's begin."""
    return np.array([begin for begin, _ in spans(_awake(long, lat), SLEEP_MS)], dtype=np.int64)


def spans(holds: Bools, lull_ms: int) -> list[tuple[int, int]]:
    """Where ``holds`` is true, as [begin, end); a lull of less than ``lull_ms`` does not part two of them."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], holds, [False]]).astype(np.int8)))
    found: list[tuple[int, int]] = []
    for begin, end in edges.reshape(-1, 2).tolist():
        if found and begin - found[-1][1] < lull_ms:
            found[-1] = (found[-1][0], end)
        else:
            found.append((begin, end))
    return found


def _awake(long: Floats, lat: Floats) -> Bools:
    smooth = np.ones(SMOOTHED_MS) / SMOOTHED_MS
    felt = np.hypot(*(np.convolve(axis, smooth)[: len(axis)] for axis in (long, lat)))
    awake: Bools = felt > WAKE_G * G_MPS2
    return awake


def _fires(restraint: Restraint, accel: Floats) -> int | None:
    change = np.cumsum(accel) / SAMPLE_HZ * 3.6
    towards = np.abs(change) if restraint.sign == 0 else restraint.sign * change
    line = restraint.base_kmh + restraint.slope_kmh_per_ms * np.arange(1, len(accel) + 1)
    beyond = np.flatnonzero(towards >= line)
    return int(beyond[0]) + 1 if len(beyond) else None
