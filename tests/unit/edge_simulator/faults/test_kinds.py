"""Each fault crosses its rule, at any severity; health crosses none; no fault touches others."""

from __future__ import annotations

import numpy as np
import pytest

from edge_simulator import faults
from edge_simulator.faults.kinds import KINDS
from tests import support_rules as rules
from tests.support_faults import COLUMNS, Drive, drive

pytestmark = pytest.mark.slow

SECONDS, VEHICLES = 2400, 100
WITHIN_S = {
    "overheating": 400, "thermostat_open": 1200, "low_oil_pressure": 240, "weak_battery": 1600,
    "alternator": 300, "overcharge": 120, "slow_leak": 240, "rapid_leak": 90, "hot_tyre": 1000,
    "sticking_caliper": 900, "worn_pads": 900, "transmission_slip": 600, "lean_mixture": 700,
    "rich_mixture": 700, "dpf_blocked": 1200, "cell_imbalance": 700, "thermal_runaway": 240,
    "coolant_sensor_stuck": 400, "intermittent_dtc": 330,
}  # fmt: skip
"""The latest that a rule may hold after onset, s, on the trace of tests.support_faults."""
BROUGHT_ALONG = {"thermal_runaway": {"cell_imbalance"}, "rapid_leak": {"slow_leak"}}
"""What a fault shows besides: a dead cell is apart from the others, a flat tyre from its mate."""


def wanted() -> list[faults.Wanted]:
    """Every fault that has a rule, once mild and once severe."""
    return [
        faults.Wanted(name, count=1, severity=(at, at), onset_s=(100, 250))
        for name in rules.RULES
        for at in (0.0, 1.0)
    ]


@pytest.fixture(scope="module")
def ill() -> Drive:
    return drive(wanted(), VEHICLES, SECONDS)


@pytest.fixture(scope="module")
def well() -> Drive:
    return drive((), VEHICLES, SECONDS)


def test_every_fault_has_a_rule_here_but_those_of_the_road() -> None:
    on_road = {name for name, kind in KINDS.items() if kind.on_road}
    assert on_road == {"crash", "multi_crash", "pothole", "kerb_strike", "emergency_braking"}
    assert set(rules.RULES) == set(WITHIN_S) == set(KINDS) - on_road


@pytest.mark.parametrize("name", WITHIN_S)
def test_a_fault_crosses_its_rule_in_time_and_not_before_its_onset(ill: Drive, name: str) -> None:
    holds = rules.RULES[name](ill)
    found = [f for f in ill.begun if f.name == name]
    assert [f.severity for f in sorted(found, key=lambda f: f.severity)] == [0.0, 1.0]
    for fault in found:
        first_s = int(np.flatnonzero(holds[:, fault.vehicle])[0])
        assert 0 <= first_s - fault.onset_ms / 1000 <= WITHIN_S[name]


@pytest.mark.parametrize("name", WITHIN_S)
def test_no_other_vehicle_crosses_the_rule(ill: Drive, name: str) -> None:
    crossed = set(np.flatnonzero(rules.RULES[name](ill).any(axis=0)).tolist())
    may = {name} | {cause for cause, shown in BROUGHT_ALONG.items() if name in shown}
    assert crossed <= {f.vehicle for f in ill.begun if f.name in may}


@pytest.mark.parametrize("ambient_c", [-15.0, 36.0])
def test_a_healthy_fleet_crosses_no_rule_in_frost_or_heat(ambient_c: float) -> None:
    healthy = drive((), 60, 1800, seed=8, ambient_c=ambient_c)
    crossed = {name: int(rule(healthy).any(axis=0).sum()) for name, rule in rules.RULES.items()}
    assert crossed == dict.fromkeys(rules.RULES, 0)
    assert not any(healthy.codes)


def test_a_healthy_fleet_has_its_tyres_and_coolant_within_all_limits(well: Drive) -> None:
    assert not rules.low_tyre(well).any()
    assert not rules.overheating_critical(well).any()


def test_vehicles_without_a_fault_are_the_same_to_the_last_bit(ill: Drive, well: Drive) -> None:
    assert ill.sound.sum() == VEHICLES - 2 * len(rules.RULES)
    for name in COLUMNS:
        assert (ill[name][:, ill.sound] == well[name][:, ill.sound]).all(), name


