"""Acceleration bursts at 1 kHz: crash pulses by type, and the knock of a pothole or kerb.

Accelerations are m/s2 on the axes of ISO 8855: longitudinal forward positive (a frontal impact is negative, a
struck rear positive), lateral left positive (a hit on the left side is negative).
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from edge_simulator.geo import Floats

SAMPLE_HZ = 1000
G_MPS2 = 9.81
BEFORE_MS = 60
AFTER_MS = 400
RINGING_HZ = (40.0, 100.0)
RINGING_SHARE = (0.1, 0.2)
ACROSS_DEG = 10.0  # how far the direction of force strays from the type's axis, at most, to either side


class Kind(NamedTuple):
    """A type of crash: how long its pulse lasts, on which axis, and to which side it pushes (0: either)."""

    name: str
    width_ms: tuple[int, int]
    axis: str
    sign: int


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("barrier", (80, 110), "long", -1),
        Kind("car_to_car", (100, 150), "long", -1),
        Kind("rear", (100, 140), "long", 1),
        Kind("pole", (120, 180), "long", -1),
        Kind("side", (70, 120), "lat", 0),  # its width is an engineering default
    )
}


class Pulse(NamedTuple):
    """One burst; ``lat`` is as long as ``long``."""

    kind: str
    long: Floats
    lat: Floats


def haversine(
    delta_v_kmh: float, width_ms: float, before_ms: int = BEFORE_MS, after_ms: int = AFTER_MS
) -> Floats:
    """A crash pulse a(t) = (2 dV / T) sin^2(pi t / T), with quiet before and after."""
    t = np.arange(before_ms + int(width_ms) + after_ms) - before_ms
    inside = (t >= 0) & (t <= width_ms)
    peak = 2 * delta_v_kmh / 3.6 / (width_ms / 1000)
    return np.where(inside, peak * np.sin(np.pi * t / width_ms) ** 2, 0.0)


def with_ringing(pulse: Floats, rng: np.random.Generator, share: float) -> Floats:
    """The pulse with the body's ringing at 40 to 100 Hz, ``share`` of its height; its delta-V stays."""
    t = np.arange(len(pulse)) / SAMPLE_HZ
    tones = sum(
        np.sin(2 * np.pi * rng.uniform(*RINGING_HZ) * t + rng.uniform(0, 2 * np.pi)) for _ in range(3)
    )
    ringing: Floats = pulse * (1 + share * tones / 1.8)
    total = ringing.sum()
    return ringing * (pulse.sum() / total) if total else ringing


def crash(kind: Kind, delta_v_kmh: float, width_ms: float, rng: np.random.Generator) -> Pulse:
    """A crash of ``kind`` that changes the speed along its axis by ``delta_v_kmh`` (a magnitude).

    What goes across the axis follows from a direction of force up to 10 degrees off it.
    """
    sign = kind.sign or int(rng.choice((-1, 1)))
    share = float(rng.uniform(*RINGING_SHARE))
    along = with_ringing(haversine(sign * delta_v_kmh, width_ms), rng, share)
    stray_kmh = delta_v_kmh * float(np.tan(np.radians(rng.uniform(-ACROSS_DEG, ACROSS_DEG))))
    across = with_ringing(haversine(stray_kmh, width_ms), rng, share)
    return Pulse(kind.name, along, across) if kind.axis == "long" else Pulse(kind.name, across, along)


def drawn(kind: Kind, delta_v_kmh: float, rng: np.random.Generator) -> Pulse:
    """A crash of ``kind`` with a width out of its range."""
    low, high = kind.width_ms
    return crash(kind, delta_v_kmh, int(rng.integers(low, high + 1)), rng)


def kerb(peak_g: float, width_ms: float) -> Floats:
    """A pothole or kerb: one swing back and one forth, so that little speed is lost."""
    t = np.arange(300) - BEFORE_MS
    inside = (t >= 0) & (t < width_ms)
    return np.where(inside, -peak_g * G_MPS2 * np.sin(2 * np.pi * t / width_ms + 0.4), 0.0)
