"""Which windows a run makes anew, in which pieces, what it reads, and when the nightly one is due."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from infra.contract.errors import ConfigError
from infra.settings.settings import Settings
from stream_jobs.reprocess import queue
from stream_jobs.reprocess.queue import Grid, LateFrame, Span, left_out, slices
from stream_jobs.reprocess.work import due

GRID = Grid(road_window_ms=60_000, ahead_ms=10_000, lateness_ms=30_000)
MINUTE = 60_000


def test_a_frame_touches_the_windows_from_its_first_to_its_last_sample() -> None:
    assert list(LateFrame("t", 0, 1, "A", t0_ms=59_500, span_ms=900).starts_ms(MINUTE)) == [0, MINUTE]
    assert list(LateFrame("t", 0, 1, "A", t0_ms=59_100, span_ms=900).starts_ms(MINUTE)) == [0, MINUTE]
    assert list(LateFrame("t", 0, 1, "A", t0_ms=59_000, span_ms=900).starts_ms(MINUTE)) == [0]


def test_ok_frames_of_windows_were_received_from_ahead_of_them_to_lateness_after_them() -> None:
    assert GRID.received([10 * MINUTE]) == (590_000, 690_000)
    assert GRID.received([0, MINUTE]) == (-10_000, 150_000)


def test_hours_hold_the_intervals_and_those_of_the_late_frames() -> None:
    assert queue.hours_ms([(3_599_000, 3_601_000)], [36_000_000]) == [0, 3_600_000, 36_000_000]


def test_lengths_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigError):
        queue.grid_of(Settings(jobs={"road_window_s": 45, "window_s": 10}))  # type: ignore[arg-type]


def test_road_windows_of_a_span_are_those_that_lie_in_it_whole() -> None:
    assert list(GRID.starts_ms(Span(5_000, 200_000))) == [60_000, 120_000]
    assert list(GRID.starts_ms(Span(60_000, 180_000))) == [60_000, 120_000]
    assert list(GRID.starts_ms(Span(60_000, 119_999))) == []


def test_slices_are_cut_at_round_times_and_at_gaps_and_those_done_are_left_out() -> None:
    starts = [8 * MINUTE, 9 * MINUTE, 10 * MINUTE, 12 * MINUTE, 25 * MINUTE]
    whole = [[8 * MINUTE, 9 * MINUTE], [10 * MINUTE], [12 * MINUTE], [25 * MINUTE]]
    assert list(slices(starts, MINUTE, 10 * MINUTE, None)) == whole
    assert list(slices(starts, MINUTE, 10 * MINUTE, 10 * MINUTE)) == whole[1:]


def test_a_window_is_closed_when_lateness_and_grace_have_passed_since_its_end() -> None:
    assert GRID.closed_until_ms(152_000) == 120_000
    assert GRID.closed_until_ms(151_999) == 60_000


def at(hour: int, day: int = 20) -> datetime:
    return datetime(2026, 11, day, hour, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "last", "hour", "is_due"),
    [
        (at(2), None, 2, True),
        (at(3), None, 2, False),
        (at(2), at(2, 19), 2, True),
        (at(1), at(2, 19), 2, False),
        (at(9), at(2, 19), 2, True),
        (at(9), at(2), 2, False),
        (at(2), at(2, 10), -1, False),
    ],
)
def test_the_nightly_run_is_due_once_after_its_hour(
    now: datetime, last: datetime | None, hour: int, is_due: bool
) -> None:
    assert due(now, last, hour) is is_due


def test_a_late_frame_across_two_slices_is_taken_in_by_the_second_if_the_first_saw_it() -> None:
    inside, across = LateFrame("t", 0, 1, "V", 61_000, 900), LateFrame("t", 0, 2, "V", 119_500, 900)
    came_between = LateFrame("t", 0, 3, "V", 119_600, 900)
    first = left_out([inside, across], [0, 60_000], 60_000, {})
    assert first == {inside: set(), across: {120_000}}
    second = left_out([inside, across, came_between], [120_000], 60_000, first)
    assert second == {inside: {60_000}, across: set(), came_between: {60_000}}, "inside was reopened"
    assert left_out([across], [120_000], 60_000, {}) == {across: {60_000}}, "a run that began here has half"
