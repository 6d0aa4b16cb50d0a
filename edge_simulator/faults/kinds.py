"""What a fault is made of, and all kinds by name: engine, electrics, tyres, brakes; crashes, knocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from edge_simulator.edr import pulse
from edge_simulator.edr.pulse import Pulse
from edge_simulator.geo import G_MPS2
from edge_simulator.motion.fleet import Fleet
from edge_simulator.vehicle import thermal
from edge_simulator.vehicle.machine import Machine
from infra.contract.signals import WHEELS

Details = dict[str, Any]
Needs = Literal["any", "engine", "petrol", "diesel", "gears", "pack"]
Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Fault:
    """One planned fault, all of it decided before it begins; times count from the run's start.

    ``severity`` 0..1; the cause grows from ``onset_ms`` to ``full_ms`` and is gone at ``end_ms``
    (None: stays).
    """

    name: str
    vehicle: int
    onset_ms: int
    severity: float
    details: Details
    full_ms: int
    end_ms: int | None = None

    def level(self, now_ms: int) -> float:
        """How much of the full effect there is, 0..1."""
        if now_ms >= self.full_ms:
            return 1.0
        return max(0.0, (now_ms - self.onset_ms) / (self.full_ms - self.onset_ms))


Draw = Callable[[float, np.random.Generator], Details]


class Kind(NamedTuple):
    """A kind of fault, and the functions that make it work; what people read of it is the README's table."""

    name: str
    needs: Needs
    takes_s: Span  # from onset to full effect, drawn from this span
    draw: Draw  # the fault's details from its severity
    apply: Callable[[Case], None] | None = None  # puts it at its level; about once a second while it grows
    code: str | None = None
    seen: Callable[[Case], bool | np.bool_] | None = None  # whether the vehicle's own diagnosis notices it
    seen_s: float = 0.0  # the code is set when the diagnosis has noticed it for so long
    latched: bool = True  # a code stays until the repair; otherwise it goes when nothing is noticed
    mend: Callable[[Case], None] | None = None  # what a repair does beyond taking the cause away
    impact: Callable[[Case, np.random.Generator], Pulse] | None = None
    """The pulse that the recorder has to judge, of what hits the vehicle."""
    lasts_s: Span | None = None
    """After full effect it ends by itself within this span; None: it stays, unless it came at a rate."""
    on_road: bool = False  # happens only to a vehicle that drives: another one takes it over if need be
    keeps_on: bool = False  # ``apply`` is called each second until the end, not only while the fault grows
    for_good: bool = False  # no repair: it never ends
    least_s: float = 0.0  # it never grows faster than this, however short the run


class Case:
    """A fault under way: its vehicle, its level (0..1), and what the vehicle's own diagnosis knows of it."""

    def __init__(self, fault: Fault, kind: Kind, fleet: Fleet, machine: Machine) -> None:
        self.fault, self.kind, self.details = fault, kind, fault.details
        self.fleet, self.machine = fleet, machine
        self.state, self.defects = machine.state, machine.defects
        self.i = fault.vehicle  # its place in arrays [n]
        self.wheel = WHEELS.index(self.details.get("wheel", WHEELS[0]))  # row in arrays [4, n]
        self.at = (self.wheel, self.i) if "wheel" in self.details else (self.i,)
        self.level = self.before = 0.0  # now, and before that
        self.since_s = 0.0  # time since the onset
        self.noticed_ms: int | None = None
        self.coded = False
        self.reported = False  # its code was set once, and is in the ground truth

    @property
    def running(self) -> bool:
        return bool(self.state.rpm[self.i] > 0)

    @property
    def ignition_on(self) -> bool:
        return bool(self.fleet.ignition_on()[self.i])

    @property
    def volts(self) -> float:
        return float(self.machine.battery_v(np.array([self.ignition_on]), slice(self.i, self.i + 1))[0])


LOW_OIL_KPA = (69.0, 207.0)  # floor of the oil pressure at idle and at rated speed (Cummins ISB)
FLOOR_RPM = (700.0, 2500.0)
STOPS_AT = 0.7  # level from which on a runaway heats in earnest
FLICKERING = ("U0121", "U0155", "C0035", "C0040")
"""Codes that come and go in any vehicle: contact with brakes or dashboard lost, wheel speed sensors."""
RIM_SHARE = 0.4  # of a dragging disc's heat over ambient, what its rim has (eng.).
MOST_WEAR_PCT = 99.5
NEW_PADS_PCT = 3.0
FRONTAL, FRONTAL_SHARES = ("car_to_car", "barrier", "pole"), (0.6, 0.2, 0.2)
"""Crashes that take speed off, which is all that the fleet's motion can show of one (eng. shares)."""
FIRST_SHARE = (0.25, 0.4)  # what the first of two hits in a row takes of the speed (severity 0..1)
AGAIN_MS = (200, 500)

