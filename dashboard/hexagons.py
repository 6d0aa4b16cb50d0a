"""H3 cells as shapes on the map: a direction is its quarter of the hexagon."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

import h3

Point = tuple[float, float]
"""Longitude and latitude, degrees."""
CELLS_KEPT: Final = 20_000
HALF_SECTOR_DEG: Final = 45.0


@lru_cache(maxsize=4 * CELLS_KEPT)
def wedge(cell: str, sector: int) -> tuple[Point, ...]:
    """The part of a cell that lies in the direction of a sector (0 north, 1 east, 2 south, 3 west).

    It begins at the cell's centre and goes clockwise along the edge of the hexagon.
    """
    lat, lon = h3.cell_to_latlng(cell)
    east_per_north = math.cos(math.radians(lat))
    corners = [((x - lon) * east_per_north, y - lat) for y, x in h3.cell_to_boundary(cell)]
    first = sector * 2 * HALF_SECTOR_DEG - HALF_SECTOR_DEG
    turns = sorted(t for x, y in corners if 0 < (t := _turn(x, y, first)) < 2 * HALF_SECTOR_DEG)
    rim = [_rim(corners, first + turn) for turn in (0.0, *turns, 2 * HALF_SECTOR_DEG)]
    return ((lon, lat), *((lon + x / east_per_north, lat + y) for x, y in rim))


def _turn(east: float, north: float, first_deg: float) -> float:
    """Angle of a direction clockwise from ``first_deg``, degrees in 0..360."""
    return (math.degrees(math.atan2(east, north)) - first_deg) % 360


def _rim(corners: list[Point], bearing_deg: float) -> Point:
    """Where a ray from the centre leaves the polygon; the centre lies in it."""
    dx, dy = math.sin(math.radians(bearing_deg)), math.cos(math.radians(bearing_deg))
    reach = 0.0
    for (ax, ay), (bx, by) in zip(corners, corners[1:] + corners[:1], strict=True):
        ex, ey = bx - ax, by - ay
        cross = dx * ey - dy * ex
        if cross == 0:
            continue
        along, share = (ax * ey - ay * ex) / cross, (ax * dy - ay * dx) / cross
        if along > 0 and -1e-9 <= share <= 1 + 1e-9:
            reach = max(reach, along)
    return dx * reach, dy * reach
