"""Recorders in the running world: what happens on the road every day triggers none, a crash does."""

from __future__ import annotations

import numpy as np
import pytest

from edge_simulator.edr.recorder import Setup
from edge_simulator.faults.plan import Wanted
from edge_simulator.geo import Floats
from edge_simulator.scenario import Scenario, cadence
from edge_simulator.telemetry.outbox import take_due
from edge_simulator.world import World
from infra.contract import messages
from load_tests.crash_table import judge

pytestmark = pytest.mark.slow

START_MS = 1_760_000_000_000
STEP_S = 0.1


def scenario(**changes: object) -> Scenario:
    base = {"seed": 11, "vehicles": 60, "cadence": cadence(60, None, 1000), "frames_per_vehicle": 20}
    return Scenario(start_ms=START_MS, **(base | changes))  # type: ignore[arg-type]


def crashes_of(world: World) -> list[dict[str, object]]:
    sent = [m for slot in world.slots() for m in slot.messages] + take_due(world.emitter.queue)
    return [messages.decode_crash(m.payload) for m in sent if m.channel == "crash"]


@pytest.fixture(scope="module")
def braked() -> tuple[World, Floats, int]:
    """A run in which every other driver stamps on the brake now and then, between potholes; speeds, m/s."""
    world = World(scenario(faults=(Wanted("pothole", count=12),)))
    motion, speeds, crashes = world.fleet.state, [], 0
    for k, slot in enumerate(world.slots()):
        if k % 50 == 0:
            motion.emergency_until[::2] = world.fleet.t_s + 2.5
            motion.emergency_mps2[::2] = -9.0
        speeds.append(motion.v.copy())
        crashes += sum(m.channel == "crash" for m in slot.messages)
    return world, np.array(speeds), crashes


def test_emergency_braking_and_potholes_send_no_crash_record(braked: tuple[World, Floats, int]) -> None:
    world, _, crashes = braked
    assert world.counts["begun_faults"] >= 8
    assert crashes == world.counts["crashes"] == 0


def test_no_vehicles_motion_would_trigger_its_recorder(braked: tuple[World, Floats, int]) -> None:
    _, speeds, _ = braked
    accel = np.diff(speeds, axis=0) / STEP_S
    assert accel.min() < -8.5
    hard = np.flatnonzero(accel.min(axis=0) < -7.0)
    assert len(hard) > 10
    for vehicle in hard:
        assert judge(np.repeat(accel[:, vehicle], 100)) is None


def test_a_crash_among_them_sends_one_record_in_the_profile_asked_for() -> None:
    world = World(
        scenario(
            faults=(Wanted("crash", count=1), Wanted("pothole", count=3)),
            recorders=Setup(profile="us563_2006", keep_pulse=True, chunk_bytes=2048),
        )
    )
    parts = crashes_of(world)
    assert [part["part"] for part in parts] == list(range(len(parts)))
    assert len(parts) > 2
    assert (world.counts["crashes"], parts[0]["profile"], parts[0]["complete"]) == (1, "us563_2006", True)


def test_a_vehicle_hit_twice_sends_events_1_and_2_and_its_truth_has_both() -> None:
    world = World(scenario(faults=(Wanted("multi_crash", count=3),)))
    truth, records = [], []
    for slot in world.slots():
        truth += [row for row in slot.truth if row.get("fault") == "multi_crash"]
        records += [messages.decode_crash(p) for sealed in slot.crashes for p in sealed.payloads]
    assert [row["details"].get("impact") for row in truth].count(2) == 3
    seconds = [r for r in records if r["multi_event"] == 2]
    firsts = {r["crash_id"] + r["vehicle_id"] for r in records if r["multi_event"] == 1}
    assert len(seconds) >= 2
    assert len({row["vehicle_id"] for row in truth}) == len(firsts) == 3
    for record in seconds:
        assert record["first_crash_id"] + record["vehicle_id"] in firsts
        assert 200 <= record["event_1_to_2_ms"] <= 600


def test_a_record_is_told_when_it_is_sealed_before_it_is_due() -> None:
    world = World(scenario(faults=(Wanted("crash", count=1),)))
    kept: list[bytes] = []
    for slot in world.slots():
        kept += [payload for sealed in slot.crashes for payload in sealed.payloads]
        for message in (m for m in slot.messages if m.channel == "crash"):
            assert message.payload in kept
    assert len(kept) == 1
