"""Faults of the engine: cooling, oil, mixture, filter, gearbox, and the sensor that tells of the cooling."""

from __future__ import annotations

import numpy as np

from edge_simulator.faults.fault_kind import Details, Fault, Kind, Scene, running, spread
from edge_simulator.vehicle import thermal
from edge_simulator.vehicle.exhaust import BEGINS_PCT

HOT_C = 112.0
COLD_C = 75.0
WARMED_UP_S = 900.0
LOW_OIL_KPA = (69.0, 207.0)
"""Floor of the oil pressure at idle and at rated speed (Cummins ISB)."""
FLOOR_RPM = (700.0, 2500.0)


def oil_floor_kpa(rpm: float) -> float:
    """The least oil pressure allowed at an engine speed, linear between idle and rated."""
    return float(np.interp(rpm, FLOOR_RPM, LOW_OIL_KPA))


def _cooling(severity: float, _rng: np.random.Generator) -> Details:
    return {"cooling_blocked": spread(0.94, 1.0, severity)}


def _block(scene: Scene, fault: Fault, level: float, _before: float) -> None:
    scene.machine.defects.cooling_blocked[fault.vehicle] = level * fault.details["cooling_blocked"]


def _is_hot(scene: Scene, fault: Fault, _since_s: float) -> bool:
    return bool(scene.machine.state.coolant_c[fault.vehicle] > HOT_C)


def _thermostat(severity: float, _rng: np.random.Generator) -> Details:
    return {"stuck_open": spread(0.65, 1.0, severity)}


def _stick_open(scene: Scene, fault: Fault, level: float, _before: float) -> None:
    scene.machine.defects.thermostat_open[fault.vehicle] = level * fault.details["stuck_open"]


def _stays_cold(scene: Scene, fault: Fault, _since_s: float) -> bool:
    fleet, i = scene.fleet, fault.vehicle
    warmed_up = fleet.t_s - fleet.state.started_s[i] > WARMED_UP_S
    return running(scene, fault) and bool(warmed_up & (scene.machine.state.coolant_c[i] < COLD_C))


def _oil(severity: float, _rng: np.random.Generator) -> Details:
    return {"pressure_lost": spread(0.65, 0.92, severity)}


def _lose_oil(scene: Scene, fault: Fault, level: float, _before: float) -> None:
    scene.machine.defects.oil_lost[fault.vehicle] = level * fault.details["pressure_lost"]


def _oil_is_low(scene: Scene, fault: Fault, _since_s: float) -> bool:
    now, only = scene.machine.state, slice(fault.vehicle, fault.vehicle + 1)
    lost = scene.machine.defects.oil_lost[only]
    kpa = thermal.oil_pressure_kpa(now.rpm[only], now.oil_c[only], lost)[0]
    return running(scene, fault) and bool(kpa < oil_floor_kpa(now.rpm[fault.vehicle]))


def _lean(severity: float, _rng: np.random.Generator) -> Details:
    return {"mixture_pct": spread(17.0, 31.0, severity)}


def _rich(severity: float, _rng: np.random.Generator) -> Details:
    return {"mixture_pct": -spread(17.0, 31.0, severity)}


def _spoil(scene: Scene, fault: Fault, level: float, _before: float) -> None:
    scene.machine.defects.mixture_pct[fault.vehicle] = level * fault.details["mixture_pct"]


def _trim_is_far(scene: Scene, fault: Fault, _since_s: float) -> bool:
    """The learned trim has taken over most of it."""
    return running(scene, fault) and bool(abs(scene.machine.trim_learned[fault.vehicle]) > 10.0)


def _filter(severity: float, _rng: np.random.Generator) -> Details:
    return {"soot_to_pct": spread(90.0, 134.0, severity)}


def _fill(scene: Scene, fault: Fault, level: float, _before: float) -> None:
    scene.machine.defects.soot_to_pct[fault.vehicle] = fault.details["soot_to_pct"] if level > 0 else 0.0


def _is_full(scene: Scene, fault: Fault, _since_s: float) -> bool:
    return bool(scene.machine.state.soot_pct[fault.vehicle] > BEGINS_PCT + 10)


def _burn_in_workshop(scene: Scene, fault: Fault) -> None:
    scene.machine.state.soot_pct[fault.vehicle] = 5.0