Detail = Callable[[float, np.random.Generator], Any]


def _details(**columns: Detail) -> Draw:
    return lambda severity, rng: {name: column(severity, rng) for name, column in columns.items()}


def _grows(low: float, high: float, decimals: int = 3) -> Detail:
    """A figure that grows with the severity, rounded to what is worth reporting."""
    return lambda severity, _: round(low + (high - low) * severity, decimals)


def _whole(low: int, stop: int) -> Detail:
    """A whole number, ``stop`` not among them, whatever the severity."""
    return lambda _, rng: int(rng.integers(low, stop))


def _one_of(names: Sequence[str]) -> Detail:
    return lambda _, rng: names[int(rng.integers(0, len(names)))]


_any_wheel = _one_of(WHEELS)


def _defect(
    defect: str, detail: str, low: float, high: float, divisor: float = 1.0
) -> tuple[Draw, Callable[[Case], None]]:
    """A detail that grows with the severity, and a defect in proportion to it and to the level."""

    def apply(case: Case) -> None:
        getattr(case.defects, defect)[case.i] = case.level * case.details[detail] / divisor

    return _details(**{detail: _grows(low, high)}), apply


def _set(quantity: str, value: float) -> Callable[[Case], None]:
    def mend(case: Case) -> None:
        getattr(case.state, quantity)[case.at] = value

    return mend


def _stays_cold(case: Case) -> bool:
    warmed_up = case.fleet.t_s - case.fleet.state.started_s[case.i] > 900.0
    return case.running and bool(warmed_up & (case.state.coolant_c[case.i] < 75.0))


def _oil_is_low(case: Case) -> bool:
    """Below the least pressure allowed at this engine speed, linear between idle and rated."""
    now, only = case.state, slice(case.i, case.i + 1)
    kpa = thermal.oil_pressure_kpa(now.rpm[only], now.oil_c[only], case.defects.oil_lost[only])[0]
    return case.running and bool(kpa < np.interp(now.rpm[case.i], FLOOR_RPM, LOW_OIL_KPA))


def _trim_is_far(case: Case) -> bool:
    """The learned trim has taken over most of it."""
    return case.running and bool(abs(case.machine.trim_learned[case.i]) > 10.0)


def _fill_filter(case: Case) -> None:
    case.defects.soot_to_pct[case.i] = case.details["soot_to_pct"] if case.level > 0 else 0.0


def _slips(case: Case) -> bool:
    loaded = case.state.load_pct[case.i] > 40 and case.state.gear[case.i] > 0
    return bool(loaded and case.defects.clutch_slip[case.i] > 0.06)


def _freeze_reading(case: Case) -> None:
    held_c = case.defects.coolant_held_c
    if case.level <= 0:
        held_c[case.i] = np.nan
    elif np.isnan(held_c[case.i]):
        held_c[case.i] = case.state.coolant_c[case.i]


def _flickers(case: Case) -> bool:
    on_s, off_s = case.details["on_s"], case.details["off_s"]
    # Without the ignition control units sleep, and none would notice.
    return bool(case.ignition_on and case.since_s % (on_s + off_s) < on_s)


def _heat_up(case: Case) -> None:
    """A slow incubation, then heat, cells that fail, and a vehicle that rolls out."""
    heating = 1.0 if case.level >= STOPS_AT else 0.02 * (case.level > 0)
    dead = float(np.clip((case.level - STOPS_AT) / (1 - STOPS_AT), 0.0, 1.0))
    case.defects.cell_heating_k_s[case.i] = case.details["heating_k_s"] * heating
    case.defects.cells_dead[case.i] = case.details["voltage_lost"] * dead
    if case.before < STOPS_AT <= case.level:
        case.fleet.break_down(case.i)


def _leak(case: Case) -> None:
    """Air goes at a rate; a slow leak lost most of it while it grew."""
    what = case.details
    absolute_kpa = float(case.machine.specs("placard_kpa")[case.i]) + thermal.STANDARD_KPA
    per_s = what["kpa_per_day"] / 86_400 if "kpa_per_day" in what else what["kpa_per_min"] / 60
    lost_kpa = what.get("missing_kpa", 0.0) * max(case.level - case.before, 0.0)
    case.state.tyre_mass[case.at] -= lost_kpa / absolute_kpa
    case.defects.leak_per_s[case.at] = per_s / absolute_kpa * (case.level > 0)


