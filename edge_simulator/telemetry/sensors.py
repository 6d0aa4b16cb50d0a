"""What instruments make of the truth: noise, held values, and the rounding of the wire."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edge_simulator.geo import Bools, Floats
from infra.contract.signals import FAST, Signal

STEERING_RATIO = 15.0
FAST_NAMES = tuple(s.name for s in FAST)

Steps = NDArray[np.int32]
"""Fast signals as whole steps on the wire."""


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


class Grid:
    """The steps that signals are told in, along the first axis."""

    def __init__(self, signals: Sequence[Signal]) -> None:
        self._scale = np.array([s.steps_per_unit for s in signals], dtype=np.float64)[:, None]
        self._low = np.array([s.minimum for s in signals])[:, None]
        self._high = np.array([s.maximum for s in signals])[:, None]
        self._none = np.rint(self._high * self._scale) + 1

    def steps(self, values: Floats) -> Floats:
        """Values, [n_signals, n], as whole steps, held within the range; changes ``values``.

        No value (NaN) is the step after the last one.
        """
        np.clip(values, self._low, self._high, out=values)
        values *= self._scale
        np.rint(values, out=values)
        none = np.isnan(values)
        if none.any():
            np.copyto(values, self._none, where=none)
        return values
