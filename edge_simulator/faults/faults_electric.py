"""Faults of the 12 V system, of the traction battery, and of a control unit that cannot make up its mind."""

from __future__ import annotations

import numpy as np

from edge_simulator.faults.fault_kind import Details, Fault, Kind, Scene, ignition, running, spread

STOPS_AT = 0.7
"""Level from which on a runaway heats in earnest."""
HOT_CELL_C = 60.0
FLICKERING = ("U0121", "U0155", "C0035", "C0040")
"""Codes that come and go in any vehicle: contact with brakes or dashboard lost, wheel speed sensors."""


def _battery(severity: float, _rng: np.random.Generator) -> Details:
    return {"capacity_lost": spread(0.85, 1.0, severity)}


def _weaken(scene: Scene, fault: Fault, level: float, _before: float) -> None:
    scene.machine.defects.battery_weak[fault.vehicle] = level * fault.details["capacity_lost"]


def _volts(scene: Scene, fault: Fault) -> float:
    only = slice(fault.vehicle, fault.vehicle + 1)
    return float(scene.machine.battery_v(~scene.fleet.state.parked[only], only)[0])


def _rests_low(scene: Scene, fault: Fault, _since_s: float) -> bool:
    return not ignition(scene, fault) and _volts(scene, fault) < 12.2


def _alternator(severity: float, _rng: np.random.Generator) -> Details:
    return {"output_lost": spread(0.8, 1.0, severity)}


def _lose_charge(scene: Scene, fault: Fault, level: float, _before: float) -> None:
    scene.machine.defects.charge_lost[fault.vehicle] = level * fault.details["output_lost"]


def _undercharged(scene: Scene, fault: Fault, _since_s: float) -> bool:
    return running(scene, fault) and _volts(scene, fault) < 13.0


def _charge_up(scene: Scene, fault: Fault) -> None:
    scene.machine.state.soc_12v[fault.vehicle] = 0.85


def _regulator(severity: float, _rng: np.random.Generator) -> Details:
    return {"above_v": spread(1.5, 2.8, severity)}


def _overcharge(scene: Scene, fault: Fault, level: float, _before: float) -> None:
    scene.machine.defects.overcharge_v[fault.vehicle] = level * fault.details["above_v"]


def _overcharged(scene: Scene, fault: Fault, _since_s: float) -> bool:
    return running(scene, fault) and _volts(scene, fault) > 15.0


def _cells(severity: float, _rng: np.random.Generator) -> Details:
    return {"apart_mv": spread(45.0, 130.0, severity)}


def _part(scene: Scene, fault: Fault, level: float, _before: float) -> None:
    scene.machine.defects.cell_apart_v[fault.vehicle] = level * fault.details["apart_mv"] / 1000


def _apart(scene: Scene, fault: Fault, _since_s: float) -> bool:
    return bool(scene.machine.defects.cell_apart_v[fault.vehicle] > 0.06)


def _runaway(severity: float, _rng: np.random.Generator) -> Details:
    return {"heating_k_s": spread(1.8, 6.0, severity), "voltage_lost": spread(0.27, 0.6, severity)}


def _heat_up(scene: Scene, fault: Fault, level: float, before: float) -> None:
    """A slow incubation, then heat, cells that fail, and a vehicle that rolls out."""
    broken, i = scene.machine.defects, fault.vehicle
    broken.cell_heating_k_s[i] = fault.details["heating_k_s"] * (
        1.0 if level >= STOPS_AT else 0.02 * (level > 0)
    )
    broken.cells_dead[i] = fault.details["voltage_lost"] * float(
        np.clip((level - STOPS_AT) / (1 - STOPS_AT), 0.0, 1.0)
    )
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


KINDS = (
    Kind(
        "weak_battery", "engine", (20, 60), _battery, apply=_weaken, code="P0562", seen=_rests_low, seen_s=2,
        changes="capacity of the 12 V battery", law="linear over 20-60 s; shows at rest and when starting",
        severity="85-100 % of the capacity lost",
        rule="at rest < 12.2 warn, < 12.05 critical; crank minimum < 9.6",
    ),
    Kind(
        "alternator", "engine", (10, 60), _alternator, apply=_lose_charge, mend=_charge_up, code="P0622",
        seen=_undercharged, seen_s=60, changes="alternator's output; the 12 V battery drains",
        law="linear over 10-60 s, then empty in an hour or two", severity="80-100 % of the output lost",
        rule="running < 13.0 V for 60 s",
    ),
    Kind(
        "overcharge", "engine", (5, 60), _regulator, apply=_overcharge, code="P0563", seen=_overcharged,
        seen_s=10, changes="regulator's voltage", law="linear over 5-60 s", severity="1.5-2.8 V too much",
        rule="running > 15.0 V for 10 s",
    ),
    Kind(
        "cell_imbalance", "pack", (300, 900), _cells, apply=_part, code="P0A80", seen=_apart, seen_s=60,
        changes="voltage of the weakest cell", law="linear over 5-15 min (time-lapse)",
        severity="45-130 mV apart",
        rule="at rest > 30 mV watch, > 60 warn, > 100 act",
    ),
    Kind(
        "thermal_runaway", "pack", (120, 240), _runaway, apply=_heat_up, for_good=True,
        code="P0A7E", seen=_burns, seen_s=1,
        changes="a cell heats itself; voltage breaks down; the vehicle stops",
        law="70 % of 2-4 min incubation, then 1.8-6 K/s",
        severity="rate of heating and 27-60 % of the voltage",
        rule="dT/dt >= 1 C/s for 3 s and (voltage drop > 25 % or T >= 60 C)",
    ),
    Kind(
        "intermittent_dtc", "any", (1, 1), _flicker, lasts_s=(330, 900), code="(drawn)", seen=_flickers,
        latched=False, changes="nothing but the code", law="on 15-45 s, off 15-60 s, for 5-15 min",
        severity="none", rule="the same code comes at least 3 times",
    ),
)  # fmt: skip