def _heat_rim(case: Case) -> None:
    """A rim between cold and its full heat; 0 is no fault."""
    out = case.machine.ambient_c
    rim_c = out + case.level * (case.details["rim_c"] - out)
    case.defects.rim_c[case.at] = rim_c * (case.level > 0)


def _drag(case: Case) -> None:
    """Drag and heat at one wheel; its pads wear away from those of the other side."""
    force_n = case.details["drag_share"] * float(case.machine.specs("mass_kg")[case.i]) * G_MPS2
    case.defects.brake_drag_n[case.at] = case.level * force_n
    out, disc_c = case.machine.ambient_c, float(case.state.disc_c[case.at])
    case.defects.rim_c[case.at] = (out + RIM_SHARE * (disc_c - out)) * (case.level > 0)
    worn = case.state.pad_wear[case.wheel ^ 1, case.i] + case.details["wear_apart_pct"]
    _wear(case, case.wheel, min(worn, MOST_WEAR_PCT))


def _wear(case: Case, wheel: int, target_pct: float) -> None:
    """Pads go evenly to ``target_pct`` while the level goes from 0 to 1; no way back."""
    if case.level > case.before:
        now = float(case.state.pad_wear[wheel, case.i])
        worn = now + (target_pct - now) * (case.level - case.before) / (1 - case.before)
        case.state.pad_wear[wheel, case.i] = max(now, worn)


def _wear_axle(case: Case) -> None:
    for wheel in (case.wheel, case.wheel ^ 1):
        _wear(case, wheel, case.details["wear_pct"])


def _new_pads(case: Case) -> None:
    case.state.pad_wear[[case.wheel, case.wheel ^ 1], case.i] = NEW_PADS_PCT


def _crash(severity: float, rng: np.random.Generator) -> Details:
    kind = FRONTAL[int(rng.choice(len(FRONTAL), p=FRONTAL_SHARES))]
    low, high = pulse.KINDS[kind].width_ms
    return {"type": kind, "share_of_speed": severity, "width_ms": int(rng.integers(low, high + 1))}


def _multi_crash(severity: float, rng: np.random.Generator) -> Details:
    again_ms = int(rng.integers(*AGAIN_MS))
    return _crash(_grows(*FIRST_SHARE)(severity, rng), rng) | {"again_after_ms": again_ms}


def _collide(case: Case, rng: np.random.Generator) -> pulse.Pulse:
    motion, details = case.fleet.state, case.details
    lost_mps = float(motion.v[case.i]) * details["share_of_speed"]
    motion.crashed[case.i] = True
    motion.impact_mps[case.i] = lost_mps
    return pulse.crash(pulse.KINDS[details["type"]], lost_mps * 3.6, details["width_ms"], rng)


def _knock(case: Case, _rng: np.random.Generator) -> pulse.Pulse:
    knock = pulse.kerb(case.details["peak_g"], case.details["width_ms"])
    if "wheel" not in case.details:
        return pulse.Pulse(knock, 0.2 * knock)
    side = -1.0 if case.details["wheel"].endswith("l") else 1.0
    return pulse.Pulse(0.3 * knock, side * knock)


def _brake(case: Case) -> None:
    """The driver brakes as hard as it goes; speed and all that follows from it are the fleet's."""
    if case.level > 0:
        case.fleet.state.emergency_until[case.i] = case.fleet.t_s + case.details["lasts_s"]
        case.fleet.state.emergency_mps2[case.i] = case.details["decel_mps2"]


