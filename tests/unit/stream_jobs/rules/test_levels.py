"""Levels: how long they hold, how they end, what they need before, and means."""

from __future__ import annotations

from pathlib import Path

from tests.support_vehicles import Evaluation
from tests.unit.stream_jobs.rules.traces import T0, found, frame, level, rule, seconds

LEVEL = {"kind": "level", "value": "x", "beyond": "above", "limit": 100, "raise_for_s": 3, "clear_for_s": 10}


def test_a_level_is_found_once_it_has_held_for_its_time(tmp_path: Path) -> None:
    values = [99, 101, 102, 103, 104, 99]
    rows = found(rule(tmp_path, **LEVEL), [frame(s, level(v)) for s, v in enumerate(values)])
    assert [(row.event_ms - T0, row.value, row.limit) for row in rows] == [(4000, 104, 100)]
    assert rows[0].since_ms == T0 + 1000


def test_one_frame_below_begins_the_time_anew_and_an_unknown_one_does_not(tmp_path: Path) -> None:
    mine = rule(tmp_path, **LEVEL)
    broken = [101, 102, 99, 103, 104, 105]
    unknown = [101, 102, None, 103, 104]
    assert seconds(found(mine, [frame(s, level(v)) for s, v in enumerate(broken)])) == []
    assert seconds(found(mine, [frame(s, level(v)) for s, v in enumerate(unknown)])) == [3]


def test_a_gap_says_nothing_of_the_time_in_it(tmp_path: Path) -> None:
    mine = rule(tmp_path, **LEVEL, gap_s=5)
    assert seconds(found(mine, [frame(0, level(101)), frame(6, level(101)), frame(8, level(101))])) == []
    assert seconds(found(mine, [frame(0, level(101)), frame(5, level(101))])) == [5]


def test_while_it_lasts_it_is_found_again_at_half_of_its_clear_time(tmp_path: Path) -> None:
    rows = found(rule(tmp_path, **LEVEL), [frame(s, level(101)) for s in range(20)])
    assert seconds(rows) == [3, 8, 13, 18]


def test_between_limit_and_clear_level_it_stays_and_its_last_moment_is_found(tmp_path: Path) -> None:
    values = [101, 101, 101, 101, 98, 98, 94, 94]
    mine = rule(tmp_path, **LEVEL, clear=95)
    rows = found(mine, [frame(s, level(v, clear=95)) for s, v in enumerate(values)])
    assert seconds(rows) == [3, 5]


def test_back_within_the_clear_time_it_is_the_same_trouble_and_later_it_is_not(tmp_path: Path) -> None:
    mine = rule(tmp_path, **LEVEL)
    raised = [frame(s, level(101)) for s in range(4)]
    soon = [*raised, frame(5, level(90)), frame(12, level(101))]
    late = [*raised, frame(5, level(90)), frame(14, level(101)), frame(16, level(101)), frame(17, level(101))]
    assert seconds(found(mine, soon)) == [3, 12]
    assert seconds(found(mine, late)) == [3, 17]


