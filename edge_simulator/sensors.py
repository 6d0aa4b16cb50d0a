"""What instruments make of the truth: noise, held values, and the rounding of the wire."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edge_simulator.geo import Bools, Floats, metres_per_degree
from infra.contract.signals import FAST, Signal

GNSS_SIGMA_M = 2.0
GNSS_TAU_S = 60.0
GNSS_WHITE_M = 0.5
HOLD_KMH = 3.0
STEERING_RATIO = 15.0
FAST_NAMES = tuple(s.name for s in FAST)

Steps = NDArray[np.int32]
"""Fast signals as whole steps on the wire."""


class Gnss:
    """A receiver per vehicle: Gauss-Markov error (2 m, 60 s) with white noise; course held when slow."""

    def __init__(self, rng: np.random.Generator, heading_deg: Floats) -> None:
        n = len(heading_deg)
        self._rng = rng
        self._error_m = rng.normal(0.0, GNSS_SIGMA_M, (2, n))
        self._course = heading_deg.copy()

    def fix(self, lat: Floats, lon: Floats, h_s: float) -> tuple[Floats, Floats]:
        """Measured latitude and longitude."""
        keep = np.exp(-h_s / GNSS_TAU_S)
        noise = self._rng.standard_normal((4, len(lat)))
        self._error_m = keep * self._error_m + GNSS_SIGMA_M * np.sqrt(1 - keep**2) * noise[:2]
        east_m, north_m = self._error_m + GNSS_WHITE_M * noise[2:]
        north, east = metres_per_degree(lat)
        return lat + north_m / north, lon + east_m / east

    def course(self, heading_deg: Floats, v_kmh: Floats, noise: Floats) -> Floats:
        """Course over ground: noisier when slow, held below 3 km/h."""
        measured = (heading_deg + noise * np.minimum(0.2 + 8.0 / np.maximum(v_kmh, 3.0), 2.0)) % 360.0
        self._course = np.where(v_kmh >= HOLD_KMH, measured, self._course)
        return self._course


def pedals(
    wheel_w: Floats, v: Floats, a: Floats, mass: Floats, power_w: Floats, electric: Bools, on: Bools
) -> tuple[Floats, Floats]:
    """Accelerator and service brake, %: the power asked for, the deceleration beyond coasting."""
    drive = np.clip(wheel_w / power_w, 0.0, 1.0)
    accelerator = np.where(on & (v > 0.05), 100 * drive**0.7, 0.0)
    coasting = np.where(electric, 1.3, 0.7)
    excess = np.maximum(-wheel_w / np.maximum(v, 0.5) / mass - coasting, 0.0)
    braking = np.where(a < -0.3, 100 * excess / 8.5, 0.0)
    standing = on & (v < 0.05)
    return accelerator, np.clip(np.where(standing, 12.0, braking), 0.0, 100.0)


def steering_deg(curvature: Floats, wheelbase: Floats) -> Floats:
    """Steering-wheel angle, left positive, from the curvature (right positive)."""
    degrees: Floats = -np.degrees(np.arctan(wheelbase * curvature)) * STEERING_RATIO
    return degrees


def steps_of(values: Floats, signals: tuple[Signal, ...]) -> Floats:
    """Values, [n_signals, n], as whole steps of their signals, held within the range; changes ``values``.

    No value (NaN) is the step after the last one.
    """
    scale = np.array([s.steps_per_unit for s in signals], dtype=np.float64)[:, None]
    low = np.array([s.minimum for s in signals])[:, None]
    high = np.array([s.maximum for s in signals])[:, None]
    np.clip(values, low, high, out=values)
    values *= scale
    np.rint(values, out=values)
    none = np.isnan(values)
    if none.any():
        np.copyto(values, np.rint(high * scale) + 1, where=none)
    return values