_ALL = (
    # engine and gears
    Kind("overheating", "engine", (60, 240), *_defect("cooling_blocked", "cooling_blocked", 0.94, 1.0),
         "P0217", lambda case: case.state.coolant_c[case.i] > 112.0, 5),
    Kind("thermostat_open", "engine", (5, 20), *_defect("thermostat_open", "stuck_open", 0.65, 1.0), "P0128",
         _stays_cold, 30),
    Kind("low_oil_pressure", "engine", (60, 180), *_defect("oil_lost", "pressure_lost", 0.65, 0.92), "P0524",
         _oil_is_low, 3),
    Kind("lean_mixture", "petrol", (20, 90), *_defect("mixture_pct", "mixture_pct", 17.0, 31.0), "P0171",
         _trim_is_far, 30),
    Kind("rich_mixture", "petrol", (20, 90), *_defect("mixture_pct", "mixture_pct", -17.0, -31.0), "P0172",
         _trim_is_far, 30),
    Kind("dpf_blocked", "diesel", (1, 1), _details(soot_to_pct=_grows(90.0, 134.0)), _fill_filter, "P2463",
         lambda case: case.state.soot_pct[case.i] > thermal.BEGINS_PCT + 10, 60, mend=_set("soot_pct", 5.0)),
    Kind("transmission_slip", "gears", (60, 300), *_defect("clutch_slip", "slip", 0.08, 0.15), "P0730",
         _slips, 5),
    Kind("coolant_sensor_stuck", "engine", (1, 1), _details(signal=lambda *_: "coolant_temp_c"),
         _freeze_reading, "P0116", lambda case: case.running, 300, lasts_s=(600, 2400)),
    # electrics
    Kind("weak_battery", "engine", (20, 60), *_defect("battery_weak", "capacity_lost", 0.85, 1.0), "P0562",
         lambda case: not case.ignition_on and case.volts < 12.2, 2),
    Kind("alternator", "engine", (10, 60), *_defect("charge_lost", "output_lost", 0.8, 1.0), "P0622",
         lambda case: case.running and case.volts < 13.0, 60, mend=_set("soc_12v", 0.85)),
    Kind("overcharge", "engine", (5, 60), *_defect("overcharge_v", "above_v", 1.5, 2.8), "P0563",
         lambda case: case.running and case.volts > 15.0, 10),
    Kind("cell_imbalance", "pack", (300, 900), *_defect("cell_apart_v", "apart_mv", 45.0, 130.0, 1000),
         "P0A80", lambda case: case.defects.cell_apart_v[case.i] > 0.06, 60),
    Kind("thermal_runaway", "pack", (120, 240),
         _details(heating_k_s=_grows(1.8, 6.0), voltage_lost=_grows(0.27, 0.6)), _heat_up, "P0A7E",
         lambda case: case.state.cell_c[case.i] + case.machine.runaway_k[case.i] > 60.0, 1, for_good=True),
    Kind("intermittent_dtc", "any", (1, 1),
         _details(code=_one_of(FLICKERING), on_s=_whole(15, 46), off_s=_whole(15, 61)), code="(drawn)",
         seen=_flickers, latched=False, lasts_s=(330, 900)),
    # tyres and brakes
    Kind("slow_leak", "any", (120, 180),
         _details(wheel=_any_wheel, missing_kpa=_grows(14, 34, 1), kpa_per_day=_grows(3.5, 9.0, 1)),
         _leak, mend=_set("tyre_mass", 1.0), least_s=110),
    Kind("rapid_leak", "any", (1, 1), _details(wheel=_any_wheel, kpa_per_min=_grows(26, 65, 1)), _leak,
         mend=_set("tyre_mass", 1.0)),
    Kind("hot_tyre", "any", (30, 120), _details(wheel=_any_wheel, rim_c=_grows(170.0, 210.0)), _heat_rim),
    Kind("sticking_caliper", "any", (300, 900),  # the drag is a share of the vehicle's weight
         _details(wheel=_any_wheel, drag_share=_grows(0.005, 0.015), wear_apart_pct=_grows(24, 34, 1)),
         _drag, mend=_new_pads, keeps_on=True),
    Kind("worn_pads", "any", (300, 900), _details(wheel=_one_of(WHEELS[::2]), wear_pct=_grows(82, 99)),
         _wear_axle, mend=_new_pads),
    # the road
    Kind("crash", "any", (0, 0), _crash, impact=_collide, on_road=True, for_good=True),
    Kind("multi_crash", "any", (0, 0), _multi_crash, impact=_collide, on_road=True, for_good=True),
    Kind("pothole", "any", (0, 0), _details(peak_g=_grows(2, 6, 1), width_ms=_whole(8, 21)), impact=_knock,
         lasts_s=(0, 0), on_road=True),
    Kind("kerb_strike", "any", (0, 0),
         _details(wheel=_any_wheel, peak_g=_grows(2, 6, 1), width_ms=_whole(5, 13)), impact=_knock,
         lasts_s=(0, 0), on_road=True),
    Kind("emergency_braking", "any", (0, 0), _details(
             decel_mps2=_grows(-6.5, -8.8), lasts_s=lambda _, rng: round(float(rng.uniform(1.8, 3.2)), 1)),
         _brake, lasts_s=(3, 3), on_road=True),
)  # fmt: skip
KINDS: dict[str, Kind] = {kind.name: kind for kind in _ALL}


def markdown_table() -> str:
    """The README's table of faults: who can have each, what changes, how far, which rule finds it."""
    lines = Path(__file__).with_name("README.md").read_text().splitlines()
    begin = next(k for k, line in enumerate(lines) if line.startswith("| fault | who |"))
    return "\n".join(takewhile(lambda line: line.startswith("|"), lines[begin:]))
