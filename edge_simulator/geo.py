"""Small geodesy: metres per degree, bearings, angles. Headings are clockwise from north."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def metres_per_degree(lat_deg: Floats | np.float64) -> tuple[Floats, Floats]:
    """Metres per degree of latitude and of longitude on WGS 84 (the usual cosine series, error < 1 cm)."""
    phi = np.radians(lat_deg)
    north: Floats = 111_132.954 - 559.822 * np.cos(2 * phi) + 1.175 * np.cos(4 * phi)
    east: Floats = 111_412.84 * np.cos(phi) - 93.5 * np.cos(3 * phi) + 0.118 * np.cos(5 * phi)
    return north, east


def wrap_pi(angle_rad: Floats) -> Floats:
    """The angle in -pi..pi."""
    wrapped: Floats = np.remainder(angle_rad + np.pi, 2 * np.pi) - np.pi
    return wrapped


def bearing_rad(lat_a: Floats, lon_a: Floats, lat_b: Floats, lon_b: Floats) -> Floats:
    """Bearing from a to b for points at most a few kilometres apart, radians."""
    north, east = metres_per_degree((lat_a + lat_b) / 2)
    angle: Floats = np.arctan2((lon_b - lon_a) * east, (lat_b - lat_a) * north)
    return angle


def bearing_deg(lat_a: Floats, lon_a: Floats, lat_b: Floats, lon_b: Floats) -> Floats:
    """Bearing from a to b, degrees in 0..360."""
    degrees: Floats = np.degrees(bearing_rad(lat_a, lon_a, lat_b, lon_b)) % 360.0
    return degrees
