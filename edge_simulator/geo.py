"""Small geodesy: metres per degree, bearings, angles. Headings are clockwise from north."""

from __future__ import annotations

from dataclasses import dataclass

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
    return np.remainder(angle_rad + np.pi, 2 * np.pi) - np.pi


def bearing_rad(lat_a: Floats, lon_a: Floats, lat_b: Floats, lon_b: Floats) -> Floats:
    """Bearing from a to b for points at most a few kilometres apart, radians."""
    north, east = metres_per_degree((lat_a + lat_b) / 2)
    return np.arctan2((lon_b - lon_a) * east, (lat_b - lat_a) * north)


def bearing_deg(lat_a: Floats, lon_a: Floats, lat_b: Floats, lon_b: Floats) -> Floats:
    """Bearing from a to b, degrees in 0..360."""
    return np.degrees(bearing_rad(lat_a, lon_a, lat_b, lon_b)) % 360.0


@dataclass(frozen=True, slots=True)
class Metric:
    """Metres per degree near one latitude as a parabola: within 100 km of it wrong by less than 1e-6."""

    lat_deg: float
    north: tuple[float, float, float]
    east: tuple[float, float, float]

    @classmethod
    def around(cls, lat_deg: float) -> Metric:
        """The metric for the surroundings of ``lat_deg``."""
        at = np.array([-0.4, 0.0, 0.4])
        north, east = metres_per_degree(lat_deg + at)
        return cls(lat_deg, _parabola(at, north), _parabola(at, east))

    def metres(self, lat_deg: Floats) -> tuple[Floats, Floats]:
        """Metres per degree of latitude and of longitude at ``lat_deg``."""
        off = lat_deg - self.lat_deg
        (n0, n1, n2), (e0, e1, e2) = self.north, self.east
        return (n2 * off + n1) * off + n0, (e2 * off + e1) * off + e0


def _parabola(at: Floats, value: Floats) -> tuple[float, float, float]:
    """Coefficients from the constant on; through (-d, 0, d)."""
    step = float(at[2])
    low, mid, high = (float(x) for x in value)
    return mid, (high - low) / (2 * step), (high + low - 2 * mid) / (2 * step**2)
