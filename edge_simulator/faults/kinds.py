"""All kinds of faults by name: engine, electrics, tyres and brakes; those of the road are in road.py."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path

import numpy as np

from edge_simulator.faults import road
from edge_simulator.faults.model import (
    Apply,
    Details,
    Fault,
    Kind,
    Scene,
    any_wheel,
    detail,
    spread,
    wheel_row,
)
from edge_simulator.vehicle import thermal
from edge_simulator.vehicle.thermal import BEGINS_PCT
from infra.contract.signals import WHEELS

HOT_C = 112.0
COLD_C = 75.0
WARMED_UP_S = 900.0
LOW_OIL_KPA = (69.0, 207.0)  # floor of the oil pressure at idle and at rated speed (Cummins ISB)
FLOOR_RPM = (700.0, 2500.0)
STOPS_AT = 0.7  # level from which on a runaway heats in earnest
HOT_CELL_C = 60.0
FLICKERING = ("U0121", "U0155", "C0035", "C0040")
"""Codes that come and go in any vehicle: contact with brakes or dashboard lost, wheel speed sensors."""
DRAG_SHARE = (0.005, 0.015)  # force of a brake that does not let go, as a share of the vehicle's weight
G = 9.81
RIM_SHARE = 0.4  # of a dragging disc's heat over ambient, what its rim has (eng.).
MOST_WEAR_PCT = 99.5
NEW_PADS_PCT = 3.0


def _by_level(defect: str, name: str, divisor: float = 1.0) -> Apply:
    """A defect in proportion to the level and to the fault's detail ``name``."""

    def apply(scene: Scene, fault: Fault, level: float, _before: float) -> None:
        getattr(scene.machine.defects, defect)[fault.vehicle] = level * fault.details[name] / divisor

    return apply


def _stays_cold(scene: Scene, fault: Fault, _since_s: float) -> bool:
    fleet, i = scene.fleet, fault.vehicle
    warmed_up = fleet.t_s - fleet.state.started_s[i] > WARMED_UP_S
    return scene.running(fault) and bool(warmed_up & (scene.machine.state.coolant_c[i] < COLD_C))


def _oil_is_low(scene: Scene, fault: Fault, _since_s: float) -> bool:
    """Below the least pressure allowed at this engine speed, linear between idle and rated."""
    now, only = scene.machine.state, slice(fault.vehicle, fault.vehicle + 1)
    lost = scene.machine.defects.oil_lost[only]
    kpa = thermal.oil_pressure_kpa(now.rpm[only], now.oil_c[only], lost)[0]
    return scene.running(fault) and bool(kpa < np.interp(now.rpm[fault.vehicle], FLOOR_RPM, LOW_OIL_KPA))


def _trim_is_far(scene: Scene, fault: Fault, _since_s: float) -> bool:
    """The learned trim has taken over most of it."""
    return scene.running(fault) and bool(abs(scene.machine.trim_learned[fault.vehicle]) > 10.0)


def _fill_filter(scene: Scene, fault: Fault, level: float, _before: float) -> None:
    scene.machine.defects.soot_to_pct[fault.vehicle] = fault.details["soot_to_pct"] if level > 0 else 0.0


def _empty_filter(scene: Scene, fault: Fault) -> None:
    scene.machine.state.soot_pct[fault.vehicle] = 5.0


def _slips(scene: Scene, fault: Fault, _since_s: float) -> bool:
    machine, i = scene.machine, fault.vehicle
    loaded = bool((machine.state.load_pct[i] > 40) & (machine.state.gear[i] > 0))
    return loaded and bool(machine.defects.clutch_slip[i] > 0.06)


def _freeze_reading(scene: Scene, fault: Fault, level: float, _before: float) -> None:
    machine, i = scene.machine, fault.vehicle
    if level <= 0:
        machine.defects.coolant_held_c[i] = np.nan
    elif np.isnan(machine.defects.coolant_held_c[i]):
        machine.defects.coolant_held_c[i] = machine.state.coolant_c[i]


