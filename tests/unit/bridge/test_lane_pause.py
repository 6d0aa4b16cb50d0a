from __future__ import annotations

import pytest

from bridge.lane import pause_s


@pytest.mark.parametrize(("found", "paused"), [(0, 0.0), (1, 0.002), (99, 0.002), (100, 0.0), (500, 0.0)])
def test_messages_gather_after_a_turn_that_found_few(found: int, paused: float) -> None:
    assert pause_s(found, 0.002) == paused


def test_the_crash_lane_lets_nothing_gather() -> None:
    assert pause_s(1, 0.0) == 0.0
