"""What happens to vehicles on the road: recorded only where it is a crash."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from edge_simulator import faults
from edge_simulator.scenario import Scenario, cadence
from edge_simulator.world import World

pytestmark = pytest.mark.slow

START_MS = 1_760_000_000_000
NAMES = ("pothole", "kerb_strike", "emergency_braking")
SEVERE = (0.9, 1.0)


@pytest.fixture(scope="module")
def run() -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[str]]:
    """Frames, truth and channels of half a minute with mishaps that are no crashes."""
    wanted = tuple(faults.Wanted(name, count=3, severity=SEVERE) for name in NAMES)
    beat = cadence(30, None, 1000)
    scenario = Scenario(
        seed=4, vehicles=30, cadence=beat, start_ms=START_MS, frames_per_vehicle=30, faults=wanted
    )
    world = World(scenario)
    frames, truth, channels = [], [], []
    for slot in world.slots():
        truth += [row for row in slot.truth if row["kind"] == "fault"]
        channels += [message.channel for message in slot.messages]
        frames += [orjson.loads(message.payload) for message in slot.messages]
    return frames, truth, channels


def test_potholes_kerbs_and_hard_braking_do_not_trigger_the_recorder(run: Any) -> None:
    _, truth, channels = run
    assert sorted(row["fault"] for row in truth) == sorted(NAMES * 3)
    assert set(channels) == {"telemetry"}


def test_an_emergency_braking_is_as_hard_as_its_truth_says_and_ends(run: Any) -> None:
    frames, truth, _ = run
    for row in (t for t in truth if t.get("fault") == "emergency_braking"):
        assert 1800 <= row["to_ms"] - row["from_ms"] <= 3200
        mine = [f for f in frames if f["vehicle_id"] == row["vehicle_id"]]
        hardest = min(
            a
            for f in mine
            for k, a in enumerate(f["accel_long_mps2"])
            if row["from_ms"] <= f["t0_ms"] + k * f["dt_ms"] <= row["to_ms"]
        )
        assert hardest == pytest.approx(row["details"]["decel_mps2"], abs=0.4)


def test_an_impact_has_no_length_and_every_row_is_whole(run: Any) -> None:
    _, truth, _ = run
    assert len({row["fault_id"] for row in truth}) == len(truth)
    for row in truth:
        assert row["from_ms"] <= row["full_ms"] <= row["to_ms"]
        if row["fault"] != "emergency_braking":
            assert row["to_ms"] == row["from_ms"]


def test_nobody_shows_a_trouble_code_for_what_happens_on_the_road(run: Any) -> None:
    frames, _, _ = run
    assert {code for f in frames for code in f["dtc_codes"]} == set()