ENGINE = (
    Kind(
        "overheating", "engine", (60, 240), detail("cooling_blocked", 0.94, 1.0),
        apply=_by_level("cooling_blocked", "cooling_blocked"), code="P0217", seen_s=5,
        seen=lambda scene, fault, _: bool(scene.machine.state.coolant_c[fault.vehicle] > HOT_C),
    ),
    Kind(
        "thermostat_open", "engine", (5, 20), detail("stuck_open", 0.65, 1.0),
        apply=_by_level("thermostat_open", "stuck_open"), code="P0128", seen=_stays_cold, seen_s=30,
    ),
    Kind(
        "low_oil_pressure", "engine", (60, 180), detail("pressure_lost", 0.65, 0.92),
        apply=_by_level("oil_lost", "pressure_lost"), code="P0524", seen=_oil_is_low, seen_s=3,
    ),
    Kind(
        "lean_mixture", "petrol", (20, 90), detail("mixture_pct", 17.0, 31.0),
        apply=_by_level("mixture_pct", "mixture_pct"), code="P0171", seen=_trim_is_far, seen_s=30,
    ),
    Kind(
        "rich_mixture", "petrol", (20, 90), detail("mixture_pct", -17.0, -31.0),
        apply=_by_level("mixture_pct", "mixture_pct"), code="P0172", seen=_trim_is_far, seen_s=30,
    ),
    Kind(
        "dpf_blocked", "diesel", (1, 1), detail("soot_to_pct", 90.0, 134.0), apply=_fill_filter,
        mend=_empty_filter, code="P2463", seen_s=60,
        seen=lambda scene, fault, _: bool(scene.machine.state.soot_pct[fault.vehicle] > BEGINS_PCT + 10),
    ),
    Kind(
        "transmission_slip", "gears", (60, 300), detail("slip", 0.08, 0.15),
        apply=_by_level("clutch_slip", "slip"), code="P0730", seen=_slips, seen_s=5,
    ),
    Kind(
        "coolant_sensor_stuck", "engine", (1, 1), lambda _severity, _rng: {"signal": "coolant_temp_c"},
        apply=_freeze_reading, lasts_s=(600, 2400), code="P0116", seen_s=300,
        seen=lambda scene, fault, _: scene.running(fault),
    ),
)  # fmt: skip


def _rests_low(scene: Scene, fault: Fault, _since_s: float) -> bool:
    return bool(scene.fleet.state.parked[fault.vehicle]) and scene.volts(fault) < 12.2


def _charge_up(scene: Scene, fault: Fault) -> None:
    scene.machine.state.soc_12v[fault.vehicle] = 0.85


def _runaway(severity: float, _rng: np.random.Generator) -> Details:
    return {"heating_k_s": spread(1.8, 6.0, severity), "voltage_lost": spread(0.27, 0.6, severity)}


def _heat_up(scene: Scene, fault: Fault, level: float, before: float) -> None:
    """A slow incubation, then heat, cells that fail, and a vehicle that rolls out."""
    defects, i = scene.machine.defects, fault.vehicle
    heating = 1.0 if level >= STOPS_AT else 0.02 * (level > 0)
    dead = float(np.clip((level - STOPS_AT) / (1 - STOPS_AT), 0.0, 1.0))
    defects.cell_heating_k_s[i] = fault.details["heating_k_s"] * heating
    defects.cells_dead[i] = fault.details["voltage_lost"] * dead
    if before < STOPS_AT <= level:
        scene.fleet.break_down(i)


def _burns(scene: Scene, fault: Fault, _since_s: float) -> bool:
    machine, i = scene.machine, fault.vehicle
    return bool(machine.state.cell_c[i] + machine.runaway_k[i] > HOT_CELL_C)


def _flicker(_severity: float, rng: np.random.Generator) -> Details:
    return {
        "code": FLICKERING[int(rng.integers(0, len(FLICKERING)))],
        "on_s": int(rng.integers(15, 46)),
        "off_s": int(rng.integers(15, 61)),
    }


def _flickers(_scene: Scene, fault: Fault, since_s: float) -> bool:
    on_s, off_s = fault.details["on_s"], fault.details["off_s"]
    return bool(since_s % (on_s + off_s) < on_s)


ELECTRICS = (
    Kind(
        "weak_battery", "engine", (20, 60), detail("capacity_lost", 0.85, 1.0),
        apply=_by_level("battery_weak", "capacity_lost"), code="P0562", seen=_rests_low, seen_s=2,
    ),
    Kind(
        "alternator", "engine", (10, 60), detail("output_lost", 0.8, 1.0),
        apply=_by_level("charge_lost", "output_lost"), mend=_charge_up, code="P0622", seen_s=60,
        seen=lambda scene, fault, _: scene.running(fault) and scene.volts(fault) < 13.0,
    ),
    Kind(
        "overcharge", "engine", (5, 60), detail("above_v", 1.5, 2.8),
        apply=_by_level("overcharge_v", "above_v"), code="P0563", seen_s=10,
        seen=lambda scene, fault, _: scene.running(fault) and scene.volts(fault) > 15.0,
    ),
    Kind(
        "cell_imbalance", "pack", (300, 900), detail("apart_mv", 45.0, 130.0),
        apply=_by_level("cell_apart_v", "apart_mv", divisor=1000), code="P0A80", seen_s=60,
        seen=lambda scene, fault, _: bool(scene.machine.defects.cell_apart_v[fault.vehicle] > 0.06),
    ),
    Kind(
        "thermal_runaway", "pack", (120, 240), _runaway, apply=_heat_up, for_good=True, code="P0A7E",
        seen=_burns, seen_s=1,
    ),
    Kind(
        "intermittent_dtc", "any", (1, 1), _flicker, lasts_s=(330, 900), code="(drawn)", seen=_flickers,
        latched=False,
    ),
)  # fmt: skip


def _slow_leak(severity: float, rng: np.random.Generator) -> Details:
    return {
        "wheel": any_wheel(rng), "missing_kpa": spread(14, 34, severity, 1),
        "kpa_per_day": spread(3.5, 9.0, severity, 1),
    }  # fmt: skip


