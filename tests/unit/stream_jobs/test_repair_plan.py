"""What a repair has to read, on literal times."""

from __future__ import annotations

import pytest

from infra.contract.errors import ConfigError
from infra.contract.settings import Settings
from stream_jobs import repair_plan as plan
from stream_jobs.repair_plan import Grid, LateFrame

GRID = Grid(window_ms=10_000, road_window_ms=60_000, ahead_ms=10_000, lateness_ms=30_000)
MINUTE = 60_000


def test_a_frame_touches_the_windows_from_its_first_to_its_last_sample() -> None:
    frame = LateFrame("t", 0, 1, "A", t0_ms=59_500, span_ms=900)
    assert plan.vehicle_keys([frame], GRID) == [("A", 50_000), ("A", 60_000)]
    assert plan.road_starts_ms([frame], GRID) == [0, 60_000]


def test_a_last_sample_on_the_boundary_touches_the_next_window() -> None:
    frame = LateFrame("t", 0, 1, "A", t0_ms=9_100, span_ms=900)
    assert plan.vehicle_keys([frame], GRID) == [("A", 0), ("A", 10_000)]


def test_ok_frames_of_a_window_were_received_from_ahead_of_it_to_lateness_after_it() -> None:
    assert plan.received_intervals([10 * MINUTE], GRID) == [(590_000, 690_000)]


def test_neighbouring_windows_are_read_in_one() -> None:
    assert plan.received_intervals([0, MINUTE, 10 * MINUTE], GRID) == [(-10_000, 150_000), (590_000, 690_000)]


def test_more_intervals_than_the_limit_lose_their_narrowest_gaps() -> None:
    starts = [i * 10 * MINUTE for i in range(plan.MAX_INTERVALS)] + [10**9]
    intervals = plan.received_intervals(starts, GRID)
    assert len(intervals) <= plan.MAX_INTERVALS
    assert intervals[-1] == (10**9 - 10_000, 10**9 + 90_000)


def test_hours_hold_the_intervals_and_those_of_the_late_frames() -> None:
    assert plan.hours_ms([(3_599_000, 3_601_000)], [36_000_000]) == [0, 3_600_000, 36_000_000]


@pytest.mark.parametrize("jobs", [{"road_window_s": 45, "window_s": 10}])
def test_lengths_that_do_not_fit_are_refused(jobs: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        plan.grid_of(Settings(jobs=jobs))
