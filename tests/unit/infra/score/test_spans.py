"""Trips and harsh events matched one to one; misses and false alarms show."""

from __future__ import annotations

import pytest

from load_tests.score import spans
from load_tests.score.events import Claim, Truth


def trip(from_s: int, to_s: int, vehicle: str = "A", **details: object) -> Truth:
    return Truth("trip", vehicle, from_s * 1000, to_s * 1000, None, {"whole": True, **details})


def cut(from_s: int, to_s: int, vehicle: str = "A") -> Claim:
    return Claim("trip", vehicle, from_s * 1000, to_s * 1000)


def judged(truths: list[Truth], claims: list[Claim]) -> spans.Judged:
    fit = spans.overlap(30_000, 0.8)
    return spans.judge("trips", truths, claims, fit, lambda t: None if t.details["whole"] else "cut")


@pytest.mark.parametrize(
    ("claim", "found"),
    [
        (cut(0, 1000), 1),
        (cut(30, 970), 1),  # forgiven
        (cut(130, 930), 1),  # 100 and 40 s more than forgiven: 0.86
        (cut(230, 970), 1),  # exactly 0.8
        (cut(231, 970), 0),
        (cut(0, 2000), 0),
        (cut(1001, 2000), 0),
        (cut(0, 1000, "B"), 0),
    ],
)
def test_a_trip_matches_by_four_fifths_with_each_end_forgiven(claim: Claim, found: int) -> None:
    line = judged([trip(0, 1000)], [claim])
    assert (len(line.found), len(line.missed), len(line.false)) == (found, 1 - found, 1 - found)


def test_a_trip_that_was_cut_in_two_is_missed_and_its_parts_are_false() -> None:
    line = judged([trip(0, 1000)], [cut(0, 500), cut(500, 1000)])
    assert (line.recall, line.precision, len(line.false)) == (0.0, 0.0, 2)


def test_a_claim_serves_one_trip_and_the_best_one() -> None:
    line = judged([trip(0, 1000), trip(60, 1000)], [cut(60, 1000)])
    assert [truth.from_ms for truth, _ in line.found] == [60_000]
    assert (line.recall, line.precision) == (0.5, 1.0)


def test_what_the_run_cut_is_excluded_and_its_claim_explained() -> None:
    line = judged([trip(0, 1000, whole=False)], [cut(0, 1000), cut(3000, 4000)])
    assert (line.truths, line.explained, len(line.false), dict(line.excluded)) == (0, 1, 1, {"cut": 1})


def harsh(what: str, at_s: float, to_s: float) -> Truth:
    return Truth(what, "A", round(at_s * 1000), round(to_s * 1000))


@pytest.mark.parametrize(
    ("claim", "found"),
    [
        (Claim("brake", "A", 10_200, 10_900), True),
        (Claim("brake", "A", 14_000, 14_400), True),
        (Claim("brake", "A", 14_001, 14_400), False),
        (Claim("brake", "A", 6_500, 6_999), False),
        (Claim("corner", "A", 10_200, 10_900), False),
    ],
)
def test_a_harsh_event_matches_within_three_seconds_and_its_kind(claim: Claim, found: bool) -> None:
    line = spans.judge("harsh", [harsh("brake", 10, 11)], [claim], spans.within(3000), lambda _: None)
    assert (line.recall == 1.0) == found


def test_two_events_are_not_found_by_one_claim() -> None:
    events = [harsh("brake", 10, 11), harsh("brake", 12, 13)]
    line = spans.judge(
        "harsh", events, [Claim("brake", "A", 12_100, 12_900)], spans.within(3000), lambda _: None
    )
    assert (line.recall, line.missed) == (0.5, [events[0]])


def ends(found: list[Truth]) -> list[tuple[int, int | None, bool]]:
    return [
        (t.from_ms // 1000, None if t.to_ms is None else t.to_ms // 1000, t.details["whole"]) for t in found
    ]


def test_a_long_stop_parts_a_trip_and_a_short_one_does_not() -> None:
    stops = [trip(300, 479), trip(600, 780)]
    assert ends(spans.expected_trips([trip(0, 1000)], stops, 180_000, 30_000)) == [
        (0, 600, True),
        (780, 1000, True),
    ]


def test_a_wreck_ends_its_trip_where_it_stands() -> None:
    driven = trip(0, 3600, begun=True, ended=False)
    assert ends(spans.expected_trips([driven], [trip(500, 3600)], 180_000, 30_000)) == [(0, 500, True)]


def test_a_toggle_of_the_ignition_joins_two_trips_and_parking_does_not() -> None:
    trips = [
        trip(0, 500, distance_m=400.0),
        trip(529, 1000, distance_m=900.0),
        trip(1030, 1300, distance_m=5.0),
    ]
    found = spans.expected_trips(trips, [], 180_000, 30_000)
    assert ends(found) == [(0, 1000, True), (1030, 1300, True)]
    assert [t.details["distance_m"] for t in found] == [1300.0, 5.0]


def test_a_stop_with_the_engine_running_ends_a_trip_only_where_it_is_long() -> None:
    runs, off = {"ignition_on": True}, {"ignition_on": False}
    trips = [trip(0, 500, **runs), trip(679, 900, **runs), trip(1080, 1300, **off), trip(1350, 1500, **off)]
    assert ends(spans.expected_trips(trips, [], 180_000, 30_000)) == [
        (0, 900, True),
        (1080, 1300, True),
        (1350, 1500, True),
    ]


def test_a_trip_that_goes_on_at_the_end_is_not_whole() -> None:
    assert ends(spans.expected_trips([trip(0, 900, begun=True, ended=False)], [], 180_000, 30_000)) == [
        (0, 900, False)
    ]
