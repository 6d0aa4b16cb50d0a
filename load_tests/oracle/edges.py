"""Edges of a network from the definitions in stream_jobs/roads/README.md: each edge for each sample."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from load_tests.oracle.samples import Sample

NOT_CLEAR = -1
NO_EDGE = -2
METRES_PER_DEGREE = 111_195.0

Point = tuple[float, float]
"""Metres to the east and to the north."""


@dataclass(frozen=True, slots=True)
class Roads:
    """A network: its number in the database, and directed edges by id, each a path of (lat, lon) in degrees.

    The figures are those of the definition: how far away and how far off its course a vehicle may be on an
    edge, what counts as much as what, and by how much the best edge must be better than the next.
    """

    number: int
    paths: dict[int, Sequence[tuple[float, float]]]
    radius_m: float = 40.0
    angle_deg: float = 60.0
    sigma_m: float = 8.0
    sigma_deg: float = 20.0
    margin: float = 0.1

    @property
    def east_m(self) -> float:
        """Metres a degree of longitude, at the mean latitude of all points."""
        lats = [lat for path in self.paths.values() for lat, _ in path]
        return METRES_PER_DEGREE * math.cos(math.radians(sum(lats) / len(lats)))


def edge_of(sample: Sample, roads: Roads) -> int | None:
    """The edge that a sample counts on, NOT_CLEAR or NO_EDGE; None where it does not count."""
    v = sample.values
    lat, lon, heading = v["lat_deg"], v["lon_deg"], v["heading_deg"]
    if not v["ignition_on"] or lat is None or lon is None or v["speed_kmh"] is None:
        return None
    if heading is None:
        return NOT_CLEAR
    here = (lon / 1e6 * roads.east_m, lat / 1e6 * METRES_PER_DEGREE)
    costs = sorted((cost, edge) for edge in roads.paths for cost in _costs(roads, edge, here, heading / 10))
    if not costs:
        return NO_EDGE
    best, edge = costs[0]
    others = [cost for cost, other in costs if other != edge]
    return NOT_CLEAR if others and others[0] - best < roads.margin else edge


def _costs(roads: Roads, edge: int, here: Point, heading_deg: float) -> Iterator[float]:
    """What each straight part of an edge costs, where it is near enough and leads where the vehicle goes."""
    points = [(lon * roads.east_m, lat * METRES_PER_DEGREE) for lat, lon in roads.paths[edge]]
    for one, other in pairwise(points):
        if one == other:
            continue
        off_m = _distance_m(here, one, other)
        leads_deg = math.degrees(math.atan2(other[0] - one[0], other[1] - one[1]))
        angle_deg = abs((heading_deg - leads_deg + 180) % 360 - 180)
        if off_m <= roads.radius_m and angle_deg <= roads.angle_deg:
            turned = 2 * (1 - math.cos(math.radians(angle_deg)))
            yield (off_m / roads.sigma_m) ** 2 + turned / math.radians(roads.sigma_deg) ** 2


def _distance_m(here: Point, one: Point, other: Point) -> float:
    """From a point to a straight line between two others."""
    dx, dy = other[0] - one[0], other[1] - one[1]
    x, y = here[0] - one[0], here[1] - one[1]
    share = min(1.0, max(0.0, (x * dx + y * dy) / (dx * dx + dy * dy)))
    return math.hypot(x - share * dx, y - share * dy)
