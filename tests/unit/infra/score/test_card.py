"""The whole card: what is told besides alerts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from load_tests.score.card import Found, Happened, card
from load_tests.score.definition import load
from load_tests.score.events import Claim, Judged, Truth
from load_tests.score.tables import sorted_in

HOUR_MS = 3_600_000


def harsh(at_s: int, peak_g: float) -> Truth:
    """An acceleration of a car, of which the threshold is 0.35 g."""
    times = (1000 * at_s, 1000 * at_s + 500)
    return Truth("accelerate", "A", *times, None, {"peak_g": peak_g, "limit_g": 0.35})


def claim(at_s: int) -> Claim:
    return Claim("accelerate", "A", 1000 * at_s, 1000 * at_s + 500)


def accelerating(truths: list[Truth], claims: list[Claim], near: Sequence[Truth] = ()) -> Judged:
    happened = Happened("run", HOUR_MS, [], [], [], truths, [], [], near)
    found = Found(alarms=[], trips=[], harsh=claims, confirmed=[], clones=[])
    return next(line for line in card(load(), happened, found).lines if line.detector == "harsh accelerate")


def test_a_harsh_event_within_the_instruments_accuracy_of_its_threshold_counts_neither_way() -> None:
    line = accelerating([harsh(10, 0.345), harsh(40, 0.355)], [claim(10)])
    assert (line.truths, line.hits, line.explained, line.false) == (0, 0, 1, [])
    assert line.excluded == {"at the threshold": 2}


def test_a_harsh_event_beyond_that_has_to_be_found_and_one_of_nothing_is_false() -> None:
    line = accelerating([harsh(10, 0.36), harsh(40, 0.361)], [claim(10), claim(90)])
    assert (len(line.found), len(line.missed)) == (1, 1)
    assert [each.from_ms for each in line.false] == [90_000]


def test_what_is_only_near_a_threshold_need_not_be_found_and_explains_what_is() -> None:
    line = accelerating([harsh(70, 0.4)], [claim(10), claim(70)], [harsh(10, 0.42), harsh(40, 0.34)])
    assert (len(line.found), line.missed, line.explained, line.false) == (1, [], 1, [])
    assert line.excluded == {"at the threshold": 2}


def test_a_harsh_event_that_the_run_cuts_need_not_be_found() -> None:
    early = replace(harsh(0, 0.5), details={"peak_g": 0.5, "limit_g": 0.35, "whole": False})
    assert accelerating([early], []).excluded == {"cut by the run": 1}
    assert accelerating([harsh(3589, 0.5), harsh(3596, 0.5)], [claim(3589)]).excluded == {"cut by the run": 1}


def test_truth_that_does_not_know_its_threshold_has_to_be_found() -> None:
    line = accelerating([Truth("accelerate", "A", 10_000, 10_500, None, {"peak_g": 0.351})], [])
    assert line.recall == 0.0


def codes(*claims: Claim) -> Judged:
    """One vehicle whose fault sets no code, and one that sets one after a minute."""
    faults = [
        Truth("coolant_sensor_stuck", "A", 0, None, 1000),
        Truth("overheating", "B", 0, None, 1000),
        Truth("code", "B", 60_000, None, None, {"code": "P0217"}),
    ]
    happened = Happened("run", HOUR_MS, faults, [], [], [], [], [])
    found = Found(alarms=claims, trips=[], harsh=[], confirmed=None, clones=[])
    return next(line for line in card(load(), happened, found).lines if line.detector == "dtc")


def test_codes_are_judged_against_those_that_were_set_and_from_then_on() -> None:
    assert (codes().recall, codes().truths) == (0.0, 1)
    line = codes(Claim("dtc_active.P0217", "B", 65_000, 70_000))
    assert (line.recall, line.precision, line.delay_s(50)) == (1.0, 1.0, 5.0)
    early, other = (
        Claim("dtc_active.P0217", *when) for when in (("B", 20_000, 70_000), ("A", 65_000, 70_000))
    )
    assert codes(early, other).false == [early, other]


def test_a_fault_is_told_how_long_the_engine_ran_with_it() -> None:
    rows = [
        row("fault", "lean_mixture", 60_000, details={"mixture_pct": 20.0}),
        row("fault", "lean_mixture", 90_000),
        row("engine", "lean_mixture", 60_000, to_ms=900_000, details={"engine_s": 230.0}),
    ]
    first, second = sorted_in("run-1", rows).faults
    assert (first.details, second.details) == ({"mixture_pct": 20.0, "engine_s": 230.0}, {})


def row(kind: str, what: str, from_ms: int, **more: Any) -> dict[str, Any]:
    ends = {"to_ms": None, "full_ms": None, "details": {}}
    return {"kind": kind, "what": what, "vehicle_id": "A", "from_ms": from_ms, **ends, **more}
