"""Acceleration bursts at 1 kHz: crash pulses by type, and the knocks that are no crash.

Accelerations are m/s2 on the axes of ISO 8855: longitudinal forward positive (a frontal impact is negative, a
struck rear positive), lateral left positive (a hit on the left side is negative).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


def strike(delta_v_kmh: float, width_ms: int) -> Pulse:
    """A stone under the car: short and sharp; it may fire a pretensioner below any crash's threshold."""
    long = haversine(-delta_v_kmh, width_ms)
    return Pulse("strike", long, np.zeros(len(long)))


def _pothole(rng: np.random.Generator) -> Pulse:
    long = kerb(float(rng.uniform(2, 6)), float(rng.uniform(5, 20)))
    return Pulse("pothole", long, 0.4 * float(rng.uniform(-1, 1)) * long)


def _kerb_from_the_side(rng: np.random.Generator) -> Pulse:
    lat = kerb(float(rng.uniform(2, 6)), float(rng.uniform(5, 20))) * float(rng.choice((-1, 1)))
    return Pulse("kerb", 0.3 * lat, lat)


def _braking(rng: np.random.Generator) -> Pulse:
    """An emergency stop: 0.25 s to full pressure, then 9 to 10.5 m/s2 with the anti-lock's pulsing."""
    n = int(rng.integers(1500, 3000))
    t = np.arange(n) / SAMPLE_HZ
    held = -float(rng.uniform(9.0, 10.5)) * np.minimum(t / 0.25, 1.0)
    pulsing = 1 + 0.06 * np.sin(2 * np.pi * float(rng.uniform(5, 10)) * t)
    return Pulse("braking", held * pulsing, 0.3 * rng.standard_normal(n))


def _door_slam(rng: np.random.Generator) -> Pulse:
    """A few g that ring out within a tenth of a second."""
    t = np.maximum(np.arange(400) - BEFORE_MS, 0) / SAMPLE_HZ
    hz, peak_g = float(rng.uniform(30, 80)), float(rng.uniform(1, 3))
    lat = peak_g * G_MPS2 * np.exp(-t / 0.02) * np.sin(2 * np.pi * hz * t)
    return Pulse("door_slam", np.zeros(len(lat)), lat)


def _speed_bump(rng: np.random.Generator) -> Pulse:
    """Each axle climbs and descends: swings of up to 0.8 g that take a third of a second."""
    t = np.arange(900) - BEFORE_MS
    width = float(rng.uniform(200, 350))
    swing = np.where((t >= 0) & (t < 2 * width), np.sin(2 * np.pi * t / width), 0.0)
    long = -float(rng.uniform(0.3, 0.8)) * G_MPS2 * swing
    return Pulse("speed_bump", long, np.zeros(len(long)))


KNOCKS: Mapping[str, Callable[[np.random.Generator], Pulse]] = {
    "pothole": _pothole, "kerb": _kerb_from_the_side, "braking": _braking, "door_slam": _door_slam,
    "speed_bump": _speed_bump,
}  # fmt: skip
"""What must never trigger a recorder, each drawn from a generator."""