def _gearbox(severity: float, _rng: np.random.Generator) -> Details:
    return {"slip": spread(0.08, 0.15, severity)}


def _slip(scene: Scene, fault: Fault, level: float, _before: float) -> None:
    scene.machine.defects.clutch_slip[fault.vehicle] = level * fault.details["slip"]


def _slips(scene: Scene, fault: Fault, _since_s: float) -> bool:
    machine, i = scene.machine, fault.vehicle
    loaded = bool((machine.state.load_pct[i] > 40) & (machine.state.gear[i] > 0))
    return loaded and bool(machine.defects.clutch_slip[i] > 0.06)


def _sensor(_severity: float, _rng: np.random.Generator) -> Details:
    return {"signal": "coolant_temp_c"}


def _hold(scene: Scene, fault: Fault, level: float, _before: float) -> None:
    machine, i = scene.machine, fault.vehicle
    if level <= 0:
        machine.defects.coolant_held_c[i] = np.nan
    elif np.isnan(machine.defects.coolant_held_c[i]):
        machine.defects.coolant_held_c[i] = machine.state.coolant_c[i]


def _reads_the_same(scene: Scene, fault: Fault, _since_s: float) -> bool:
    return running(scene, fault)


KINDS = (
    Kind(
        "overheating", "engine", (60, 240), _cooling, apply=_block, code="P0217", seen=_is_hot, seen_s=5,
        changes="cooling lost, and coolant with it", law="linear over 1-4 min, then the engine's heat",
        severity="94-100 % of the cooling",
        rule="coolant: car > 105 for 30 s, > 115 for 5 s; heavy > 109, > 114",
    ),
    Kind(
        "thermostat_open", "engine", (5, 20), _thermostat, apply=_stick_open, code="P0128",
        seen=_stays_cold, seen_s=30, changes="thermostat sticks open",
        law="at once; the coolant follows in minutes",
        severity="65-100 % open", rule="coolant < 75 C after 15 min running above 0 C ambient",
    ),
    Kind(
        "low_oil_pressure", "engine", (60, 180), _oil, apply=_lose_oil, code="P0524",
        seen=_oil_is_low, seen_s=3, changes="pressure of the pump", law="linear over 1-3 min",
        severity="65-92 % of the pressure lost", rule="below the floor (69 kPa idle to 207 rated) for 2 s",
    ),
    Kind(
        "lean_mixture", "petrol", (20, 90), _lean, apply=_spoil, code="P0171", seen=_trim_is_far, seen_s=30,
        changes="air that the meter does not see: trims up, MAF down",
        law="linear over 20-90 s; LTFT learns in 2 min",
        severity="17-31 % lean", rule="10-min mean of STFT+LTFT > +10 warn, > +20 fault",
    ),
    Kind(
        "rich_mixture", "petrol", (20, 90), _rich, apply=_spoil, code="P0172", seen=_trim_is_far, seen_s=30,
        changes="meter reads too much air: trims down, MAF up", law="as lean_mixture",
        severity="17-31 % rich", rule="10-min mean of STFT+LTFT < -10 warn, < -20 fault",
    ),
    Kind(
        "dpf_blocked", "diesel", (1, 1), _filter, apply=_fill, mend=_burn_in_workshop, code="P2463",
        seen=_is_full, seen_s=60, changes="regenerations are given up after 40 s; soot and its pressure rise",
        law="0.08 %/s of running (time-lapse)", severity="fills up to 90-134 %",
        rule="soot > 80 warn, > 100 alert, > 120 critical; > 2 incomplete regenerations in 24 h",
    ),
    Kind(
        "transmission_slip", "gears", (60, 300), _gearbox, apply=_slip, code="P0730", seen=_slips, seen_s=5,
        changes="engine speed and losses above 25-40 % load", law="linear over 1-5 min",
        severity="8-15 % slip", rule="steady gear 5 s, load > 40 %: rpm 6 % above the gear's for 5 s",
    ),
    Kind(
        "coolant_sensor_stuck", "engine", (1, 1), _sensor, apply=_hold, lasts_s=(600, 2400), code="P0116",
        seen=_reads_the_same, seen_s=300, changes="the reading of the coolant's temperature freezes",
        law="at once; lets go after 10-40 min", severity="none",
        rule="(not in domain.md) value without any change while running",
    ),
)  # fmt: skip
