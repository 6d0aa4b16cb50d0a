"""Acceleration bursts at 1 kHz, and how a recorder judges them (49 CFR 563.5).

Accelerations are longitudinal, m/s2, forward positive: a frontal impact is negative.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edge_simulator.geo import Floats

SAMPLE_HZ = 1000
TRIGGER_KMH = 8.0
TRIGGER_MS = 150
WAKE_KMH = 0.8
WAKE_MS = 20
POINTS = 26
POINT_MS = 10


@dataclass(frozen=True, slots=True)
class Finding:
    """An event in a burst: time zero and the delta-V after it."""

    zero_ms: int
    end_ms: int
    """When the event ends; the burst's end where it does not."""
    delta_v_kmh: tuple[int, ...]
    """Cumulative, every 10 ms from time zero, whole km/h."""
    max_kmh: float
    max_ms: float


def haversine(delta_v_kmh: float, width_ms: float, before_ms: int = 60, after_ms: int = 400) -> Floats:
    """A crash pulse a(t) = (2 dV / T) sin^2(pi t / T), with quiet before and after."""
    t = np.arange(before_ms + int(width_ms) + after_ms) - before_ms
    inside = (t >= 0) & (t <= width_ms)
    peak = 2 * delta_v_kmh / 3.6 / (width_ms / 1000)
    return np.where(inside, peak * np.sin(np.pi * t / width_ms) ** 2, 0.0)


def with_ringing(pulse: Floats, rng: np.random.Generator, share: float) -> Floats:
    """The pulse with the body's ringing at 40 to 100 Hz, ``share`` of its height, zero-mean."""
    t = np.arange(len(pulse)) / SAMPLE_HZ
    tones = sum(np.sin(2 * np.pi * rng.uniform(40, 100) * t + rng.uniform(0, 6.28)) for _ in range(3))
    ringing: Floats = pulse * (1 + share * tones / 1.8)
    return ringing


def kerb(peak_g: float, width_ms: float) -> Floats:
    """A pothole or kerb: one swing back and one forth, so that little speed is lost."""
    t = np.arange(300) - 60
    inside = (t >= 0) & (t < width_ms)
    return np.where(inside, -peak_g * 9.81 * np.sin(2 * np.pi * t / width_ms + 0.4), 0.0)


def cumulative_kmh(accel: Floats) -> Floats:
    """Delta-V since the burst's begin, km/h."""
    total: Floats = np.cumsum(accel) / SAMPLE_HZ * 3.6
    return total


def judge(accel: Floats) -> Finding | None:
    """The event in a burst, or None: a change of at least 8 km/h within 150 ms makes one."""
    delta_v = np.concatenate([[0.0], cumulative_kmh(accel)])
    if _largest_change(delta_v, TRIGGER_MS) < TRIGGER_KMH:
        return None
    zero = int(np.argmax(np.abs(_change(delta_v, WAKE_MS)) > WAKE_KMH))
    since = delta_v - delta_v[zero]
    points = np.minimum(zero + np.arange(POINTS) * POINT_MS, len(since) - 1)
    table = np.rint(since[points])
    window = since[zero : points[-1] + 1]
    largest = int(np.argmax(np.abs(window)))
    return Finding(
        zero_ms=zero,
        end_ms=_end(delta_v, zero),
        delta_v_kmh=tuple(int(v) for v in table),
        max_kmh=round(float(window[largest]), 1),
        max_ms=round(largest / 2.5) * 2.5,
    )


def _change(delta_v: Floats, over_ms: int) -> Floats:
    return delta_v[over_ms:] - delta_v[:-over_ms]


def _largest_change(delta_v: Floats, over_ms: int) -> float:
    """Largest change within a window: any two instants at most ``over_ms`` apart."""
    windows = np.lib.stride_tricks.sliding_window_view(delta_v, min(over_ms + 1, len(delta_v)))
    return float((windows.max(axis=1) - windows.min(axis=1)).max())


def _end(delta_v: Floats, zero: int) -> int:
    """When the change over 20 ms is back at 0.8 km/h or less, after the pulse has begun."""
    change = np.abs(_change(delta_v, WAKE_MS))
    begun = zero + WAKE_MS
    quiet = np.flatnonzero(change[begun:] <= WAKE_KMH)
    return int(begun + quiet[0]) if len(quiet) else len(delta_v) - 1
