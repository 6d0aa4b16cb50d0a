"""Values as people write them: what is none is told by its option."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from infra.contract.errors import ConfigError
from infra.settings.values import moment_at, moment_ms, vehicle_id


def test_a_moment_is_utc_unless_it_has_a_zone() -> None:
    eight = datetime(2026, 11, 20, 8, tzinfo=UTC)
    assert moment_at("2026-11-20T08:00", "--at") == moment_at("2026-11-20T09:00+01:00", "--at") == eight
    assert moment_at("2026-11-20", "--at") == eight - timedelta(hours=8)
    assert moment_ms("1970-01-01T01:00+01:00", "--at") == 0
    assert moment_at("2026-11-20T09:00+01:00", "--at").tzinfo == timezone(timedelta(hours=1))


@pytest.mark.parametrize(
    "text", ["0001-01-01", "1969-12-31", "1970-01-01T00:00+01:00", "9999-12-31T23:59-14:00", "now", ""]
)
def test_a_moment_that_no_calendar_can_reckon_with_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=f"--at '{text.split('+', maxsplit=1)[0]}"):
        moment_at(text, "--at")


def test_a_vehicle_id_that_is_none_is_refused_by_its_option() -> None:
    assert vehicle_id("1HGCM82633A004352") == "1HGCM82633A004352"
    with pytest.raises(ConfigError, match=r"^'1hgcm82633a004352' is no vehicle id: 17 digits"):
        vehicle_id("1hgcm82633a004352")
    with pytest.raises(ConfigError, match=r"^--vehicle '' is no vehicle id"):
        vehicle_id("", "--vehicle")
