"""Trigger, time zero, end and restraints, as 49 CFR 563.5 defines them."""

from __future__ import annotations

import numpy as np
import pytest

from edge_simulator.edr import pulse
from edge_simulator.edr.pulse import Finding
from edge_simulator.geo import Floats
from load_tests.crash_table import judge, strike

BARRIER = pulse.haversine(-40.0, 110)


def judged(long: Floats, lat: Floats | None = None) -> Finding:
    finding = judge(long, lat)
    assert finding is not None
    return finding


def test_exactly_8_kmh_within_150_ms_triggers_and_a_little_less_does_not() -> None:
    assert judge(pulse.haversine(-8.0, 150)) is not None
    assert judge(pulse.haversine(-7.99, 150)) is None


def test_8_kmh_that_take_longer_than_150_ms_do_not_trigger() -> None:
    assert judge(np.full(2000, -10.5)) is None
    assert judge(pulse.haversine(-8.2, 200)) is None


def test_the_barrier_pulse_has_its_table() -> None:
    finding = judged(BARRIER)
    assert finding.zero_ms == 57
    assert finding.long.delta_v_kmh[:12] == (0, 0, -1, -3, -8, -14, -21, -28, -34, -38, -40, -40)
    assert len(finding.long.delta_v_kmh) == 26
    assert finding.long.delta_v_kmh[-1] == -40
    assert (finding.long.max_kmh, finding.long.max_ms) == (-40, 112.5)
    assert set(finding.lat.delta_v_kmh) == {0}


def test_time_zero_is_the_begin_of_the_first_20_ms_that_change_more_than_0_8_kmh() -> None:
    accel = np.zeros(600)
    accel[200:400] = -25.0  # 0.09 km/h a millisecond: the ninth sample makes it more than 0.8
    assert judged(accel).zero_ms == 189


def test_a_lateral_change_has_5_ms_for_time_zero() -> None:
    lat = np.zeros(600)
    lat[200:400] = 25.0  # 0.45 km/h in 5 ms: too slow
    lat[260:400] = 50.0  # 0.90 km/h in 5 ms
    finding = judged(np.zeros(600), lat)
    assert finding.zero_ms == 259
    assert finding.lat.max_kmh > 0
    assert finding.long.max_kmh == 0


def test_waking_the_restraint_controller_sets_time_zero_earlier() -> None:
    lat = np.zeros(600)
    lat[200:400] = 35.0  # beyond 3 g, and 0.63 km/h in 5 ms
    assert [begin for begin, _ in pulse.wake_spans(np.zeros(600), lat)] == [202]
    assert judged(np.zeros(600), lat).zero_ms == 202


def test_the_event_ends_when_20_ms_change_no_more_than_0_8_kmh() -> None:
    finding = judged(BARRIER)
    assert finding.end_ms == 175
    change = np.concatenate([[0.0], np.cumsum(BARRIER)]) / 1000 * 3.6
    assert abs(change[175] - change[155]) <= 0.8 < abs(change[174] - change[154])


def test_a_lull_within_a_pulse_does_not_make_two_events() -> None:
    pulses = pulse.haversine(-20.0, 60, after_ms=15), pulse.haversine(-20.0, 60, before_ms=0)
    found = pulse.events(np.concatenate(pulses))
    assert [f.long.max_kmh for f in found] == [-40]


def test_two_pulses_with_quiet_between_them_are_two_events() -> None:
    side = pulse.haversine(20.0, 80)
    found = pulse.events(
        np.r_[BARRIER, np.zeros(300), np.zeros(len(side))], np.r_[np.zeros(len(BARRIER) + 300), side]
    )
    assert [(f.long.max_kmh, f.lat.max_kmh) for f in found] == [
        (-40, 0),
        (0, 19),
    ]  # 1 km/h lies before its time zero
    assert found[1].zero_ms > found[0].end_ms


def test_a_deployment_alone_triggers_below_8_kmh() -> None:
    stone = strike(7.0, 20)
    finding = judged(stone.long, stone.lat)
    assert finding.deployed_ms == {"pretensioner": 29}
    assert finding.long.max_kmh == -7
    assert pulse.events(stone.long, stone.lat, spent={"pretensioner"}) == []


@pytest.mark.parametrize(
    ("delta_v_kmh", "width_ms", "fired"),
    [
        (-10.0, 100, set()),
        (-16.0, 100, {"pretensioner"}),
        (-25.0, 100, {"pretensioner", "front_airbag"}),
        (25.0, 100, {"pretensioner"}),  # struck from behind
    ],
)
def test_restraints_fire_by_delta_v_over_time(delta_v_kmh: float, width_ms: int, fired: set[str]) -> None:
    accel = pulse.haversine(delta_v_kmh, width_ms)
    assert {name for _, name in pulse.deployments(accel, np.zeros(len(accel)))} == fired


def test_the_harder_the_crash_the_sooner_the_air_bag() -> None:
    times = [judged(pulse.haversine(-v, 100)).deployed_ms["front_airbag"] for v in (25.0, 40.0, 56.0)]
    assert times == [53, 43, 39]


def test_delta_v_stays_within_the_range_of_100_kmh() -> None:
    finding = judged(pulse.haversine(-130.0, 110))
    assert finding.long.max_kmh == min(finding.long.delta_v_kmh) == -100
