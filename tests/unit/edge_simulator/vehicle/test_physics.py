"""Faults show in the physics as they should, and health does not look like a fault."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import orjson
import pytest

from edge_simulator import faults
from edge_simulator.scenario import Scenario, cadence
from edge_simulator.vehicle import thermal
from edge_simulator.world import World

pytestmark = pytest.mark.slow

PARKED = 3
"""A petrol car that stands parked all the time."""
FAULTS = (
    *(faults.Wanted(name, count=3) for name in ("overheating", "rapid_leak", "slow_leak")),
    faults.Wanted("weak_battery", count=2),
    faults.Wanted("weak_battery", vehicle=PARKED),
)


@pytest.fixture(scope="module")
def last_and_truth() -> tuple[dict[str, list[dict[str, Any]]], list[dict[str, Any]]]:
    """Frames by vehicle over three minutes, and what was broken."""
    scenario = Scenario(
        seed=3, vehicles=60, cadence=cadence(60, None, 1000), start_ms=1_760_000_000_000,
        frames_per_vehicle=180, faults=FAULTS,
    )  # fmt: skip
    world = World(scenario)
    frames: dict[str, list[dict[str, Any]]] = {vehicle: [] for vehicle in world.vehicle_ids}
    truth: list[dict[str, Any]] = []
    for slot in world.slots():
        truth += slot.truth
        for message in slot.messages:
            body = orjson.loads(message.payload)
            frames[body["vehicle_id"]].append(body)
    return frames, truth


def of_fault(truth: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """The truth of the three vehicles that have the fault."""
    found = [row for row in truth if row.get("fault") == name]
    assert len(found) == 3
    return found


def test_overheating_goes_beyond_115_and_health_stays_below_100(last_and_truth: Any) -> None:
    frames, truth = last_and_truth
    ill = {told["vehicle_id"] for told in of_fault(truth, "overheating")}
    for vehicle, mine in frames.items():
        hottest = max((f.get("coolant_temp_c") or 0.0) for f in mine)
        if vehicle in ill:
            assert sum(f["fuel_rate_lph"] > 0 for f in mine) > 60, "its engine runs for more than a minute"
            assert 115 < hottest <= 150
        else:
            assert hottest < 100


def test_a_rapid_leak_falls_faster_than_20_kpa_a_minute(last_and_truth: Any) -> None:
    frames, truth = last_and_truth
    for told in of_fault(truth, "rapid_leak"):
        name = f"tyre_pressure_{told['details']['wheel']}_kpa"
        after = [f[name] for f in frames[told["vehicle_id"]] if f["t0_ms"] > told["from_ms"]]
        fall_per_min = (np.mean(after[:10]) - np.mean(after[50:60])) / 50 * 60
        assert fall_per_min == pytest.approx(told["details"]["kpa_per_min"], rel=0.2)
        assert fall_per_min > 20


def test_a_slow_leak_leaves_the_wheel_more_than_10_kpa_below_its_mate(last_and_truth: Any) -> None:
    frames, truth = last_and_truth
    for told in of_fault(truth, "slow_leak"):
        wheel = told["details"]["wheel"]
        mate = wheel[0] + ("r" if wheel[1] == "l" else "l")
        tail = frames[told["vehicle_id"]][-20:]
        gap = np.mean([f[f"tyre_pressure_{mate}_kpa"] - f[f"tyre_pressure_{wheel}_kpa"] for f in tail])
        before = frames[told["vehicle_id"]][:5]
        was = np.mean([f[f"tyre_pressure_{mate}_kpa"] - f[f"tyre_pressure_{wheel}_kpa"] for f in before])
        assert gap - was > 10


def test_a_weak_battery_shows_its_code_once_it_has_rested_and_a_low_rest_voltage(last_and_truth: Any) -> None:
    frames, truth = last_and_truth
    rested = set()
    for told in of_fault(truth, "weak_battery"):
        after = [f for f in frames[told["vehicle_id"]] if f["t0_ms"] > told["full_ms"]]
        resting = [f["battery_voltage_v"] for f in after if not f["ignition_on"]]
        assert after[-1]["dtc_codes"] == ["P0562"] * (len(resting) > 5)
        if resting:
            assert max(resting) < 12.25
            rested.add(told["vehicle_id"])
    assert rested == {[*frames][PARKED]}


def test_healthy_batteries_charge_at_13_8_and_rest_above_12_4(last_and_truth: Any) -> None:
    frames, truth = last_and_truth
    ill = {t["vehicle_id"] for t in truth}
    seen = set()
    for mine in (frames[vehicle] for vehicle in frames.keys() - ill):
        for before, f in pairwise(mine):
            on, cranks = f["ignition_on"], f["ignition_on"] and not before["ignition_on"]
            low, high = (9.6, 14.2) if cranks else (13.4, 14.2) if on else (12.4, 12.8)
            assert low <= f["battery_voltage_v"] <= high
            seen.add(on)
    assert seen == {True, False}


def test_fuel_rate_of_moving_cars_is_plausible(last_and_truth: Any) -> None:
    frames, _ = last_and_truth
    rates = []
    for mine in frames.values():
        metres = mine[-1]["odometer_m"] - mine[0]["odometer_m"]
        petrol = "fuel_trim_short_pct" in mine[0]
        if petrol and metres > 1000:
            rates.append(sum(f["fuel_rate_lph"] for f in mine) / 3600 / metres * 1e5)
    assert 4.0 < float(np.median(rates)) < 11.0


def test_pressure_follows_the_gas_law() -> None:
    cold = thermal.tyre_kpa(np.ones(1), np.array([230.0]), np.array([20.0]))[0]
    warm = thermal.tyre_kpa(np.ones(1), np.array([230.0]), np.array([50.0]))[0]
    assert cold == pytest.approx(230.0)
    assert warm == pytest.approx((230 + 101.325) * 323.15 / 293.15 - 101.325)


def test_a_cold_engine_warms_by_7_to_14_degrees_a_minute_of_driving() -> None:
    t, one = np.array([20.0]), np.ones(1)
    for _ in range(120):
        t = thermal.coolant_step(
            t, 16.0 * one, 24_000.0 * one, 14.0 * one, 1.0, 46.0 * one, 18.0 * one, 0.0 * one, 0.0 * one
        )
    assert 7 < (t[0] - 20.0) / 2 < 14
