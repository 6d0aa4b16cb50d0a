"""Alarms against faults: a scorer that cannot find fault with anything is worth nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from load_tests.score import faults
from load_tests.score.definition import Definition, Detector, Terms
from load_tests.score.events import Claim, Judged, Truth
from load_tests.score.faults import Flood, Scene

HOUR_MS = 3_600_000
FUEL = Detector("fuel_lean", ("fuel_lean",), ("lean_mixture",))
COOLANT = Detector("coolant", ("coolant_*",), ("overheating",))
TYRE_LOW = Detector("tyre_low", ("tyre_low",), ("rapid_leak",))
CRASH = Detector("crash", ("crash_*",), ("crash", "multi_crash"))


def definition() -> Definition:
    return Definition(
        slack_s=5,
        detectors=(COOLANT, FUEL, TYRE_LOW, CRASH),
        faults={
            "overheating": Terms(road_s=300, after_s=120),
            "lean_mixture": Terms(engine_s=300, warm_s=200),
            "slow_leak": Terms(brings=("tyre_low",)),
            "rapid_leak": Terms(wait_s=60),
            "weak_battery": Terms(parked_s=600),
            "transmission_slip": Terms(before_s=300),
            "crash": Terms(least={"delta_v_kmh": 8}),
            "multi_crash": Terms(least={"delta_v_kmh": 8}),
        },
        unjudged=(),
        trip_overlap=0.8,
        trip_tolerance_s=30,
        trip_stop_s=180,
        trip_parked_s=30,
        trip_least_m=200,
        harsh_within_s=3,
        harsh_accuracy_g=0.01,
    )


def hot(vehicle: str, from_s: int, to_s: int | None = None, full_s: int | None = None) -> Truth:
    return fault("overheating", vehicle, from_s, to_s, full_s)


def fault(
    what: str, vehicle: str, from_s: int, to_s: int | None = None, full_s: int | None = None, **details: float
) -> Truth:
    ends = [None if s is None else s * 1000 for s in (to_s, full_s)]
    return Truth(what, vehicle, from_s * 1000, ends[0], ends[1], details)


def alarm(vehicle: str, from_s: int, rule: str = "coolant_high", to_s: int | None = None) -> Claim:
    return Claim(rule, vehicle, from_s * 1000, 1000 * (from_s if to_s is None else to_s))


def judged(
    truths: list[Truth], claims: list[Claim], detector: Detector = COOLANT, scene: Scene | None = None
) -> Judged:
    return faults.judge(detector, definition(), truths, claims, scene or Scene(HOUR_MS))


def test_a_fault_that_is_found_counts_with_its_delay() -> None:
    line = judged([hot("A", 100), hot("B", 200)], [alarm("A", 160), alarm("B", 220), alarm("B", 400)])
    assert (line.recall, line.precision, line.hits, len(line.false)) == (1.0, 1.0, 3, 0)
    assert (line.delay_s(50), line.delay_s(100)) == (40.0, 60.0)


def test_a_fault_that_nobody_found_is_missed() -> None:
    line = judged([hot("A", 100), hot("B", 200)], [alarm("A", 160)])
    assert (line.recall, line.precision, line.missed) == (0.5, 1.0, [hot("B", 200)])
    assert not line.passes(0.95)


def test_without_any_alarm_recall_is_nothing_and_precision_unknown() -> None:
    line = judged([hot("A", 100)], [])
    assert (line.recall, line.precision, line.passes(0.95)) == (0.0, None, False)


def test_an_alarm_of_a_sound_vehicle_is_false() -> None:
    line = judged([hot("A", 100)], [alarm("A", 160), alarm("B", 160)])
    assert (line.recall, line.precision, line.false) == (1.0, 0.5, [alarm("B", 160)])
    assert not line.passes(0.95)


def test_false_alarms_fail_where_nothing_happened() -> None:
    line = judged([], [alarm("A", 160)])
    assert (line.recall, line.precision, line.passes(0.95)) == (None, 0.0, False)


def test_an_alarm_before_its_fault_is_false_and_finds_nothing() -> None:
    before = alarm("A", 90, to_s=900)
    line = judged([hot("A", 100)], [before])
    assert (line.recall, line.precision, line.false) == (0.0, 0.0, [before])
    assert judged([hot("A", 100)], [alarm("A", 96)]).recall == 1.0  # the device's clock may be 5 s off


@pytest.mark.parametrize(("opens_s", "precision"), [(625, 1.0), (626, 0.0)])
def test_alarms_are_right_for_a_while_after_the_end(opens_s: int, precision: float) -> None:
    assert judged([hot("A", 100, to_s=500)], [alarm("A", opens_s)]).precision == precision


def test_another_rules_alarms_do_not_count() -> None:
    assert judged([hot("A", 100)], [alarm("A", 160, "tyre_low")]).recall == 0.0


def test_a_symptom_of_another_fault_is_explained_and_finds_nothing() -> None:
    leaks = [fault("slow_leak", "A", 100), fault("rapid_leak", "B", 100)]
    line = judged(leaks, [alarm("A", 160, "tyre_low"), alarm("B", 130, "tyre_low")], TYRE_LOW)
    assert (line.explained, line.precision, line.recall) == (1, 1.0, 1.0)


def test_a_symptom_on_another_vehicle_is_false() -> None:
    line = judged([fault("slow_leak", "A", 100)], [alarm("B", 160, "tyre_low")], TYRE_LOW)
    assert (line.explained, line.precision) == (0, 0.0)


def test_a_fault_too_near_the_end_is_excluded_and_its_alarm_explained() -> None:
    line = judged([hot("A", 3400), hot("B", 100)], [alarm("A", 3500), alarm("B", 200)])
    assert (line.truths, line.recall, line.hits, line.explained) == (1, 1.0, 1, 1)
    assert dict(line.excluded) == {"too little driven after it": 1}


def test_what_is_repaired_before_it_is_full_is_excluded() -> None:
    line = judged([hot("A", 100, to_s=700, full_s=701), hot("B", 100, to_s=700, full_s=699)], [])
    assert (dict(line.excluded), line.missed) == ({"never full": 1}, [hot("B", 100, 700, 699)])


def test_driving_is_what_truth_says_of_the_vehicles_trips() -> None:
    scene = Scene(
        HOUR_MS, {"A": [(0, 350_000), (900_000, 1_000_000)], "B": [(0, 350_000), (900_000, 950_000)]}
    )
    line = judged([hot("A", 150), hot("B", 150)], [], scene=scene)
    assert (line.missed, line.truths) == ([hot("A", 150)], 1)


def test_what_a_vehicle_is_compared_with_counts_where_it_drove_long_enough_before_it() -> None:
    scene = Scene(
        HOUR_MS, {"A": [(0, 250_000), (900_000, 960_000)], "B": [(0, 299_000), (901_000, 2_000_000)]}
    )
    slips = [fault("transmission_slip", vehicle, 950) for vehicle in "ABC"]  # C: truth does not tell
    line = judged(slips, [], Detector("slip", ("slip",), ("transmission_slip",)), scene)
    assert [f.vehicle_id for f in line.missed] == ["A", "B", "C"]
    early = [fault("transmission_slip", vehicle, 900) for vehicle in "AB"]
    line = judged(early, [], Detector("slip", ("slip",), ("transmission_slip",)), scene)
    assert (line.missed, dict(line.excluded)) == ([], {"too little driven before it": 2})


def test_a_fault_of_the_engine_counts_where_the_engine_ran_long_enough_after_it() -> None:
    scene = Scene(HOUR_MS, {vehicle: [(0, 500_000)] for vehicle in "ABCE"} | {"D": [(0, 399_000)]})
    known = {"engine_s": 300.0, "warm_s": 200.0}
    # C: truth does not tell. E's engine was cold for most of the time.
    kinds = [known | {"engine_s": 299.0}, known, {}, {"engine_s": 900.0}, known | {"warm_s": 199.0}]
    lean = [fault("lean_mixture", v, 100, **more) for v, more in zip("ABCDE", kinds, strict=True)]
    line = judged(lean, [], FUEL, scene)
    assert ([f.vehicle_id for f in line.missed], dict(line.excluded)) == (
        ["B", "C"], {"engine ran too little after it": 2, "too little driven after it": 1},
    )  # fmt: skip


def test_a_crash_below_the_threshold_by_truth_is_excluded() -> None:
    weak, hard = fault("crash", "A", 10, delta_v_kmh=-7.9), fault("crash", "B", 10, delta_v_kmh=-8.0)
    line = judged([weak, hard], [alarm("B", 10, "crash_impact")], CRASH)
    assert (line.recall, line.truths, dict(line.excluded)) == (1.0, 1, {"below the threshold": 1})


def test_one_alarm_finds_both_hits_of_a_crash_that_it_covers() -> None:
    hits = [fault("multi_crash", "A", 10), fault("multi_crash", "A", 12)]
    both = judged(hits, [alarm("A", 10, "crash_impact", to_s=12)], CRASH)
    assert (both.recall, both.hits, both.delay_s(100)) == (1.0, 1, 0.0)


def test_a_pothole_that_raises_a_crash_is_a_false_alarm() -> None:
    line = judged([fault("pothole", "A", 10)], [alarm("A", 10, "crash_impact")], CRASH)
    assert (line.precision, line.recall) == (0.0, None)


def test_a_faults_alerts_of_one_incident_are_one_and_what_no_fault_raised_does_not_count() -> None:
    faulty = [hot("A", 100), hot("B", 100), fault("slow_leak", "B", 300), fault("crash", "C", 5)]
    told = [
        replace(alarm("A", 160), incident=1),
        replace(alarm("A", 170, "coolant_over"), incident=1),
        replace(alarm("B", 180), incident=2),
        replace(alarm("B", 310, "tyre_low"), incident=3),
        alarm("B", 320, "tyre_low"),
        replace(alarm("B", 330, "speeding"), incident=4),
        replace(alarm("D", 100), incident=5),
    ]
    assert faults.flood(definition(), faulty, told) == Flood(faults=3, incidents=4, alerts=5)