def _leak(scene: Scene, fault: Fault, level: float, before: float) -> None:
    """Air goes at a rate; a slow leak lost most of it while it grew."""
    machine, what, wheel, i = scene.machine, fault.details, wheel_row(fault), fault.vehicle
    absolute_kpa = float(machine.specs("placard_kpa")[i]) + thermal.STANDARD_KPA
    per_s = what["kpa_per_day"] / 86_400 if "kpa_per_day" in what else what["kpa_per_min"] / 60
    machine.state.tyre_mass[wheel, i] -= (
        what.get("missing_kpa", 0.0) * max(level - before, 0.0) / absolute_kpa
    )
    machine.defects.leak_per_s[wheel, i] = per_s / absolute_kpa * (level > 0)


def _inflate(scene: Scene, fault: Fault) -> None:
    scene.machine.state.tyre_mass[wheel_row(fault), fault.vehicle] = 1.0


def _heat_rim(scene: Scene, fault: Fault, level: float, _before: float) -> None:
    """A rim between cold and its full heat; 0 is no fault."""
    rim_c = scene.machine.ambient_c + level * (fault.details["rim_c"] - scene.machine.ambient_c)
    scene.machine.defects.rim_c[wheel_row(fault), fault.vehicle] = rim_c * (level > 0)


def _caliper(severity: float, rng: np.random.Generator) -> Details:
    return {
        "wheel": any_wheel(rng), "drag_share": spread(*DRAG_SHARE, severity),
        "wear_apart_pct": spread(24, 34, severity, 1),
    }  # fmt: skip


def _drag(scene: Scene, fault: Fault, level: float, before: float) -> None:
    """Drag and heat at one wheel; its pads wear away from those of the other side."""
    machine, wheel, i = scene.machine, wheel_row(fault), fault.vehicle
    force_n = fault.details["drag_share"] * float(machine.specs("mass_kg")[i]) * G
    machine.defects.brake_drag_n[wheel, i] = level * force_n
    disc_c, out = float(machine.state.disc_c[wheel, i]), machine.ambient_c
    machine.defects.rim_c[wheel, i] = (out + RIM_SHARE * (disc_c - out)) * (level > 0)
    worn = machine.state.pad_wear[wheel ^ 1, i] + fault.details["wear_apart_pct"]
    _wear(scene, wheel, i, min(worn, MOST_WEAR_PCT), level, before)


def _wear(scene: Scene, wheel: int, i: int, target_pct: float, level: float, before: float) -> None:
    """Pads go evenly to ``target_pct`` while the level goes from 0 to 1; no way back."""
    wear = scene.machine.state.pad_wear
    if level > before:
        now = float(wear[wheel, i])
        wear[wheel, i] = max(now, now + (target_pct - now) * (level - before) / (1 - before))


def _new_pads(scene: Scene, fault: Fault) -> None:
    for wheel in (wheel_row(fault), wheel_row(fault) ^ 1):
        scene.machine.state.pad_wear[wheel, fault.vehicle] = NEW_PADS_PCT


def _pads(severity: float, rng: np.random.Generator) -> Details:
    return {"wheel": WHEELS[2 * int(rng.integers(0, 2))], "wear_pct": spread(82, 99, severity)}


def _wear_axle(scene: Scene, fault: Fault, level: float, before: float) -> None:
    """Both pads of the axle that ``wheel`` belongs to."""
    for wheel in (wheel_row(fault), wheel_row(fault) ^ 1):
        _wear(scene, wheel, fault.vehicle, fault.details["wear_pct"], level, before)


CHASSIS = (
    Kind("slow_leak", "any", (120, 180), _slow_leak, apply=_leak, mend=_inflate, least_s=110),
    Kind(
        "rapid_leak", "any", (1, 1),
        lambda severity, rng: {"wheel": any_wheel(rng), "kpa_per_min": spread(26, 65, severity, 1)},
        apply=_leak, mend=_inflate,
    ),
    Kind(
        "hot_tyre", "any", (30, 120),
        lambda severity, rng: {"wheel": any_wheel(rng), "rim_c": spread(170.0, 210.0, severity)},
        apply=_heat_rim,
    ),
    Kind("sticking_caliper", "any", (300, 900), _caliper, apply=_drag, mend=_new_pads, keeps_on=True),
    Kind("worn_pads", "any", (300, 900), _pads, apply=_wear_axle, mend=_new_pads),
)  # fmt: skip

KINDS: dict[str, Kind] = {kind.name: kind for kind in (*ENGINE, *ELECTRICS, *CHASSIS, *road.KINDS)}


def markdown_table() -> str:
    """The README's table of faults: who can have each, what changes, how far, which rule finds it."""
    lines = Path(__file__).with_name("README.md").read_text().splitlines()
    begin = next(k for k, line in enumerate(lines) if line.startswith("| fault | who |"))
    return "\n".join(takewhile(lambda line: line.startswith("|"), lines[begin:]))
