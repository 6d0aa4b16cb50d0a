"""Acceleration bursts at 1 kHz, and what a recorder finds in them by 49 CFR 563.5: trigger, time zero, end.

Accelerations are m/s2 on the axes of ISO 8855: longitudinal forward positive (a frontal impact is negative, a
struck rear positive), lateral left positive (a hit on the left side is negative).

The restraint controller wakes on a hard knock and fires what does not reverse, by delta-V over time. Its
figures are engineering defaults: a frontal air bag stays in at 16 km/h into a barrier in 100 ms and fires at
25; a stiffer pulse fires it earlier.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from edge_simulator.geo import G_MPS2, Bools, Floats
from infra.contract.messages import DELTA_V_MS, DELTA_V_POINTS, TRIGGER_KMH, TRIGGER_MS

SAMPLE_HZ = 1000
BEFORE_MS = 60
AFTER_MS = 400
RINGING_HZ = (40.0, 100.0)
RINGING_SHARE = (0.1, 0.2)
ACROSS_DEG = 10.0  # how far the direction of force strays from the type's axis, at most, to either side


class Kind(NamedTuple):
    """A type of crash: how long its pulse lasts, on which axis, and to which side it pushes (0: either)."""

    width_ms: tuple[int, int]
    axis: str
    sign: int


KINDS: Mapping[str, Kind] = {
    "barrier": Kind((80, 110), "long", -1),
    "car_to_car": Kind((100, 150), "long", -1),
    "rear": Kind((100, 140), "long", 1),
    "pole": Kind((120, 180), "long", -1),
    "side": Kind((70, 120), "lat", 0),  # its width is an engineering default
}


class Pulse(NamedTuple):
    """One burst; ``lat`` is as long as ``long``."""

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
    return Pulse(along, across) if kind.axis == "long" else Pulse(across, along)


def kerb(peak_g: float, width_ms: float) -> Floats:
    """A pothole or kerb: one swing back and one forth, so that little speed is lost."""
    t = np.arange(300) - BEFORE_MS
    inside = (t >= 0) & (t < width_ms)
    return np.where(inside, -peak_g * G_MPS2 * np.sin(2 * np.pi * t / width_ms + 0.4), 0.0)


WAKE_KMH = 0.8
WAKE_MS = 20
WAKE_LAT_MS = 5  # the lateral change has less time: 0.8 km/h within 5 ms, for recorders of the lateral axis.
MAX_MS = 300
MAX_AFTER_END_MS = 30  # the maximum is looked for up to 300 ms, or to so long after the event
MAX_STEP_MS = 2.5
RANGE_KMH = 100
DUST_KMH = 1e-9  # sums of floats: a pulse of exactly 8 km/h must reach 8 km/h
WAKE_G = 3.0
SMOOTHED_MS = 3
SLEEP_MS = 50  # the algorithm rests again when the knock is over for so long


class Restraint(NamedTuple):
    """Fires at ``|dV| >= base + slope * t``: t is the ms since wake-up, dV the change since on ``axis``.

    ``sign`` is the side that it is for: -1 as in a frontal impact, 0 either.
    """

    name: str
    axis: str
    sign: int
    base_kmh: float
    slope_kmh_per_ms: float
    air_bag: bool


FITTED = (
    Restraint("pretensioner", "long", 0, 4.0, 0.15, air_bag=False),
    Restraint("front_airbag", "long", -1, 5.0, 0.20, air_bag=True),
    Restraint("side_airbag", "lat", 0, 4.0, 0.15, air_bag=True),
)


class Axis(NamedTuple):
    """Delta-V on one axis after time zero: every 10 ms, and its maximum by magnitude; whole km/h, signed."""

    delta_v_kmh: tuple[int, ...]
    max_kmh: int
    max_ms: float


class Finding(NamedTuple):
    """An event; times in ms from the burst's begin."""

    zero_ms: int
    end_ms: int
    long: Axis
    lat: Axis
    deployed_ms: Mapping[str, int]  # what fired, and when after time zero


def events(long: Floats, lat: Floats | None = None, spent: Collection[str] = ()) -> list[Finding]:
    """The events in a burst, in order; the search for the next one begins at the end of the last (563.9).

    ``long`` and ``lat`` are accelerations at 1 kHz, m/s2; restraints that are ``spent`` cannot fire.
    """
    lat = np.zeros(len(long)) if lat is None else lat
    # delta-V of both axes before each sample since the burst's begin, one more than there are samples
    change = np.pad(np.cumsum([long, lat], axis=1), ((0, 0), (1, 0))) / SAMPLE_HZ * 3.6
    fired = deployments(long, lat, spent)
    marks = [wake for wake, _ in wake_spans(long, lat)] + [ms for ms, _ in fired]
    found: list[Finding] = []
    begin = 0
    while begin < change.shape[1]:
        triggers = (begin + np.flatnonzero(_reached(change[:, begin:]))[:1]).tolist()
        triggers += [ms for ms, _ in fired if ms > begin]
        if not triggers:
            break
        zero, end = _limits(change, marks, begin, min(triggers))
        deployed = {name: ms - zero for ms, name in fired if zero <= ms <= end}
        axes = (_axis(change[0], zero, end), _axis(change[1], zero, end))
        found.append(Finding(zero, end, *axes, deployed))
        begin = end
    return found


