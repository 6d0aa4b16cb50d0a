"""Robust lines and days to a threshold, on points whose answer is known."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from stream_jobs.maintenance.trends import Metric, line_through, renew, trend_of

DAY_S = 86_400.0
HOURS = np.arange(0, 10, 1 / 24)
LEAK = Metric("tyre_fl", "tyre_fl_kpa20", "down", None, 0.75, 14, 6, 0.25)
WEAR = Metric("brake_pad_fl", "brake_pad_wear_fl_pct", "up", 80.0, None, 90, 6, 0.25)


def test_a_leak_of_4_kpa_a_day_is_found_through_noise_and_one_point_in_five_that_is_wrong() -> None:
    rng = np.random.default_rng(1)
    values = 240 - 4 * HOURS + rng.normal(0, 0.4, len(HOURS))
    values[rng.random(len(HOURS)) < 0.2] += 30
    values[5:9] = np.nan
    found = trend_of(LEAK, 1.79e9 + HOURS * DAY_S, HOURS * 50_000, values)
    assert found is not None
    assert found.line.slope == pytest.approx(-4, abs=0.2)
    assert found.line.slope_low < -4 + 0.1 < found.line.slope_high + 0.3
    assert found.line.value == pytest.approx(200, abs=1.5)
    assert found.line.points == 236


def test_days_to_the_threshold_follow_from_the_line() -> None:
    found = trend_of(WEAR, 1.79e9 + HOURS * DAY_S, HOURS * 50_000, 60 + HOURS)
    assert found is not None
    assert found.line.slope == pytest.approx(1.0)
    assert found.slope_per_1000_km == pytest.approx(20.0)
    assert found.days_to_threshold == pytest.approx(80 - 60 - HOURS[-1])
    assert found.line.residual_mad == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    ("values", "days"),
    [(85 + HOURS, 0.0), (60 - HOURS, None), (60 + 0 * HOURS, None), (60 + HOURS / 1000, None)],
)
def test_beyond_is_0_days_and_what_does_not_head_there_within_a_year_has_none(
    values: np.ndarray, days: float | None
) -> None:
    found = trend_of(WEAR, 1.79e9 + HOURS * DAY_S, HOURS * 50_000, values)
    assert found is not None
    assert found.days_to_threshold == days


def test_noise_alone_heads_nowhere() -> None:
    rng = np.random.default_rng(2)
    found = [
        trend_of(LEAK, 1.79e9 + HOURS * DAY_S, HOURS, 230 + rng.normal(0, 1.5, len(HOURS))) for _ in range(40)
    ]
    assert sum(f is not None and f.days_to_threshold is not None for f in found) <= 4


def test_too_few_points_and_too_short_a_time_give_nothing() -> None:
    few = np.where(np.arange(len(HOURS)) < 5, 60.0, np.nan)
    assert trend_of(WEAR, 1.79e9 + HOURS * DAY_S, HOURS, few) is None
    assert trend_of(WEAR, 1.79e9 + HOURS * 60, HOURS, 60 + HOURS) is None
    assert line_through(np.array([1.0, 1.0, 1.0]), np.array([1.0, 2.0, 3.0])) is None


def test_the_hours_read_reach_as_far_as_the_longest_metric_before_each_vehicles_own_newest() -> None:
    parked, driving = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 11, 20, tzinfo=UTC)
    rows: dict[str, list[Any]] = {
        "FROM odograph.vehicle_latest": [("A", parked), ("B", driving)],
        "FROM odograph.trend_metric": [LEAK, WEAR._replace(span_days=180.0)],
    }
    connection = Mock()
    connection.execute.side_effect = lambda statement, _given: Mock(
        fetchall=lambda: next((found for source, found in rows.items() if source in statement), [])
    )
    assert renew(connection) == 2
    given = [call.args[1] for call in connection.execute.call_args_list]
    assert {"vehicles": ["A", "B"], "as_of": [parked, driving], "days": 180} in given
