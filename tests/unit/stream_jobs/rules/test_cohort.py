"""A vehicle against its like: what alarms, what does not, and that neither order nor a restart matters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pytest

from infra.settings.sections import Cohort as Terms
from stream_jobs.rules.cohort.judge import (
    Bucket,
    Cohort,
    Judged,
    Metric,
    Residual,
    alert_row,
    cohort_of,
    judge,
    others,
    residuals,
)

MINUTES_5: Final = 300_000
HEAT: Final = Metric(
    metric="coolant", value="coolant_mean_c", unit="degC", side="above", z=4.0, floor=2.0, buckets=2,
    severity="WARNING", version=1, message="coolant hotter than its like", clear_z=3.0,
)  # fmt: skip
TERMS: Final = Terms(least_others=5)
VAN: Final = Cohort("van", 1, 10)
SOUND: Final = (88.0, 89.0, 89.5, 90.0, 90.0, 90.5, 91.0, 91.5, 92.0, 90.2, 89.8)
"""Eleven vehicles; the twelfth is A."""


def bucket(number: int, values: Mapping[str, float], cohorts: Mapping[str, Cohort] | None = None) -> Bucket:
    members: dict[Cohort, dict[str, list[float]]] = {}
    for vehicle, value in values.items():
        members.setdefault((cohorts or {}).get(vehicle, VAN), {})[vehicle] = [value]
    return Bucket(number * MINUTES_5, members)


def fleet(a: float, more: float = 0.0) -> dict[str, float]:
    return {"A": a, **{f"v{k}": value + more for k, value in enumerate(SOUND)}}


def run(buckets: Sequence[Bucket], metric: Metric = HEAT) -> Judged:
    return judge(buckets, 0, {}, [metric], TERMS)


def told(judged: Judged) -> list[tuple[str, int, str]]:
    """Vehicle, bucket, and whether it was found or is over."""
    return [
        (news.vehicle_id, news.event_ms // MINUTES_5 - 1, "over" if news.residual is None else "found")
        for news in judged.news
    ]


def one(judged: Judged, vehicle: str, number: int) -> Residual:
    [found] = [r for r, _ in judged.kept if (r.vehicle_id, r.at_ms) == (vehicle, number * MINUTES_5)]
    return found


def test_a_hot_day_on_which_all_rise_by_12_degrees_alarms_nobody() -> None:
    days = [
        bucket(k, fleet(90.0, 0.0 if k < 4 else 12.0) | {"A": 90.0 if k < 4 else 102.0}) for k in range(8)
    ]
    assert run(days).news == []


def test_one_hot_engine_among_twelve_is_found_after_two_buckets_with_the_limit_in_force() -> None:
    judged = run([bucket(k, fleet(90.0 if k < 3 else 101.0)) for k in range(6)])
    assert told(judged) == [("A", 4, "found"), ("A", 5, "found")]
    first = judged.news[0]
    assert first.state.since_ms == 3 * MINUTES_5
    row = alert_row(first, now_ms=0)
    assert (row.rule, row.value, row.limit, row.event_ms) == ("cohort_coolant", 101.0, 98.0, 5 * MINUTES_5)
    assert row.message == (
        "coolant hotter than its like: 101.0 degC against 90.0 degC, the median of 11 others"
        " (van, load band 1, from 10 degC), z 5.5"
    )


def test_one_bucket_is_not_enough_and_a_good_one_between_begins_anew() -> None:
    temperatures = (101.0, 90.0, 101.0, 90.0)
    assert run([bucket(k, fleet(t)) for k, t in enumerate(temperatures)]).news == []


def test_it_stays_between_clear_level_and_limit_and_is_over_after_two_calm_buckets() -> None:
    temperatures = (101.0, 101.0, 97.0, 97.0, 95.0, 97.0, 95.0, 95.0, 95.0)
    judged = run([bucket(k, fleet(t)) for k, t in enumerate(temperatures)])
    assert told(judged) == [("A", 1, "found"), ("A", 7, "over")]
    assert judged.states == {}


def test_a_cohort_that_is_too_small_says_nothing_and_the_last_hour_helps() -> None:
    few = {"A": 120.0, **{f"v{k}": 90.0 for k in range(4)}}
    assert run([bucket(k, few) for k in range(4)]).kept == []
    past = [bucket(k, {f"v{k}": 90.0 + k}) for k in range(5)]
    judged = run([*past, bucket(11, {"A": 120.0})])
    assert (one(judged, "A", 11).median, one(judged, "A", 11).over, one(judged, "A", 11).others) == (
        92,
        "hour",
        5,
    )
    assert run([*past, bucket(12, {"A": 120.0})]).kept == []


def test_in_the_last_hour_each_other_vehicle_has_one_voice() -> None:
    loud = [bucket(k, {"v0": 60.0, f"v{k}": 90.0} if k else {"v0": 60.0}) for k in range(6)]
    assert one(run([*loud, bucket(8, {"A": 120.0})]), "A", 8).median == 90.0


def test_another_model_load_or_weather_is_another_cohort() -> None:
    others_of = {"w": Cohort("bus", 1, 10), "x": Cohort("van", 2, 10), "y": Cohort("van", 1, 20)}
    found = run([bucket(0, fleet(101.0) | {"w": 1.0, "x": 2.0, "y": 3.0}, others_of)])
    assert {r.vehicle_id for r, _ in found.kept} == {"A"}
    assert one(found, "A", 0).others == 11


def test_a_vehicle_is_never_among_its_own_cohort() -> None:
    values = np.array([3.0, 9.0, 1.0, 4.0, 4.0, 100.0, 7.0])
    medians, scales = others(values)
    for k in range(len(values)):
        rest = np.delete(values, k)
        assert medians[k] == np.median(rest)
        assert scales[k] == pytest.approx(1.4826 * np.median(np.abs(rest - np.median(rest))))


@pytest.mark.parametrize("size", [2, 3, 4, 5, 8, 41])
def test_medians_of_others_with_ties_are_those_of_each_rest(size: int) -> None:
    values = np.random.default_rng(size).integers(0, 6, size).astype(float)
    rest = [np.delete(values, k) for k in range(size)]
    medians, scales = others(values)
    assert medians.tolist() == [np.median(r) for r in rest]
    assert scales.tolist() == pytest.approx([1.4826 * np.median(np.abs(r - np.median(r))) for r in rest])


def test_where_all_others_agree_the_floor_is_the_scale() -> None:
    same = {"A": 97.9, **{f"v{k}": 90.0 for k in range(6)}}
    found = one(run([bucket(0, same)]), "A", 0)
    assert (found.scale, found.z) == (2.0, pytest.approx(3.95))


def test_the_side_decides_and_both_sides_do_not_add_up() -> None:
    buckets = [bucket(k, fleet(t)) for k, t in enumerate((79.0, 101.0, 79.0, 79.0))]
    assert told(run(buckets)) == []
    assert told(run(buckets, replace(HEAT, side="below"))) == [("A", 3, "found")]
    assert told(run(buckets, replace(HEAT, side="both"))) == [("A", 3, "found")]


def test_a_missing_value_neither_breaks_a_streak_nor_ends_an_alert_but_an_hour_of_them_does() -> None:
    none = float("nan")
    temperatures = (101.0, none, 101.0, *[none] * 11, 90.0, *[none] * 14)
    judged = run([bucket(k, fleet(t)) for k, t in enumerate(temperatures)])
    assert told(judged) == [("A", 2, "found"), ("A", 14, "over")]
    assert {r.others for r in residuals(bucket(1, fleet(none)), [], [HEAT], TERMS)} == {10}
    assert [state.raised for state in judged.states.values()] == []


def test_any_split_into_passes_and_a_replay_give_the_same_findings_residuals_and_memory() -> None:
    rng = np.random.default_rng(5)
    buckets = [
        bucket(k, {f"v{v}": (90 + rng.normal(0, 1) + (14 if v == 2 and k % 9 > 3 else 0)) for v in range(7)})
        for k in range(40)
    ]
    whole = run(buckets)
    assert {word for _, _, word in told(whole)} == {"found", "over"}
    for cut in range(1, 40, 3):
        first = run(buckets[:cut])
        second = judge(buckets[max(0, cut - 11) :], cut * MINUTES_5, first.states, [HEAT], TERMS)
        assert (first.kept + second.kept, first.news + second.news) == (whole.kept, whole.news)
        assert second.states == whole.states
    ids = [alert_row(news, now_ms=k).alert_id for k, news in enumerate(whole.news)]
    assert ids == [alert_row(news, now_ms=99).alert_id for news in run(buckets).news]
    assert len(set(ids)) == len(ids)


def test_what_is_near_the_others_is_not_stored_unless_it_is_remembered() -> None:
    assert [*residuals(bucket(0, fleet(90.0)), [], [HEAT], TERMS)] != []
    assert run([bucket(0, fleet(90.0))]).kept == []


def test_bands_begin_at_their_edges_and_a_vehicle_without_an_engine_has_its_own() -> None:
    assert cohort_of("van", 20.0, -0.5, TERMS) == Cohort("van", 1, -10)
    assert cohort_of("van", 19.9, 10.0, TERMS) == Cohort("van", 0, 10)
    assert cohort_of("van", None, None, TERMS) == Cohort("van", -1, None)
