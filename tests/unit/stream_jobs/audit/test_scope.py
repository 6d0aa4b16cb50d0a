from __future__ import annotations

import pytest

from infra.contract.errors import ConfigError
from stream_jobs.audit.ledger import WHOLE, Scope, wanted

NOW_MS = 1_763_683_200_000
"""2025-11-21 00:00 UTC."""


def test_without_options_it_is_all_there_ever_was() -> None:
    assert wanted(None, None, "UTC", NOW_MS) == WHOLE
    assert WHOLE.whole


def test_a_day_is_one_of_the_zone_in_which_days_are_cut() -> None:
    hour_ms = 3_600_000
    day = wanted(None, "2025-11-20", "Europe/Berlin", NOW_MS)
    assert day == Scope(NOW_MS - 25 * hour_ms, NOW_MS - hour_ms)
    assert (
        wanted(None, "2025-03-30", "Europe/Berlin", NOW_MS).until_ms
        - wanted(None, "2025-03-30", "Europe/Berlin", NOW_MS).since_ms
        == 23 * hour_ms
    )


def test_a_time_reaches_back_from_now() -> None:
    assert wanted("90s", None, "UTC", NOW_MS) == Scope(NOW_MS - 90_000, NOW_MS)


@pytest.mark.parametrize(
    ("since", "day", "words"),
    [
        ("1h", "2025-11-20", "one of the two"),
        (None, "20.11.2025", "such as 2026-11-20"),
        (None, "2025-11-22", "has not begun"),
        ("soon", None, "--since"),
    ],
)
def test_a_wrong_scope_is_refused_in_words(since: str | None, day: str | None, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        wanted(since, day, "UTC", NOW_MS)


def test_what_is_older_than_the_windows_is_left_out_or_refused() -> None:
    assert WHOLE.kept(None, NOW_MS) == WHOLE
    assert WHOLE.kept(5_000, NOW_MS) == Scope(5_000, NOW_MS)
    assert Scope(6_000, 9_000).kept(5_000, NOW_MS) == Scope(6_000, 9_000)
    with pytest.raises(ConfigError, match="have been dropped"):
        Scope(1_000, 5_000).kept(5_000, NOW_MS)


def test_what_may_still_come_in_time_is_left_out_on_the_grid_of_windows() -> None:
    closed = Scope(NOW_MS - 59_999, NOW_MS).closed(NOW_MS - 7_000, lateness_ms=30_000, window_ms=10_000)
    assert closed == Scope(NOW_MS - 60_000, NOW_MS - 40_000, NOW_MS - 7_000)
    nothing = Scope(NOW_MS - 5_000, NOW_MS).closed(NOW_MS, lateness_ms=30_000, window_ms=10_000)
    assert nothing.since_ms == nothing.until_ms
