"""The verdict on a frame's clock, as a plain function of payload and receive time."""

from __future__ import annotations

import pytest

from infra.contract.verdict import ClockLimits, clock_limits, verdict
from infra.settings.settings import Settings

LIMITS = ClockLimits(floor_ms=1_577_836_800_000, ahead_ms=5_000, lateness_ms=30_000)
NOW_MS = 1_760_000_000_000


@pytest.mark.parametrize(
    ("t0_ms", "span_ms", "wanted"),
    [
        (NOW_MS - 900, 900, "ok"),
        (NOW_MS - 30_000, 900, "ok"),
        (NOW_MS - 30_001, 900, "late"),
        (NOW_MS + 4_100, 900, "ok"),
        (NOW_MS + 4_101, 900, "clock_ahead"),
        (60_000, 900, "clock_unset"),
        (1_577_836_799_999, 0, "clock_unset"),
    ],
)
def test_a_verdict_holds_up_to_its_limit(t0_ms: int, span_ms: int, wanted: str) -> None:
    assert verdict(t0_ms, span_ms, NOW_MS, LIMITS) == wanted


def test_the_limits_come_from_the_settings() -> None:
    settings = Settings(jobs={"lateness_s": 40, "ahead_s": 7, "clock_floor": "2020-01-01"})  # type: ignore[arg-type]
    assert clock_limits(settings) == ClockLimits(1_577_836_800_000, 7_000, 40_000)
