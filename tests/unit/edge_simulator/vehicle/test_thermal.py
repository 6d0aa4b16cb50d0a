"""Heat: engines from cold, oil behind them, brake discs on a descent, tyres."""

from __future__ import annotations

import numpy as np
import pytest

from edge_simulator.geo import Floats
from edge_simulator.telemetry.instruments import TYRE_NOISE_KPA
from edge_simulator.vehicle import thermal, vehicles
from edge_simulator.vehicle.machine import Machine
from edge_simulator.vehicle.vehicles import MODELS
from load_tests import cycles
from load_tests.cycles import CYCLES, Ride, follow, machine_for

pytestmark = pytest.mark.slow

CAR = MODELS[:1]
N = len(MODELS)


def run(machine: Machine, ride: Ride, v_mps: Floats) -> None:
    """Follow a speed at 1 Hz to its end."""
    for _ in follow(machine, ride, v_mps, 1.0):
        pass


def test_a_cold_car_warms_by_6_to_9_degrees_a_minute_at_idle() -> None:
    assert 6.0 <= cycles.warm_up_c_per_min(CAR, None)[0] <= 9.0


@pytest.mark.parametrize("cycle", [CYCLES[0], CYCLES[3]], ids=["UDDS", "WLTC-3b"])
def test_a_cold_car_warms_by_7_to_14_degrees_a_minute_of_driving(cycle: cycles.Cycle) -> None:
    assert 7.0 <= cycles.warm_up_c_per_min(CAR, cycle)[0] <= 14.0


def test_oil_lags_behind_coolant_by_about_300_seconds() -> None:
    machine, ride = machine_for(CAR, 20.0, cold=True), Ride.standing(1)
    heat = [
        (machine.state.coolant_c[0], machine.state.oil_c[0])
        for _ in follow(machine, ride, np.full(1200, 14.0), 1.0)
    ]
    coolant, oil = np.array(heat).T
    lag_s = np.argmax(oil > 60) - np.argmax(coolant > 60)
    assert 150 < lag_s < 400
    assert oil[-1] == pytest.approx(coolant[-1] + 6, abs=3)


def test_the_thermostat_holds_a_warm_engine_between_84_and_97_degrees() -> None:
    for v in (0.0, 14.0, 33.0):
        machine = machine_for(MODELS[:3], 30.0)
        run(machine, Ride.standing(3), np.full(900, v))
        assert (machine.state.coolant_c > 83).all()
        assert (machine.state.coolant_c < 97).all()


def test_an_engine_that_is_off_cools_with_its_own_time_constant() -> None:
    machine, ride = machine_for(CAR, 10.0), Ride.standing(1)
    ride.on[:] = False
    run(machine, ride, np.zeros(1800))
    tau_s = 46_000 / 18
    assert machine.state.coolant_c[0] == pytest.approx(10 + 80 * np.exp(-1800 / tau_s), abs=0.2)
    assert machine.state.oil_c[0] == pytest.approx(machine.state.coolant_c[0], abs=10)


def test_how_long_a_vehicle_stood_says_how_cold_it_starts() -> None:
    figures = vehicles.Specs(np.zeros(4, dtype=np.int64))
    soak_s = np.array([0.0, 1800.0, 7200.0, 60_000.0])
    state = Machine(figures, np.random.default_rng(1), -5.0, soak_s).state
    assert state.coolant_c[0] >= 82
    assert list(state.coolant_c) == sorted(state.coolant_c, reverse=True)
    assert state.coolant_c[3] == pytest.approx(-5.0, abs=0.1)
    assert state.oil_c[3] == pytest.approx(-5.0, abs=0.1)
    assert state.tyre_air_c[:, 3] == pytest.approx([-5.0] * 4, abs=0.1)
    warm = Machine(figures, np.random.default_rng(1), -5.0).state
    assert warm.coolant_c[0] == state.coolant_c[0]
    assert (warm.coolant_c >= 82).all()


def test_a_cold_engine_idles_faster_and_burns_more() -> None:
    machine, ride = machine_for(CAR, -10.0, cold=True), Ride.standing(1)
    run(machine, ride, np.zeros(10))
    assert machine.state.rpm[0] == pytest.approx(1.7 * 719, rel=0.01)
    assert 1.2 < machine.state.fuel_w[0] / 32e6 * 3600 < 2.4


def test_discs_heat_on_a_long_descent_and_cool_at_its_foot() -> None:
    machine, ride = machine_for(MODELS), Ride.standing(N)
    ride.slope = np.full(N, -0.10)
    run(machine, ride, np.minimum(np.arange(600) * 1.0, 17.0))
    top = machine.state.disc_c.copy()
    assert 200 < top[0, 0] < 500
    assert top[0, 0] > top[2, 0] + 80, "the front brakes do more"
    assert (top[0, machine.electric] < 0.6 * top[0, 0]).all()
    ride.slope = np.zeros(N)
    run(machine, ride, np.full(600, 17.0))
    assert machine.state.disc_c[0, 0] < 60


def test_a_disc_takes_up_the_work_and_gives_it_off_by_the_lumped_equation() -> None:
    one = np.ones(1)
    hit = thermal.disc_step(np.full((4, 1), 20.0), 20.0, np.full((4, 1), 322e3), 0 * one, 1.0, 7 * one, one)
    assert hit == pytest.approx(np.full((4, 1), 120.0))
    cooler = thermal.disc_step(hit, 20.0, np.zeros((4, 1)), 20 * one, 1.0, 7 * one, one)
    assert cooler == pytest.approx(120 - (5 + 0.8 * 20) * 100 / (7 * 460))


def test_pads_wear_with_work_and_faster_on_a_hot_disc() -> None:
    work, disc = np.full((4, 1), 1e6), np.full(1, 7.0)
    cool = thermal.pad_wear_pct(work, np.full((4, 1), 100.0), disc)
    assert thermal.pad_wear_pct(2 * work, np.full((4, 1), 100.0), disc) == pytest.approx(2 * cool)
    assert thermal.pad_wear_pct(work, np.full((4, 1), 350.0), disc) == pytest.approx(2 * cool)
    assert thermal.pad_wear_pct(work, np.full((4, 1), 500.0), disc) == pytest.approx(5 * cool)


def test_tyre_air_approaches_8_to_28_degrees_above_ambient_within_15_minutes() -> None:
    machine, ride = machine_for(CAR, 20.0, cold=True), Ride.standing(1)
    run(machine, ride, np.minimum(np.arange(900) * 3.0, 30.0))
    rise = thermal.tyre_target_c(0.0, np.array([30.0]))[0]
    assert rise == pytest.approx(26.2, abs=0.1)
    assert machine.state.tyre_air_c[:, 0] - 20 == pytest.approx([rise * (1 - np.exp(-1))] * 4, abs=0.7)
    assert TYRE_NOISE_KPA == 1.5
