"""The pre-crash samples of a fleet, at the regulation's resolution in five bytes a vehicle and sample."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from edge_simulator.geo import Bools, Floats

STEPS = MappingProxyType({"speed_kmh": 1, "accelerator_pct": 1, "engine_rpm": 100, "steering_deg": 5})
"""Resolution of the recorded numbers, 49 CFR 563.8; the steering wheel's is 5 deg here."""
MAX_STEPS = MappingProxyType(
    {"speed_kmh": 255, "accelerator_pct": 100, "engine_rpm": 100, "steering_deg": 127}
)
ZERO = MappingProxyType({"speed_kmh": 0, "accelerator_pct": 0, "engine_rpm": 0, "steering_deg": 128})
"""The byte that stands for zero: the steering wheel turns to both sides."""
FLAGS = ("brake_on", "abs_active", "esc_active", "driver_belt_on", "ignition_on")
"""A bit each. Without ignition the recorder sleeps: such a sample is none."""

Sample = Mapping[str, Floats | Bools]


class Ring:
    """The last samples of all vehicles, the oldest overwritten. ``dt_ms`` is the spacing that is recorded.

    It takes the first sample offered in each interval of ``dt_ms``; samples further apart are held.
    """

    def __init__(self, n_vehicles: int, samples: int, dt_ms: int) -> None:
        self._samples = samples
        self._dt_ms = dt_ms
        slots = samples + 2
        self._numbers = np.zeros((slots, len(STEPS), n_vehicles), dtype=np.uint8)
        self._flags = np.zeros((slots, n_vehicles), dtype=np.uint8)
        self._scratch = np.empty(n_vehicles)
        self._time_ms = np.full(slots, -np.inf)
        self._next = 0
        self._interval: int | None = None

    def due(self, t_ms: float) -> bool:
        """Whether a sample at ``t_ms`` is one to record."""
        return int(t_ms // self._dt_ms) != self._interval

    def record(self, t_ms: float, sample: Sample) -> None:
        """Add one sample of every vehicle: STEPS and FLAGS, [n_vehicles] each."""
        slot = self._next
        for row, (name, step) in zip(self._numbers[slot], STEPS.items(), strict=True):
            self._write(row, name, step, sample[name])
        bits = self._flags[slot]
        bits[:] = sample[FLAGS[0]]
        for k, name in enumerate(FLAGS[1:], start=1):
            bits |= sample[name].view(np.uint8) << np.uint8(k)
        self._time_ms[slot] = t_ms
        self._next = (slot + 1) % len(self._time_ms)
        self._interval = int(t_ms // self._dt_ms)

    def _write(self, row: NDArray[np.uint8], name: str, step: int, values: Floats | Bools) -> None:
        """Whole steps above the byte that stands for zero; the half added turns truncating into rounding."""
        steps, zero, most = self._scratch, ZERO[name], MAX_STEPS[name]
        np.multiply(values, 1 / step, out=steps)
        np.minimum(steps, most, out=steps)
        if zero:  # the others are never below it
            np.maximum(steps, -most, out=steps)
        np.add(steps, zero + 0.5, out=row, casting="unsafe")

    def harvest(self, vehicle: int, zero_ms: float) -> dict[str, Floats]:
        """The samples of a vehicle up to time zero, oldest first, each the last one taken by then.

        Where there is none, or the recorder slept, all elements are NaN.
        """
        order = np.argsort(self._time_ms, kind="stable")
        wanted = zero_ms - self._dt_ms * np.arange(self._samples - 1, -1, -1)
        place = np.searchsorted(self._time_ms[order], wanted + 1e-6, side="right") - 1
        rows = order[np.maximum(place, 0)]
        bits = self._flags[rows, vehicle]
        flags = {name: ((bits >> k) & 1).astype(np.float64) for k, name in enumerate(FLAGS)}
        there = (flags["ignition_on"] > 0) & np.isfinite(self._time_ms[rows])
        numbers = {
            name: (self._numbers[rows, k, vehicle] - float(ZERO[name])) * step
            for k, (name, step) in enumerate(STEPS.items())
        }
        return {name: np.where(there, values, np.nan) for name, values in (numbers | flags).items()}