def test_only_the_codes_of_the_fault_are_set_and_none_before_onset(ill: Drive) -> None:
    by_vehicle = {f.vehicle: f for f in ill.begun}
    seen: dict[str, set[str]] = {}
    for t, now in enumerate(ill.codes):
        for vehicle, codes in now.items():
            assert t + 1 >= by_vehicle[vehicle].onset_ms / 1000
            seen.setdefault(by_vehicle[vehicle].name, set()).update(codes)
    flickering = {f.details["code"] for f in ill.begun if f.name == "intermittent_dtc"}
    expected = {name: {str(KINDS[name].code)} for name in rules.RULES if KINDS[name].code}
    assert seen == expected | {"intermittent_dtc": flickering}


def test_each_code_is_told_once_when_it_is_set_first(ill: Drive) -> None:
    first: dict[int, tuple[int, str]] = {}
    for t, now in enumerate(ill.codes):
        for vehicle, codes in now.items():
            first.setdefault(vehicle, (1000 * (t + 1), codes[0]))
    coded = [row for row in ill.truth if row["kind"] == "code"]
    assert {int(row["vehicle_id"]): (row["from_ms"], row["details"]["code"]) for row in coded} == first
    assert len(coded) == len(first) > 20


def of(d: Drive, name: str) -> faults.Fault:
    """The severe one of a name."""
    return next(f for f in d.begun if f.name == name and f.severity == 1.0)


def test_a_severe_overheating_is_critical(ill: Drive) -> None:
    assert rules.overheating_critical(ill)[:, of(ill, "overheating").vehicle].any()


def test_a_rapid_leak_ends_below_75_percent_of_the_placard(ill: Drive) -> None:
    assert rules.low_tyre(ill)[-1, of(ill, "rapid_leak").vehicle]


def test_a_dead_alternator_drains_the_battery(ill: Drive, well: Drive) -> None:
    i = of(ill, "alternator").vehicle
    assert ill.machine.state.soc_12v[i] < well.machine.state.soc_12v[i] - 0.2


def test_a_runaway_brings_the_vehicle_to_a_stop_with_its_contactors_open(ill: Drive) -> None:
    i = of(ill, "thermal_runaway").vehicle
    assert (ill["speed_kmh"][-600:, i] == 0).all()
    assert (ill["pack_current_a"][-600:, i] == 0).all()


def test_a_sticking_caliper_costs_fuel_and_warms_its_own_tyre_only(ill: Drive, well: Drive) -> None:
    fault = of(ill, "sticking_caliper")
    i, wheel = fault.vehicle, fault.details["wheel"]
    warmer = {
        w: (ill[f"tyre_temp_{w}_c"] - well[f"tyre_temp_{w}_c"])[-1, i] for w in ("fl", "fr", "rl", "rr")
    }
    assert warmer.pop(wheel) > 15
    assert set(warmer.values()) == {0.0}
    burnt, usual = ill["fuel_rate_lph"][:, i].sum(), well["fuel_rate_lph"][:, i].sum()
    spent, plain = (drive["soc_pct"][0, i] - drive["soc_pct"][-1, i] for drive in (ill, well))
    assert 1.02 < (spent / plain if ill.machine.electric[i] else burnt / usual) < 1.6


def test_a_blocked_filter_gives_up_its_regenerations(ill: Drive) -> None:
    soot = ill["dpf_soot_pct"][:, of(ill, "dpf_blocked").vehicle]
    falls = np.diff(soot) < 0
    assert np.count_nonzero(falls[1:] & ~falls[:-1]) > 2
    assert soot[-1] > 100


def test_lean_moves_the_air_meter_down_and_the_long_trim_up(ill: Drive, well: Drive) -> None:
    i = of(ill, "lean_mixture").vehicle
    air, usual = ill["maf_gps"][-300:, i], well["maf_gps"][-300:, i]
    running = usual > 0
    assert running.any()
    assert (air[running] / usual[running]).max() < 0.8
    assert (ill["fuel_trim_long_pct"] - well["fuel_trim_long_pct"])[-300:, i][running].min() > 15
