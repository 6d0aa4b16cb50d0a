"""What is odd about a recorded drive: positions that stand still, speeds that disagree, gaps. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

import numpy as np

from edge_simulator.geo import Bools, Floats, Ints
from edge_simulator.recordings.drive_rows import Row

MOVING_KMH = 3.0
LONGEST_LAG_S = 30.0
DISAGREE_KMH = 10.0
DISAGREE_S = 3.0
LEAST_PAIRS = 30
MOST_LAG_STEPS = 100
GAP = 1.5
"""A pause longer than this many usual spacings is a gap."""


@dataclass(frozen=True, slots=True)
class SpeedCheck:
    """Two sources of speed side by side. ``lag_s``: the second one shows the same so much later."""

    lag_s: float
    correlation: float | None
    spells: Sequence[str]
    """Times of more than DISAGREE_S in which they differ by more than DISAGREE_KMH, by line and time."""
    seconds: float


@dataclass(frozen=True, slots=True)
class Repeats:
    """Rows with the position of the row before them although the vehicle moves; the longest run."""

    rows: int
    longest: int


@dataclass(frozen=True, slots=True)
class Gaps:
    """Pauses in a drive."""

    count: int
    seconds: float


def spacing_ms(t_ms: Sequence[int]) -> int:
    """The usual time between two rows: the median; 1 s for a single row."""
    return int(np.median(np.diff(t_ms))) if len(t_ms) > 1 else 1000


def gaps(t_ms: Sequence[int]) -> Gaps:
    """Pauses of more than GAP usual spacings."""
    steps = np.diff(t_ms)
    wide = steps[steps > GAP * spacing_ms(t_ms)]
    return Gaps(len(wide), float(wide.sum()) / 1000)


def repeats(rows: Sequence[Row]) -> Repeats:
    """Positions that a receiver repeats while it catches up. Standing still is no repeat."""
    count = run = longest = 0
    for before, row in pairwise(rows):
        here = (row.values.get("lat_deg"), row.values.get("lon_deg"))
        speed = row.values.get("speed_kmh")
        same = here[0] is not None and here == (before.values.get("lat_deg"), before.values.get("lon_deg"))
        run = run + 1 if same and speed is not None and speed > MOVING_KMH else 0
        count += run > 0
        longest = max(longest, run)
    return Repeats(count, longest)


def compare_speeds(rows: Sequence[Row]) -> SpeedCheck | None:
    """The speed against its second source; None where there is none."""
    first = np.array([_or_nan(row.values.get("speed_kmh")) for row in rows])
    second = np.array([_or_nan(row.check_kmh) for row in rows])
    if np.isnan(second).all() or np.isnan(first).all():
        return None
    t = np.array([row.t_ms for row in rows], dtype=np.int64)
    step = spacing_ms(t.tolist())
    lag, correlation = _lag(first, second, t, step)
    k, shifted = _pairs(t, lag, step)
    differ = np.zeros(len(rows))
    differ[k] = np.nan_to_num(np.abs(first[k] - second[shifted]))
    spells = _spells(differ > DISAGREE_KMH, t, step)
    named = [_spell(rows, differ, begin, end, step) for begin, end in spells]
    seconds = sum(int(t[end] - t[begin]) + step for begin, end in spells) / 1000
    return SpeedCheck(lag * step / 1000, correlation, named, seconds)


def _or_nan(value: float | None) -> float:
    return np.nan if value is None else value


def _pairs(t: Ints, lag: int, step: int) -> tuple[Ints, Ints]:
    """Indices of rows and of those ``lag`` spacings later, where both are there."""
    k = np.arange(max(0, -lag), min(len(t), len(t) - lag))
    near = np.abs(t[k + lag] - t[k] - lag * step) * 2 <= step
    return k[near], k[near] + lag


def _lag(first: Floats, second: Floats, t: Ints, step: int) -> tuple[int, float | None]:
    """The shift by which the two go together best, and their correlation there."""
    most = min(int(LONGEST_LAG_S * 1000 / step), MOST_LAG_STEPS, len(t) - 1)
    best: tuple[int, float | None] = (0, None)
    for lag in sorted(range(-most, most + 1), key=abs):
        k, shifted = _pairs(t, lag, step)
        a, b = first[k], second[shifted]
        both = ~(np.isnan(a) | np.isnan(b))
        a, b = a[both], b[both]
        if len(a) < LEAST_PAIRS or a.std() == 0 or b.std() == 0:
            continue
        found = float(np.corrcoef(a, b)[0, 1])
        if best[1] is None or found > best[1] + 1e-9:
            best = (lag, found)
    return best


def _spells(bad: Bools, t: Ints, step: int) -> list[tuple[int, int]]:
    """First and last index of each run of ``bad`` rows without a gap that lasts long enough."""
    rows = np.flatnonzero(bad)
    breaks = np.flatnonzero((np.diff(rows) > 1) | (np.diff(t[rows]) > GAP * step)) + 1
    ends = [(int(run[0]), int(run[-1])) for run in np.split(rows, breaks) if len(run)]
    return [(a, b) for a, b in ends if t[b] - t[a] + step > 1000 * DISAGREE_S]


def _spell(rows: Sequence[Row], differ: Floats, begin: int, end: int, step: int) -> str:
    at = datetime.fromtimestamp(rows[begin].t_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    lasts = (rows[end].t_ms - rows[begin].t_ms + step) / 1000
    return (
        f"{rows[begin].line}: from {at} UTC for {lasts:g} s, up to {differ[begin : end + 1].max():.0f} km/h"
    )