def deployments(long: Floats, lat: Floats, spent: Collection[str] = ()) -> list[tuple[int, str]]:
    """What fires in a burst and when, ms from its begin, in order; what is ``spent`` cannot fire again."""
    fired: dict[str, int] = {}
    for begin, end in wake_spans(long, lat):
        for restraint in FITTED:
            accel = (long if restraint.axis == "long" else lat)[begin : end + SLEEP_MS]
            change = np.cumsum(accel) / SAMPLE_HZ * 3.6
            towards = np.abs(change) if restraint.sign == 0 else restraint.sign * change
            line = restraint.base_kmh + restraint.slope_kmh_per_ms * np.arange(1, len(accel) + 1)
            beyond = np.flatnonzero(towards >= line)
            if len(beyond) and restraint.name not in spent:
                fired.setdefault(restraint.name, begin + int(beyond[0]) + 1)
    return sorted((at, name) for name, at in fired.items())


def wake_spans(long: Floats, lat: Floats) -> list[tuple[int, int]]:
    """When the restraint algorithm is awake, [begin, end) in ms from the burst's begin."""
    smooth = np.ones(SMOOTHED_MS) / SMOOTHED_MS
    felt = np.hypot(*(np.convolve(axis, smooth)[: len(axis)] for axis in (long, lat)))
    return _spans(felt > WAKE_G * G_MPS2, SLEEP_MS)


def _spans(holds: Bools, lull_ms: int) -> list[tuple[int, int]]:
    """Where ``holds`` is true, as [begin, end); a lull of less than ``lull_ms`` does not part two of them."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], holds, [False]]).astype(np.int8)))
    found: list[tuple[int, int]] = []
    for begin, end in edges.reshape(-1, 2).tolist():
        if found and begin - found[-1][1] < lull_ms:
            found[-1] = (found[-1][0], end)
        else:
            found.append((begin, end))
    return found


def _reached(change: Floats) -> Bools:
    """When an axis has changed by 8 km/h within the last 150 ms; ``change`` is [axis, ms]."""
    padded = np.pad(change, ((0, 0), (TRIGGER_MS, 0)), mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, TRIGGER_MS + 1, axis=1)
    largest = np.maximum(change - windows.min(axis=2), windows.max(axis=2) - change)
    reached: Bools = (largest >= TRIGGER_KMH - DUST_KMH).any(axis=0)
    return reached


def _limits(change: Floats, marks: list[int], begin: int, at: int) -> tuple[int, int]:
    """Time zero and end of the event that triggers ``at``; a lull under 20 ms within a pulse ends nothing.

    ``marks`` are wake-ups of the restraint controller and deployments.
    """
    fast = _moves(change[0], WAKE_MS) | _moves(change[1], WAKE_LAT_MS)
    stirs = fast | _moves(change[1], WAKE_MS)
    stirs[:begin] = False
    before = [span for span in _spans(stirs, WAKE_MS) if span[0] <= at]
    first, last = before[-1] if before else (at, at)
    zeros: list[int] = (first + np.flatnonzero(fast[first : at + 1])[:1]).tolist()
    zeros += [ms for ms in marks if max(begin, first - WAKE_MS) <= ms <= at]
    return min(zeros, default=first), max(last + WAKE_MS, at)


def _moves(change: Floats, over_ms: int) -> Bools:
    """Whether more than 0.8 km/h change within ``over_ms`` from each moment on; the burst's end is held."""
    held = np.pad(change, (0, over_ms), mode="edge")
    return np.abs(held[over_ms:] - held[:-over_ms]) > WAKE_KMH


def _axis(change: Floats, zero: int, end: int) -> Axis:
    since = np.clip(change[zero:] - change[zero], -RANGE_KMH, RANGE_KMH)
    points = since[np.minimum(np.arange(DELTA_V_POINTS) * DELTA_V_MS, len(since) - 1)]
    window = since[: min(MAX_MS, end - zero + MAX_AFTER_END_MS) + 1]
    largest = int(np.argmax(np.abs(window)))
    return Axis(
        tuple(int(v) for v in np.rint(points)), int(np.rint(window[largest])),
        round(largest / MAX_STEP_MS) * MAX_STEP_MS,
    )  # fmt: skip
