"""Slopes, values that stand still, own history, and what comes again and again."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from stream_jobs.rules.detect.base import HELD, Kept
from stream_jobs.rules.detect.baseline import QUANTILE, noted, quantile
from stream_jobs.rules.detect.level import SAME as REMEMBERED
from stream_jobs.rules.rule_set import of_rules
from tests.support_vehicles import Evaluation
from tests.unit.stream_jobs.rules.traces import T0, Frame, found, frame, level, rule, seconds

SLOPE = {"kind": "slope", "value": "x", "beyond": "above", "limit": 20, "span_s": 60, "per": "minute"}
OWN = {"kind": "baseline", "value": "x", "beyond": "above", "limit": 0.06, "by": "share", "against": "median"}
SAME = {"kind": "unchanged", "value": "x", "raise_for_s": 30, "frames": 10}


def course(values: list[float | None], step_s: float = 1.0, limit: float = 20.0) -> list[Frame]:
    return [frame(k * step_s, Evaluation(True, None, v, limit)) for k, v in enumerate(values)]


@pytest.mark.slow
def test_a_steep_slope_is_found_and_a_gentle_one_is_not(tmp_path: Path) -> None:
    noise = random.Random(1)
    steep = [30 / 60 * s + noise.gauss(0, 2) for s in range(120)]
    gentle = [15 / 60 * s + noise.gauss(0, 2) for s in range(600)]
    mine = rule(tmp_path, **SLOPE, sure=1)
    first = found(mine, course(steep))[0]
    assert 42 <= (first.event_ms - T0) / 1000 <= 66
    assert first.value == pytest.approx(30, abs=6)
    assert found(mine, course(gentle)) == []


def test_a_small_jump_is_no_slope(tmp_path: Path) -> None:
    assert found(rule(tmp_path, **SLOPE, sure=1), course([0.0] * 60 + [12.0] * 100)) == []


def test_frames_rarer_than_the_span_still_give_a_slope(tmp_path: Path) -> None:
    mine = rule(tmp_path, **SLOPE | {"span_s": 3, "per": "second", "limit": 1})
    assert seconds(found(mine, course([60.0, 75.0, 90.0, 105.0], 10.0, 1.0))) == [20]


def test_noise_of_frames_that_come_densely_after_rare_ones_is_no_slope(tmp_path: Path) -> None:
    # a sound car's axle mates as it drives off
    apart = {0: 0, 60: 8, 120: 0, 180: 4, 240: 0, 279: 0, 285: 4, 290: 8, 296: 4}
    said = [frame(s, Evaluation(True, None, kpa, 20.0)) for s, kpa in apart.items()]
    assert found(rule(tmp_path, **SLOPE, sure=1), said) == []


def test_a_value_that_stands_still_is_found_and_a_rare_repetition_is_not(tmp_path: Path) -> None:
    mine = rule(tmp_path, **SAME)
    assert seconds(found(mine, course([88.0, 88.4, *[88.1] * 40]))) == [32]
    assert found(mine, course([88.0, 88.0, 88.1] * 30)) == []
    assert found(mine, course([88.1] * 5, 10.0)) == []


def test_a_value_that_nothing_moves_may_stand_still_and_one_that_is_moved_may_not(tmp_path: Path) -> None:
    mine = rule(tmp_path, **SAME, follows="y", per_fold=2, lag_s=1, swings=2, resolution=1)
    heat = {  # whole degrees: two of them are one e-fold
        "steady": [10.0] * 70,
        "a little": [10.0 if s // 20 % 2 else 20.0 for s in range(70)],
        "up and down": [10.0 if s // 20 % 2 else 30.0 for s in range(70)],
        "once, and back": [10.0 if s < 30 else 30.0 for s in range(70)],
    }
    said = {
        name: [frame(s, Evaluation(True, None, 88.0, each)) for s, each in enumerate(values)]
        for name, values in heat.items()
    }
    assert {name: seconds(found(mine, each))[:1] for name, each in said.items()} == {
        "steady": [], "a little": [], "up and down": [41], "once, and back": [],
    }  # fmt: skip


def test_a_history_in_whole_degrees_knows_no_tenths(tmp_path: Path) -> None:
    usual = {"kind": "baseline", "by": "z", "warm_up": 5, "beyond": "above", "limit": 5, "clear_for_s": 10}
    values = [*[88.0] * 50, 89.0, *[88.0] * 30, 89.0, *[88.0] * 20, 91.0]
    frames = [frame(s, Evaluation(True, None, v, 5.0, learns=True)) for s, v in enumerate(values)]
    assert seconds(found(rule(tmp_path, **usual, value="coolant_temp_c"), frames)) == [102]
    assert seconds(found(rule(tmp_path, **usual, value="x"), frames)) == [81, 102]


def test_a_gap_begins_the_still_stand_anew(tmp_path: Path) -> None:
    frames = [*course([88.1] * 20), *(frame(500 + s, Evaluation(True, None, 88.1, None)) for s in range(20))]
    assert found(rule(tmp_path, **SAME), frames) == []


def test_a_value_that_changes_where_the_condition_does_not_hold_does_not_stand_still(tmp_path: Path) -> None:
    def engine(off: float | None) -> list[Frame]:
        """Runs, is off from 20 s to 30 s (``off``: the reading then; None: as before), and runs again."""
        reads = [(s, not 20 <= s < 30) for s in range(60)]
        return [frame(s, Evaluation(on, None, 88.0 if on else off or 88.0, None)) for s, on in reads]

    mine = rule(tmp_path, **SAME)
    assert seconds(found(mine, engine(None)))[:1] == [40]  # the pause does not count
    assert found(mine, engine(86.0)) == []


def test_a_value_that_drifts_by_itself_may_not_stand_still_over_a_rest(tmp_path: Path) -> None:
    mine = rule(tmp_path, **SAME, follows="y", per_fold=2, lag_s=1, swings=2, rest_s=20, resolution=1)

    def follows(*values: float | None) -> list[Frame]:
        return [frame(s, Evaluation(True, None, 88.0, each)) for s, each in enumerate(values)]

    assert seconds(found(mine, follows(*[10.0] * 10, *[0.0] * 30, *[30.0] * 10, *[10.0] * 10)))[:1] == [52]
    assert found(mine, follows(*[10.0] * 10, *[0.0] * 60)) == []  # what is blocked from cooling rests too
    assert found(mine, follows(*([10.0] * 10 + [0.0] * 10) * 4)) == []
    turned_first = follows(*[30.0] * 10, *[10.0] * 10, *[0.0] * 30)
    assert seconds(found(mine, turned_first))[:1] == [39]


def test_what_moves_a_value_is_asked_in_the_least_step_that_it_was_seen_to_make(tmp_path: Path) -> None:
    keys = SAME | {"follows": "y", "per_fold": 2, "lag_s": 1, "swings": 2, "value": "coolant_temp_c"}

    def reads(first: float) -> list[Frame]:
        """``first``, then 88.0 for a minute, while what it follows goes up and down by a tenth."""
        told = [(first if s < 5 else 88.0, 10.0 if s // 10 % 2 else 11.5) for s in range(65)]
        return [frame(s, Evaluation(True, None, value, each)) for s, (value, each) in enumerate(told)]

    mine = rule(tmp_path, **keys)
    assert [seconds(found(mine, reads(first)))[:1] for first in (88.1, 87.0, 88.0)] == [[35], [], []]
    sooner = rule(tmp_path, **keys, fine_for_s=20)
    assert [seconds(found(sooner, reads(first)))[:1] for first in (88.1, 87.0)] == [[25], []]


def test_what_an_older_detector_remembers_is_forgotten_and_not_misread(tmp_path: Path) -> None:
    for more in ({}, {"while": "on", "while_for_s": 0}):
        detector = of_rules([rule(tmp_path, **SAME, **more)])[0]
        old = Kept(np.array([0]), np.ones(1, [("held", HELD), ("value", "f8")]))
        inside = detector.memory(0, None).dump()
        kept = old if inside.inner is None else msgspec.structs.replace(inside, inner=old)
        memory = detector.memory(2, kept)
        assert memory.dump().rows.dtype == inside.rows.dtype
        assert not memory.on.any()
        assert memory.inner is None or memory.inner.rows.dtype.names == REMEMBERED.names


def test_after_a_pause_of_its_while_a_rule_of_another_kind_than_level_begins_anew(tmp_path: Path) -> None:
    armed = {"while": "on", "while_for_s": 0, "while_pause_s": 10}
    still = [frame(s, Evaluation(True, None, 88.1, None, armed=s not in (20, 21))) for s in range(60)]
    assert seconds(found(rule(tmp_path, **SAME, **armed), still))[:1] == [52]
    steep = [frame(s, Evaluation(True, None, s / 2, 20.0, armed=s not in (20, 21))) for s in range(120)]
    assert found(rule(tmp_path, **SLOPE, **armed), steep) != []


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        ({"kind": "slope", "span_s": 10, "per": "second", "beyond": "above", "limit": 0.5}, None),
        ({"kind": "level", "mean_s": 20, "beyond": "above", "limit": 5}, None),
        ({"kind": "unchanged", "raise_for_s": 10, "frames": 3}, 7.0),
    ],
)
def test_a_frame_without_a_value_says_nothing_to_a_rule_with_a_while_either(
    tmp_path: Path, keys: dict[str, Any], value: float | None
) -> None:
    frames = [
        frame(s, Evaluation(True, None, None if s % 5 == 4 else value or float(s), keys.get("limit"), True))
        for s in range(40)
    ]
    plain, armed = rule(tmp_path, value="x", **keys), rule(tmp_path, value="x", **keys, **{"while": "y"})
    assert seconds(found(armed, frames)) == seconds(found(plain, frames)) != []


def test_a_code_is_not_away_in_a_frame_that_does_not_tell_under_a_while_either(tmp_path: Path) -> None:
    mine = rule(tmp_path, kind="count", names="codes", times=2, absent_s=5, **{"while": "on"})
    there = Evaluation(True, armed=True, names=("U0121",))
    untold = [frame(s, Evaluation(armed=True) if s % 20 else there) for s in range(50)]
    gone = [frame(s, Evaluation(False, armed=True) if s % 20 else there) for s in range(50)]
    assert found(mine, untold) == []
    assert seconds(found(mine, gone)) == [20, 40]


def geared(gear: int, at_s: int, value: float, load: str) -> Frame:
    reading = Evaluation(load == "high", None, value, 0.06, learns=load == "low", names=(str(gear),))
    return frame(at_s, reading)


def test_while_a_rule_waits_to_be_raised_it_goes_on_learning_from_what_is_not_judged(tmp_path: Path) -> None:
    mine = rule(tmp_path, **OWN, names="gears", warm_up=10, raise_for_s=5, pause_s=3600)
    third = [geared(3, s, 48.0, "low") for s in range(20)] + [geared(3, 20, 52.0, "high")]
    fourth = [geared(4, 30 + s, 35.4, "low") for s in range(20)]
    assert seconds(found(mine, third + fourth)) == []
    assert seconds(found(mine, [*third, *fourth, geared(4, 60, 38.4, "high")])) == [60]


def test_a_ratio_is_learned_by_gear_and_judged_under_load_only(tmp_path: Path) -> None:
    mine = rule(tmp_path, **OWN, names="gears", warm_up=10, raise_for_s=5)
    learned = [geared(3, s, 48.0, "low") for s in range(20)] + [
        geared(4, 20 + s, 35.4, "low") for s in range(20)
    ]
    sound = [geared(3, 50 + s, 48.3, "high") for s in range(20)]
    slips = [geared(4, 80 + s, 35.4 * 1.1, "high") for s in range(8)]
    rows = found(mine, [*learned, *sound, *slips])
    assert seconds(rows) == [85]
    assert rows[0].value == pytest.approx(0.1)
    assert found(mine, [geared(4, s, 39.0, "high") for s in range(50)]) == []


@pytest.mark.slow
def test_light_load_between_two_heavy_ones_breaks_nothing_for_so_long_and_a_sound_one_does(
    tmp_path: Path,
) -> None:
    learned = [geared(3, s, 48.0, "low") for s in range(20)]
    light = [geared(3, s, 48.0, "low") for s in range(35, 600, 10)]

    def judged(pause_s: int, *ratios: float) -> list[float]:
        mine = rule(tmp_path, **OWN, names="gears", warm_up=10, raise_for_s=5, pause_s=pause_s)
        heavy = [geared(3, at, ratio, "high") for at, ratio in zip((30, 300, 590), ratios, strict=True)]
        return seconds(
            found(mine, sorted([*learned, *light, *heavy], key=lambda each: float(each[0]["end_ms"])))
        )

    assert judged(0, 53.0, 53.0, 53.0) == []
    assert judged(600, 53.0, 53.0, 53.0)[0] == 300
    assert judged(600, 53.0, 48.2, 53.0) == []
    assert judged(260, 53.0, 53.0, 48.2) == []


@pytest.mark.slow
def test_own_history_by_z_forgets_no_outlier_into_the_mean(tmp_path: Path) -> None:
    keys = OWN | {"by": "z", "against": "mean", "limit": 4}
    mine = rule(tmp_path, **keys, warm_up=50, memory_s=3600)
    noise = random.Random(2)
    usual = [Evaluation(True, None, 80 + noise.gauss(0, 1), 4.0, learns=True) for _ in range(300)]
    odd = [Evaluation(True, None, 90.0, 4.0, learns=True)] * 20
    rows = found(mine, [frame(s, reading) for s, reading in enumerate([*usual, *odd])])
    assert seconds(rows)[0] == 300


@pytest.mark.slow
def test_a_quantile_comes_near_that_of_all_values() -> None:
    noise = random.Random(4)
    values = [noise.gauss(0, 1) for _ in range(5000)]
    for share in (0.5, 0.99):
        held = np.zeros(1, QUANTILE)
        for value in values:
            held = noted(held, np.array([value]), share)
        assert quantile(held, share)[0] == pytest.approx(sorted(values)[int(share * 5000)], abs=0.15)


def coded(at_s: int, *codes: str) -> Frame:
    return frame(at_s, Evaluation(bool(codes), None, None, None, names=codes))


def test_a_code_is_found_at_first_sight_each_by_its_name(tmp_path: Path) -> None:
    mine = rule(tmp_path, kind="count", names="codes", apart=True, clear_for_s=600)
    rows = found(mine, [coded(0), coded(1, "P0217"), coded(2, "P0217", "P0128"), coded(3, "P0128")])
    assert [(row.rule, row.event_ms - T0) for row in rows] == [("mine.P0217", 1000), ("mine.P0128", 2000)]


def test_a_level_keeps_the_part_that_it_was_found_of_first_until_it_is_over(tmp_path: Path) -> None:
    over_limit = {"kind": "level", "value": "x", "beyond": "above", "limit": 100}
    mine = rule(tmp_path, names="wheels", apart=True, clear_for_s=10, **over_limit)

    def wheel(at_s: int, name: str, value: float) -> Frame:
        return frame(at_s, level(value, names=(name,)))

    first = [wheel(s, "left" if s < 4 else "right", 120) for s in range(12)]
    over = [wheel(s, "right", 90) for s in range(12, 30)]
    again = [wheel(s, "right", 120) for s in range(30, 32)]
    rows = found(mine, [*first, *over, *again])
    assert [(row.rule, (row.event_ms - T0) / 1000) for row in rows] == [
        ("mine.left", 0), ("mine.left", 5), ("mine.left", 10), ("mine.left", 11), ("mine.right", 30),
    ]  # fmt: skip
    assert {row.message.partition(": ")[2] for row in rows} == {"left", "right"}


def test_the_last_moment_of_a_rule_is_about_what_was_bad_and_not_about_what_ended_it(tmp_path: Path) -> None:
    mine = rule(tmp_path, **OWN, names="gears", warm_up=10, raise_for_s=2, clear=0.04)
    learned = [geared(gear, 10 * gear + s, 60 / gear, "low") for gear in (3, 4) for s in range(10)]
    slips = [geared(3, s, 22.0, "high") for s in range(50, 54)]
    rows = found(mine, [*learned, *slips, geared(4, 54, 15.0, "high")])
    assert [(row.event_ms - T0, row.message) for row in rows] == [(52_000, "Mine: 3"), (53_000, "Mine: 3")]


def test_a_code_counts_when_it_was_away_and_not_when_nothing_was_heard(tmp_path: Path) -> None:
    mine = rule(tmp_path, kind="count", names="codes", times=3, span_s=600, absent_s=5)
    comes = [coded(s, "U0121") if s % 20 < 10 else coded(s) for s in range(50)]
    silent = [coded(s, "U0121") for s in range(50) if s % 20 < 10]
    assert seconds(found(mine, comes)) == [40]
    assert found(mine, silent) == []


def test_regenerations_given_up_count_and_whole_ones_do_not(tmp_path: Path) -> None:
    mine = rule(
        tmp_path, kind="count", value="soot", condition="soot > 50", reversal=1, times=3, span_s=86400
    )

    def soot(values: list[float]) -> list[Frame]:
        return [frame(60 * k, Evaluation(v > 50, None, v, None)) for k, v in enumerate(values)]

    assert seconds(found(mine, soot([78, 76, 80, 78, 82, 80, 84]))) == [360]
    assert found(mine, soot([75, 25, 27, 75, 25, 27, 75, 25, 27, 75])) == []


@pytest.mark.parametrize(
    ("keys", "values", "raised_s"),
    [
        ({"kind": "slope", "span_s": 10, "per": "second", "beyond": "above", "limit": 0.5}, range(91), 8),
        ({"kind": "unchanged", "raise_for_s": 10, "frames": 3}, [7] * 91, 10),
        (
            {"kind": "baseline", "by": "difference", "warm_up": 5, "beyond": "above", "limit": 10},
            [0] * 20 + [50] * 71,
            20,
        ),
    ],
)
def test_a_rule_of_a_kind_with_a_value_of_its_own_waits_for_while_for_s(
    tmp_path: Path, keys: dict[str, Any], values: Sequence[int], raised_s: float
) -> None:
    frames = [
        frame(at_s, Evaluation(True, None, float(value), keys.get("limit"), armed=True, learns=True))
        for at_s, value in enumerate(values)
    ]
    at_once = rule(tmp_path, value="x", **keys, **{"while": "y"})
    after_a_minute = rule(tmp_path, value="x", **keys, **{"while": "y", "while_for_s": 60})
    assert seconds(found(at_once, frames))[0] == raised_s
    assert seconds(found(after_a_minute, frames))[0] == 60
