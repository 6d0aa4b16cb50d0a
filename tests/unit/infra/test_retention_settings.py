from __future__ import annotations

import pytest
from pydantic import ValidationError

from infra.settings.section_ledger import Retention


def test_a_level_is_kept_longer_than_the_one_it_is_made_of() -> None:
    kept = Retention(windows_days=5, minutes_days=7, hours_days=9, days_days=0)
    assert kept.days_by_table()["vehicle_minute"] == 7
    assert Retention(windows_days=0, minutes_days=0, hours_days=0).days_by_table()["vehicle_window"] == 0


@pytest.mark.parametrize("days", [(5, 6, 0), (0, 90, 0), (5, 0, 90)])
def test_a_level_that_would_go_before_the_one_below_is_refused(days: tuple[int, int, int]) -> None:
    windows, minutes, hours = days
    with pytest.raises(ValidationError, match="days or more above"):
        Retention(windows_days=windows, minutes_days=minutes, hours_days=hours)
