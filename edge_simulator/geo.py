"""Small geodesy: metres per degree, bearings, angles. Headings are clockwise from north."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Rows = slice | Ints  # some of the vehicles: a slice where they follow one another, else their indices


G_MPS2 = 9.81


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


class Metric:
    """Metres per degree near one latitude as a parabola: within 100 km of it wrong by less than 1e-6."""

    def __init__(self, lat_deg: float) -> None:
        self._lat_deg, step = lat_deg, 0.4
        low, mid, high = np.array(metres_per_degree(lat_deg + np.array([-step, 0.0, step]))).T
        by_power = np.array([mid, (high - low) / (2 * step), (high + low - 2 * mid) / (2 * step**2)])
        self._north, self._east = by_power.T.tolist()

    def metres(self, lat_deg: Floats) -> tuple[Floats, Floats]:
        """Metres per degree of latitude and of longitude at ``lat_deg``."""
        off = lat_deg - self._lat_deg
        (n0, n1, n2), (e0, e1, e2) = self._north, self._east
        return (n2 * off + n1) * off + n0, (e2 * off + e1) * off + e0
