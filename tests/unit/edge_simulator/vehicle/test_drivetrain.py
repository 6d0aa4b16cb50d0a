"""Energy: what goes in comes out, whatever is driven; hybrids keep their charge, others take it back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_simulator.geo import G_MPS2, Floats
from edge_simulator.motion import dynamics
from edge_simulator.vehicle import drivetrain
from edge_simulator.vehicle.machine import Machine
from edge_simulator.vehicle.vehicles import MODELS
from load_tests.cycles import CYCLES, Ride, follow, machine_for

pytestmark = pytest.mark.slow

H_S = 0.1
UDDS = CYCLES[0].at_10_hz()
HYBRID = [m.name for m in MODELS].index("sedan-hybrid-2.4")
COLUMNS = ("rpm", "wheel_w", "engine_w", "brake_w", "fuel_w", "pack_a", "pack_v", "soc", "gear")


@dataclass(frozen=True, slots=True)
class Log:
    """A drive of one vehicle of each model: [steps, models]."""

    machine: Machine
    v: Floats
    state: dict[str, Floats]


def record(v_mps: Floats, slope: Floats, machine: Machine | None = None) -> Log:
    """Drive all models along a speed and a slope."""
    machine = machine or machine_for(MODELS)
    ride, rows, speeds = Ride.standing(len(MODELS)), [], [np.zeros(len(MODELS))]
    steps = follow(machine, ride, v_mps)
    for grade in slope:
        ride.slope = np.full(len(MODELS), grade)
        next(steps)
        rows.append([np.array(getattr(machine.state, name), dtype=float) for name in COLUMNS])
        speeds.append(ride.v)
    values = np.array(rows).transpose(1, 0, 2)
    return Log(machine, np.array(speeds), dict(zip(COLUMNS, values, strict=True)))


@pytest.fixture(scope="module")
def udds() -> Log:
    """All models along UDDS on the level, warm."""
    return record(UDDS, np.zeros(len(UDDS)))


def wild(seed: int, seconds: int) -> tuple[Floats, Floats]:
    """A speed and a slope nobody would drive: random targets, hard braking, hills of 8 percent."""
    rng = np.random.default_rng(seed)
    knots = np.where(rng.random(seconds // 5 + 2) < 0.2, 0.0, rng.uniform(0, 40, seconds // 5 + 2))
    wanted = np.interp(np.arange(seconds * 10) / 50, np.arange(len(knots)), knots)
    return wanted, np.repeat(rng.uniform(-0.08, 0.08, seconds), 10)


def check_power_balance(log: Log) -> None:
    """At every step: fuel and cells give what wheels, friction, auxiliaries and losses take."""
    s, sp = log.state, log.machine.specs
    eta, w = sp("driveline"), s["wheel_w"]
    friction = log.machine.drivetrain.friction_per_rpm * s["rpm"]
    belt = np.where(sp("motor_kw") > 0, 0.0, 1000 * sp("aux_kw"))
    to_wheels = np.maximum(w, 0.0) / eta
    from_wheels = (np.maximum(-w, 0.0) - s["brake_w"]) * eta
    shaft = to_wheels - from_wheels
    indicated = s["fuel_w"] * log.machine.drivetrain.efficiency
    packed = sp("motor_kw") > 0
    burning = (s["rpm"] > 0) & ~packed
    assert np.allclose((indicated - friction - belt)[burning], shaft[burning], atol=1e-6)
    engine = np.where(s["rpm"] > 0, indicated - friction, 0.0)
    motor = shaft - engine
    cells = np.maximum(motor / drivetrain.MOTOR, motor * drivetrain.MOTOR) + 1000 * sp("aux_kw")
    drawn = s["pack_a"] * s["pack_v"]
    assert np.allclose(drawn[:, packed], cells[:, packed], atol=1e-4)


def test_power_balances_at_every_step_of_a_cycle(udds: Log) -> None:
    check_power_balance(udds)


@settings(max_examples=12)
@given(st.integers(0, 10_000))
def test_power_balances_however_wildly_one_drives(seed: int) -> None:
    log = record(*wild(seed, 60))
    check_power_balance(log)
    s = log.state
    assert all(np.isfinite(values).all() for values in s.values())
    assert (s["fuel_w"] >= 0).all()
    assert (s["brake_w"] >= 0).all()
    assert (s["soc"] >= 0).all()
    assert (s["soc"] <= 1).all()
    assert (s["rpm"] <= log.machine.specs("top_rpm")).all()


def test_the_work_at_the_wheels_is_kinetic_and_potential_energy_drag_and_rolling() -> None:
    v_mps, slope = wild(3, 120)
    log = record(v_mps, slope)
    sp = log.machine.specs
    mean = (log.v[1:] + log.v[:-1]) / 2
    kinetic = 0.5 * 1.03 * sp("mass_kg") * (log.v[-1] ** 2 - log.v[0] ** 2)
    weight = sp("mass_kg") * G_MPS2
    hills = (weight * slope[:, None] * mean).sum(axis=0) * H_S
    rolling = (weight * sp("rolling") * mean).sum(axis=0) * H_S
    drag = (0.5 * dynamics.AIR_KG_M3 * sp("drag_m2") * mean**3).sum(axis=0) * H_S
    work = log.state["wheel_w"].sum(axis=0) * H_S
    assert np.allclose(work, kinetic + hills + rolling + drag, rtol=1e-9)


def test_charge_is_the_integral_of_current(udds: Log) -> None:
    sp = udds.machine.specs
    for k in np.flatnonzero(sp("motor_kw") > 0):
        drawn_c = udds.state["pack_a"][10:, k].sum() * H_S
        fallen = udds.state["soc"][9, k] - udds.state["soc"][-1, k]
        assert fallen * 3.6e6 * sp("pack_kwh")[k] / sp("pack_v")[k] == pytest.approx(drawn_c, rel=1e-9)


def test_a_hybrid_keeps_its_charge_within_a_band_in_town(udds: Log) -> None:
    soc = udds.state["soc"][:, HYBRID]
    assert soc.min() > 0.45
    assert soc.max() < 0.75
    assert soc[-1] == pytest.approx(0.60, abs=0.08)
    low = machine_for(MODELS)
    low.state.soc[HYBRID] = 0.40
    low.drivetrain.settle(low.state, low.charging)
    again = record(UDDS[:6000], np.zeros(6000), low)
    assert again.state["soc"][-1, HYBRID] > 0.52


def test_a_hybrids_engine_is_off_at_standstill_and_restarts_for_power(udds: Log) -> None:
    rpm, v = udds.state["rpm"][:, HYBRID], udds.v[1:, HYBRID]
    long_standing = np.convolve(v < 0.01, np.ones(50), "full")[: len(v)] == 50
    assert (rpm[long_standing] == 0).all()
    starts = int(((rpm[1:] > 0) & (rpm[:-1] == 0)).sum())
    assert 10 < starts < 60
    assert (rpm[udds.state["wheel_w"][:, HYBRID] > 30_000] > 0).all()


def test_a_cold_hybrid_runs_its_engine_at_standstill_until_it_is_warm() -> None:
    machine = machine_for(MODELS, 5.0, cold=True)
    ride = Ride.standing(len(MODELS))
    running = [bool(machine.state.rpm[HYBRID] > 0) for _ in follow(machine, ride, np.zeros(6000))]
    assert all(running[:600])
    assert not running[-1]
    assert machine.state.coolant_c[HYBRID] > 40


def test_braking_charges_an_electric_car_and_spares_its_brakes(udds: Log) -> None:
    spent = udds.state["brake_w"].sum(axis=0) * H_S
    per_kg = spent / udds.machine.specs("mass_kg")
    back = -np.minimum(udds.state["pack_a"] * udds.state["pack_v"], 0).sum(axis=0) * H_S
    for k in np.flatnonzero(udds.machine.electric):
        assert per_kg[k] < 0.5 * per_kg[0]
        assert back[k] > 3 * spent[k]


def test_a_full_battery_takes_nothing_and_the_brakes_do_it_all() -> None:
    machine = machine_for(MODELS)
    machine.state.soc[:] = 1.0
    machine.drivetrain.settle(machine.state, machine.charging)
    log = record(np.concatenate([np.linspace(0, 20, 200), np.linspace(20, 0, 100)]), np.zeros(300), machine)
    braking = log.state["wheel_w"] < -1000
    for k in np.flatnonzero(machine.electric):
        assert (log.state["pack_a"][braking[:, k], k] > 0).all()
        assert np.allclose(
            log.state["brake_w"][braking[:, k], k], -log.state["wheel_w"][braking[:, k], k], rtol=0.05
        )


def test_a_parked_electric_car_charges_at_its_wall_box_and_only_there() -> None:
    machine, ride = machine_for(MODELS), Ride.standing(len(MODELS))
    ride.on[:] = False
    machine.state.soc[:] = 0.5
    machine.charging[:] = True
    for _ in follow(machine, ride, np.zeros(6000)):
        pass
    gained_kwh = (machine.state.soc - 0.5) * machine.specs("pack_kwh")
    electric = np.flatnonzero(machine.electric)
    assert gained_kwh[electric] == pytest.approx([6.6 / 6, 11 / 6], rel=0.08)
    assert np.allclose(np.delete(gained_kwh, electric), 0.0)
    ride.on[:] = True
    before = machine.state.soc.copy()
    for _ in follow(machine, ride, np.zeros(600)):
        pass
    assert (machine.state.soc[electric] < before[electric]).all()
