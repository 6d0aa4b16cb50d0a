"""Places on the ground: distances in m, hexagons."""

from __future__ import annotations

import math
from typing import Final

import h3
import msgspec

EARTH_M: Final = 6_371_008.8
OD_RESOLUTION: Final = 7
"""Hexagons of 5.2 km2: origins and destinations."""


class Place(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A position, degrees."""

    lat_deg: float
    lon_deg: float


def place(lat_deg: float | None, lon_deg: float | None) -> Place | None:
    """The place, None where half of it is not known."""
    return None if lat_deg is None or lon_deg is None else Place(lat_deg, lon_deg)


def apart_m(a: Place | None, b: Place | None) -> float | None:
    """Distance as the crow flies; None where a place is not known."""
    if a is None or b is None:
        return None
    mean = math.radians((a.lat_deg + b.lat_deg) / 2)
    east = math.radians((b.lon_deg - a.lon_deg + 540) % 360 - 180) * math.cos(mean)
    north = math.radians(b.lat_deg - a.lat_deg)
    return EARTH_M * math.hypot(east, north)


def hexagon(where: Place | None) -> str | None:
    """The hexagon of a place."""
    return None if where is None else h3.latlng_to_cell(where.lat_deg, where.lon_deg, OD_RESOLUTION)