def test_a_further_limit_is_found_at_once_with_its_severity(tmp_path: Path) -> None:
    steps = [{"limit": 110, "severity": "MAJOR"}, {"limit": 120, "severity": "CRITICAL"}]
    values = [101, 101, 101, 101, 111, 109, 121, 105]
    rows = found(rule(tmp_path, **LEVEL, escalate=steps), [frame(s, level(v)) for s, v in enumerate(values)])
    told = [((row.event_ms - T0) // 1000, row.severity, row.limit) for row in rows]
    assert told == [(3, "WARNING", 100), (4, "MAJOR", 110), (6, "CRITICAL", 120)]


def test_what_must_hold_before_keeps_a_rule_back_and_ends_it(tmp_path: Path) -> None:
    mine = rule(tmp_path, **LEVEL | {"while": "on", "while_for_s": 6})
    on = [frame(s, level(101, armed=True)) for s in range(8)]
    assert seconds(found(mine, on)) == [6]
    off = [frame(s, level(101, armed=False)) for s in range(8, 20)]
    again = [frame(s, level(101, armed=True)) for s in range(20, 28)]
    assert seconds(found(mine, [*on, *off, *again])) == [6, 7, 26]


def test_a_short_pause_does_not_begin_that_time_anew(tmp_path: Path) -> None:
    mine = rule(tmp_path, **LEVEL | {"while": "on", "while_for_s": 6, "while_pause_s": 4})
    on = [frame(s, level(101, armed=s not in (3, 4))) for s in range(12)]
    assert seconds(found(mine, on)) == [9]


def test_what_it_lasted_before_a_pause_counts_and_the_pause_does_not(tmp_path: Path) -> None:
    mine = rule(tmp_path, **LEVEL | {"while": "on", "while_for_s": 2, "while_pause_s": 60})
    # The engine of a hybrid: 2 s each time, which is never 3 s on end.
    bits = [frame(s, level(101, armed=s % 20 < 3)) for s in range(60)]
    assert seconds(found(mine, bits))[:1] == [21]
    warm = [frame(s, level(90 if s == 20 else 101, armed=s % 20 < 3)) for s in range(40)]
    assert seconds(found(mine, warm)) == []


def test_a_pause_longer_than_that_begins_what_it_lasted_anew(tmp_path: Path) -> None:
    mine = rule(tmp_path, **LEVEL | {"while": "on", "while_for_s": 0, "while_pause_s": 10})
    before, after = ([frame(s + k, level(101, armed=True)) for k in range(3)] for s in (0, 20))
    off = frame(3, level(101, armed=False))
    assert seconds(found(mine, [*before, off, *after])) == []
    assert seconds(found(mine, [*before, off, frame(15, level(101, armed=False)), *after])) == []


def test_a_mean_needs_its_whole_time_and_half_of_its_tenths_or_ten_frames(tmp_path: Path) -> None:
    mine = rule(tmp_path, **LEVEL | {"mean_s": 20, "raise_for_s": 0})

    def values(step_s: int, until_s: int) -> list[float]:
        frames = [
            frame(s, Evaluation(None, None, 101.0 if s % 2 else 99.5, 100.0))
            for s in range(1, until_s, step_s)
        ]
        return seconds(found(mine, frames))

    assert values(1, 20) == []
    assert values(1, 25)[0] == 20
    assert values(5, 51) == []  # rarer than the tenths: ten frames, and the one after them
    assert values(5, 100)[0] == values(5, 52)[0] == 51
    assert values(140, 3600) == []  # a gap each time


def test_a_mean_is_not_raised_by_one_bad_value(tmp_path: Path) -> None:
    mine = rule(tmp_path, **LEVEL | {"mean_s": 20, "raise_for_s": 0})
    values = [90.0] * 40
    values[25] = 150.0
    frames = [frame(s, Evaluation(None, None, v, 100.0)) for s, v in enumerate(values)]
    assert found(mine, frames) == []


def test_a_mean_of_what_is_seldom_judged_is_one_of_ten_tenths_with_frames(tmp_path: Path) -> None:
    """As the trims of a hybrid, whose engine runs for 40 s now and then."""
    mine = rule(tmp_path, **LEVEL | {"mean_s": 600, "raise_for_s": 0})

    def values(pause_s: int, high: float = 101.0) -> list[float]:
        runs = [s for begin in range(0, 7200, 40 + pause_s) for s in range(begin, begin + 40, 5)]
        return seconds(found(mine, [frame(s, Evaluation(None, None, high, 100.0)) for s in runs]))

    assert 600 < values(160)[0] < 2000
    assert values(160, high=99.0) == []
    assert values(700) == []  # a gap each time


def test_a_mean_whose_limit_is_not_known_is_neither_beyond_it_nor_back(tmp_path: Path) -> None:
    mine = rule(tmp_path, **LEVEL | {"mean_s": 20, "limit": "y"})

    def limits(untold: range) -> list[float]:
        said = [Evaluation(None, None, 101.0, None if s in untold else 100.0) for s in range(40)]
        return seconds(found(mine, [frame(s, each) for s, each in enumerate(said)]))

    assert limits(range(0)) == limits(range(21, 24)) == limits(range(25, 28)) == [24, 30, 36]
    assert limits(range(40)) == []


def test_a_mean_over_hours_may_have_to_last_too(tmp_path: Path) -> None:
    mine = rule(tmp_path, **LEVEL | {"mean_s": 3600, "raise_for_s": 600, "clear_for_s": 3600})
    frames = [frame(s, Evaluation(None, None, 101.0, 100.0)) for s in range(60, 5400, 60)]
    assert seconds(found(mine, frames)) == [4260]
    with_a_gap = [each for each in frames if not 3540 < (each[0]["end_ms"] - T0) / 1000 < 4200]
    assert seconds(found(mine, with_a_gap)) == [4980]
