"""Traffic while free flow is not known yet: judged by the speed limit, else by one speed for all places.

Frames in, frames out. Free flow is known of a place after some five-minute spans with vehicles on it.
"""

import math
from collections.abc import Mapping
from datetime import datetime
from itertools import pairwise
from typing import Final

import h3
import numpy as np
import pandas as pd

from dashboard.shared import text
from dashboard.shared.maps import CELL_RESOLUTION, offset_m, sector_of
from infra.settings.sections import Roads
from stream_jobs.roads.history import LEAST_AT_ALL

PLAIN_KMH: Final = 50.0
FREE, LIMIT, PLAIN = "free flow", "the speed limit", f"{PLAIN_KMH:.0f} km/h"
BASES: Final = (FREE, LIMIT, PLAIN)

Limits = Mapping[tuple[str, int], float]
"""Speed limit of each road cell and direction, km/h."""


def limits_of(edges: pd.DataFrame) -> dict[tuple[str, int], float]:
    """The limit in each cell and direction: harmonic mean by length; a piece is where its middle is."""
    sums: dict[tuple[str, int], tuple[float, float]] = {}
    for path, limit_kmh in zip(edges["path"], edges["speed_limit_kmh"].astype(float), strict=True):
        if not limit_kmh > 0:
            continue
        for (ax, ay), (bx, by) in pairwise(path):
            east_m, north_m = offset_m({"lat_deg": ay, "lon_deg": ax}, {"lat_deg": by, "lon_deg": bx})
            cell = h3.latlng_to_cell((ay + by) / 2, (ax + bx) / 2, CELL_RESOLUTION)
            key = (cell, sector_of(math.degrees(math.atan2(east_m, north_m))))
            far_m, known = math.hypot(east_m, north_m), sums.get(key, (0.0, 0.0))
            sums[key] = (known[0] + far_m, known[1] + far_m / limit_kmh)
    return {key: far_m / time for key, (far_m, time) in sums.items() if time > 0}


def judged(found: pd.DataFrame, limits: Limits) -> pd.DataFrame:
    """Cells or edges with ``basis``, what each speed is judged by; those without free flow are judged anew.

    Of these a speed that few vehicles were seen with is judged too: in the first hours there is no other.
    """
    known, basis = found["free_flow_kmh"].astype(float), pd.Series(FREE, index=found.index)
    if "cell" in found:
        keys = zip(found["cell"], found["heading_sector"].astype(int), strict=True)
        limit = pd.Series([limits.get(key) for key in keys], index=found.index, dtype=float)
        basis = basis.where(known.notna(), LIMIT).where(known.notna() | limit.notna(), PLAIN)
        known = known.fillna(limit).fillna(PLAIN_KMH)
    else:
        basis = basis.mask(found["free_flow_basis"] == "limit", LIMIT)
    ratio = found["speed_ratio"].astype(float).where(basis == FREE, found["speed_kmh"].astype(float) / known)
    bands = [ratio.isna(), ratio > 0.9, ratio > 0.7, ratio >= 0.5]  # as odograph.road_band
    names = np.select(bands, ["unknown", "free", "slow", "congested"], "severe")
    return found.assign(basis=basis, speed_ratio=ratio, congestion=names)


def learning(found: pd.DataFrame, first_at: datetime, roads: Roads, now: datetime) -> str:
    """How much of free flow is known, and when the rest will be; traffic is stored since ``first_at``.

    Empty where all of it is known.
    """
    total, known = len(found), int((found["basis"] == FREE).sum())
    if known == total:
        return ""
    takes_s, every = LEAST_AT_ALL * 300 + roads.history_s, text.duration(roads.history_s)
    left_s = takes_s - (now - first_at).total_seconds()
    when = f"of a place about {text.duration(takes_s)} after vehicles began to use it"
    if not known and left_s > 0:
        when = f"the first in about {text.duration(left_s)}"
    return (
        f"Free-flow speed is known of {known:,} of {total:,} places ({known / total:.0%}). It takes speeds "
        f"of {LEAST_AT_ALL} five-minute spans and is computed every {every}: {when}."
    )
