"""Faults of the road: crashes, and three things that are none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from edge_simulator.edr import pulse
from edge_simulator.faults.model import Details, Fault, Kind, Scene, any_wheel, spread

EMERGENCY_MPS2 = (-6.5, -8.8)
FRONTAL, FRONTAL_SHARES = ("car_to_car", "barrier", "pole"), (0.6, 0.2, 0.2)
"""Crashes that take speed off, which is all that the fleet's motion can show of one (eng. shares)."""
FIRST_SHARE, SECOND_SHARE = (0.25, 0.4), 0.95
"""What two hits in a row take of the speed: the first (severity 0..1), and the second of the rest."""
AGAIN_MS = (200, 500)


def _crash(severity: float, rng: np.random.Generator) -> Details:
    kind = FRONTAL[int(rng.choice(len(FRONTAL), p=FRONTAL_SHARES))]
    low, high = pulse.KINDS[kind].width_ms
    return {"type": kind, "share_of_speed": severity, "width_ms": int(rng.integers(low, high + 1))}


def _multi_crash(severity: float, rng: np.random.Generator) -> Details:
    again_ms = int(rng.integers(*AGAIN_MS))
    return _crash(spread(*FIRST_SHARE, severity), rng) | {"again_after_ms": again_ms}


def second_impact(fault: Fault, now_ms: int) -> Fault | None:
    """The hit that follows the one at ``now_ms``, on the same vehicle; None where none does."""
    if "again_after_ms" not in fault.details:
        return None
    at_ms = now_ms + fault.details["again_after_ms"]
    kept = {key: value for key, value in fault.details.items() if key != "again_after_ms"}
    details = kept | {"share_of_speed": SECOND_SHARE, "impact": 2}
    return replace(fault, onset_ms=at_ms, full_ms=at_ms, details=details)


def _kerb(severity: float, rng: np.random.Generator) -> Details:
    peak_g = spread(2, 6, severity, 1)
    return {"wheel": any_wheel(rng), "peak_g": peak_g, "width_ms": int(rng.integers(5, 13))}


def _braking(severity: float, rng: np.random.Generator) -> Details:
    lasts_s = round(float(rng.uniform(1.8, 3.2)), 1)
    return {"decel_mps2": spread(*EMERGENCY_MPS2, severity), "lasts_s": lasts_s}


def _brake(scene: Scene, fault: Fault, level: float, _before: float) -> None:
    """The driver brakes as hard as it goes; speed and all that follows from it are the fleet's."""
    motion, i = scene.fleet.state, fault.vehicle
    if level > 0:
        motion.emergency_until[i] = scene.fleet.t_s + fault.details["lasts_s"]
        motion.emergency_mps2[i] = fault.details["decel_mps2"]


def impact(scene: Scene, fault: Fault, rng: np.random.Generator) -> pulse.Pulse | None:
    """The burst that the recorder has to judge; None where nothing hits anything."""
    if fault.name in ("crash", "multi_crash"):
        return _collide(scene, fault, rng)
    if fault.name not in ("pothole", "kerb_strike"):
        return None
    knock = pulse.kerb(fault.details["peak_g"], fault.details["width_ms"])
    if fault.name == "pothole":
        return pulse.Pulse("pothole", knock, 0.2 * knock)
    side = -1.0 if fault.details["wheel"].endswith("l") else 1.0
    return pulse.Pulse("kerb", 0.3 * knock, side * knock)


def _collide(scene: Scene, fault: Fault, rng: np.random.Generator) -> pulse.Pulse:
    """The collision takes speed off in the next step and wrecks the vehicle."""
    motion, i = scene.fleet.state, fault.vehicle
    lost_mps = float(motion.v[i]) * fault.details["share_of_speed"]
    motion.crashed[i] = True
    motion.impact_mps[i] = lost_mps
    kind = pulse.KINDS[fault.details["type"]]
    return pulse.crash(kind, lost_mps * 3.6, fault.details["width_ms"], rng)


KINDS = (
    Kind("crash", "any", (0, 0), _crash, on_road=True, for_good=True),
    Kind("multi_crash", "any", (0, 0), _multi_crash, on_road=True, for_good=True),
    Kind(
        "pothole", "any", (0, 0),
        lambda severity, rng: {"peak_g": spread(2, 6, severity, 1), "width_ms": int(rng.integers(8, 21))},
        lasts_s=(0, 0), on_road=True,
    ),
    Kind("kerb_strike", "any", (0, 0), _kerb, lasts_s=(0, 0), on_road=True),
    Kind("emergency_braking", "any", (0, 0), _braking, apply=_brake, lasts_s=(3, 3), on_road=True),
)  # fmt: skip
