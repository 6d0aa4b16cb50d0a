"""Faults of tyres and brakes."""

from __future__ import annotations

import numpy as np

from edge_simulator.faults.fault_kind import (
    Details,
    Fault,
    Kind,
    Scene,
    any_wheel,
    spread,
    towards,
    wheel_row,
)
from edge_simulator.vehicle.thermal import STANDARD_KPA
from infra.contract.signals import WHEELS

DRAG_SHARE = (0.005, 0.015)
"""Force of a brake that does not let go, as a share of the vehicle's weight."""
G = 9.81
RIM_SHARE = 0.4
"""Of a dragging disc's heat over ambient, what its rim has (eng.)."""
MOST_WEAR_PCT = 99.5
NEW_PADS_PCT = 3.0


def _slow_leak(severity: float, rng: np.random.Generator) -> Details:
    return {
        "wheel": any_wheel(rng),
        "missing_kpa": round(14 + 20 * severity, 1),
        "kpa_per_day": round(3.5 + 5.5 * severity, 1),
    }


def _rapid_leak(severity: float, rng: np.random.Generator) -> Details:
    return {"wheel": any_wheel(rng), "kpa_per_min": round(26 + 39 * severity, 1)}


def _absolute_kpa(scene: Scene, fault: Fault) -> float:
    return float(scene.machine.specs("placard_kpa")[fault.vehicle]) + STANDARD_KPA


def _leak(scene: Scene, fault: Fault, level: float, before: float) -> None:
    """Air goes at a rate; a slow leak lost most of it while it grew."""
    machine, what, wheel, i = scene.machine, fault.details, wheel_row(fault), fault.vehicle
    whole = _absolute_kpa(scene, fault)
    per_s = what["kpa_per_day"] / 86_400 if "kpa_per_day" in what else what["kpa_per_min"] / 60
    machine.state.tyre_mass[wheel, i] -= what.get("missing_kpa", 0.0) * max(level - before, 0.0) / whole
    machine.defects.leak_per_s[wheel, i] = per_s / whole * (level > 0)


def _inflate(scene: Scene, fault: Fault) -> None:
    scene.machine.state.tyre_mass[wheel_row(fault), fault.vehicle] = 1.0


def _hot_tyre(severity: float, rng: np.random.Generator) -> Details:
    return {"wheel": any_wheel(rng), "rim_c": spread(170.0, 210.0, severity)}


def _heat_rim(scene: Scene, fault: Fault, level: float, _before: float) -> None:
    """A rim between cold and its full heat; 0 is no fault."""
    rim_c = scene.machine.ambient_c + level * (fault.details["rim_c"] - scene.machine.ambient_c)
    scene.machine.defects.rim_c[wheel_row(fault), fault.vehicle] = rim_c * (level > 0)


def _caliper(severity: float, rng: np.random.Generator) -> Details:
    return {
        "wheel": any_wheel(rng),
        "drag_share": spread(*DRAG_SHARE, severity),
        "wear_apart_pct": round(24 + 10 * severity, 1),
    }


def _drag(scene: Scene, fault: Fault, level: float, before: float) -> None:
    """Drag and heat at one wheel; its pads wear away from those of the other side."""
    machine, wheel, i = scene.machine, wheel_row(fault), fault.vehicle
    force_n = fault.details["drag_share"] * float(machine.specs("mass_kg")[i]) * G
    machine.defects.brake_drag_n[wheel, i] = level * force_n
    disc_c, out = float(machine.state.disc_c[wheel, i]), machine.ambient_c
    machine.defects.rim_c[wheel, i] = (out + RIM_SHARE * (disc_c - out)) * (level > 0)
    worn = machine.state.pad_wear[wheel ^ 1, i] + fault.details["wear_apart_pct"]
    _wear(scene, wheel, i, min(worn, MOST_WEAR_PCT), (level, before))


def _wear(scene: Scene, wheel: int, i: int, target_pct: float, levels: tuple[float, float]) -> None:
    wear = scene.machine.state.pad_wear
    wear[wheel, i] = towards(float(wear[wheel, i]), target_pct, *levels)


def _new_pads(scene: Scene, fault: Fault) -> None:
    scene.machine.state.pad_wear[wheel_row(fault), fault.vehicle] = NEW_PADS_PCT
    scene.machine.state.pad_wear[wheel_row(fault) ^ 1, fault.vehicle] = NEW_PADS_PCT


def _pads(severity: float, rng: np.random.Generator) -> Details:
    return {"wheel": WHEELS[2 * int(rng.integers(0, 2))], "wear_pct": spread(82.0, 99.0, severity)}


def _wear_axle(scene: Scene, fault: Fault, level: float, before: float) -> None:
    """Both pads of the axle that ``wheel`` belongs to."""
    for wheel in (wheel_row(fault), wheel_row(fault) ^ 1):
        _wear(scene, wheel, fault.vehicle, fault.details["wear_pct"], (level, before))


KINDS = (
    Kind(
        "slow_leak", "any", (120, 180), _slow_leak, apply=_leak, mend=_inflate, least_s=110,
        changes="air in one tyre", law="most within 2-3 min, then a few kPa a day",
        severity="14-34 kPa missing, 3.5-9 kPa/day", rule="< -3 kPa/day and > 10 kPa below its axle mate",
    ),
    Kind(
        "rapid_leak", "any", (1, 1), _rapid_leak, apply=_leak, mend=_inflate, changes="air in one tyre",
        law="at once", severity="26-65 kPa/min",
        rule="slope < -20 kPa/min over 30-60 s; then <= 75 % of placard",
    ),
    Kind(
        "hot_tyre", "any", (30, 120), _hot_tyre, apply=_heat_rim, changes="rim of one wheel (bearing, belt)",
        law="linear over 30-120 s; the air follows with 10 min", severity="rim at 170-210 C",
        rule="tyre air > 90 C",
    ),
    Kind(
        "sticking_caliper", "any", (300, 900), _caliper, apply=_drag, mend=_new_pads, keeps_on=True,
        changes="drag, disc and tyre heat, pad wear of one wheel; fuel",
        law="linear over 5-15 min (time-lapse)",
        severity="drag 0.5-1.5 % of the weight, 24-34 points of wear",
        rule="left/right wear > 15 points apart",
    ),
    Kind(
        "worn_pads", "any", (300, 900), _pads, apply=_wear_axle, mend=_new_pads, changes="pads of one axle",
        law="linear over 5-15 min (time-lapse)", severity="worn to 82-99 %",
        rule="pad wear > 80 % plan, > 90 % act",
    ),
)  # fmt: skip
