"""The recorders of a fleet, asked about scripted impacts on vehicles that drive."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pytest

from edge_simulator.edr import pulse
from edge_simulator.edr.pulse import Pulse
from edge_simulator.edr.recorder import BlackBoxes, Sealed, Setup
from edge_simulator.scenario import Scenario, cadence
from edge_simulator.world import World
from infra.contract.messages import crash_digest, decode_crash, join_crash
from load_tests import crash_table

pytestmark = pytest.mark.slow

START_MS = 1_760_000_000_000
WIDE = np.zeros(570)
FRONT = Pulse(pulse.haversine(-30.0, 110), WIDE)
LIGHT = Pulse(pulse.haversine(-9.0, 110), WIDE)
SIDE = Pulse(WIDE, pulse.haversine(-25.0, 110))


def then(first: Pulse, second: Pulse, gap_ms: int) -> Pulse:
    """Two pulses in one burst; ``gap_ms`` of quiet are added between them."""
    quiet = np.zeros(gap_ms)
    return Pulse(np.r_[first.long, quiet, second.long], np.r_[first.lat, quiet, second.lat])


class Bench:
    """A small fleet whose recorders are fed for a while; then impacts are scripted, in steps of 100 ms."""

    def __init__(self, setup: Setup | None = None, fed_s: int = 21) -> None:
        beat = cadence(20, None, 1000)
        self.world = World(
            Scenario(seed=7, vehicles=20, cadence=beat, start_ms=START_MS, frames_per_vehicle=1)
        )
        world = self.world
        self.boxes = BlackBoxes(world.vehicle_ids, world.fleet, world.instruments, 100, setup or Setup())
        self.now_ms = -1000 * fed_s
        self.sealed: list[Sealed] = []
        self.step(10 * fed_s)
        self.vehicle = int(np.argmax(world.fleet.state.v))

    def step(self, steps: int, impact: tuple[int, Pulse] | None = None) -> None:
        for _ in range(steps):
            self.now_ms += 100
            self.world.fleet.step(0.1)
            self.world.machine.step(self.world.fleet.state, self.world.fleet.ignition_on(), 0.1)
            if impact is not None:
                self.boxes.process_impact(*impact, self.now_ms)
                impact = None
            self.sealed += self.boxes.sealed(self.now_ms, START_MS, START_MS)
            self.boxes.sample(self.now_ms)

    def hit(self, felt: Pulse, vehicle: int | None = None) -> None:
        """An impact in the next step."""
        self.step(1, (self.vehicle if vehicle is None else vehicle, felt))

    def records(self) -> list[dict[str, Any]]:
        return [decode_crash(payload) for sealed in self.sealed for payload in sealed.payloads]


@pytest.fixture
def bench() -> Bench:
    """Fed for a second only, where nothing is asked of the time before an impact."""
    return Bench(fed_s=1)


def test_an_impact_becomes_a_record_due_250_ms_after_time_zero() -> None:
    bench = Bench()
    bench.hit(FRONT)
    (record,) = bench.records()
    (sealed,) = bench.sealed
    assert 0 <= record["event_ms"] - START_MS <= 100
    assert sealed.due_ms == record["sent_ms"] == record["event_ms"] + 250
    assert (record["delta_v_max_kmh"], record["complete"], record["multi_event"]) == (-30, True, 1)
    assert record["sha256"] == crash_digest(record)


def test_two_crashes_within_5_s_are_events_1_and_2(bench: Bench) -> None:
    bench.hit(LIGHT)
    bench.step(29)
    bench.hit(FRONT)
    first, second = bench.records()
    assert (first["multi_event"], first["first_crash_id"], first["locked"]) == (1, None, False)
    assert (second["multi_event"], second["first_crash_id"]) == (2, first["crash_id"])
    assert second["event_1_to_2_ms"] == 3000
    assert second["crash_id"] != first["crash_id"]
    assert [e.locked for e in bench.boxes.memories[bench.vehicle].events] == [False, True]


def test_two_pulses_of_one_burst_are_events_1_and_2_each_when_it_happens(bench: Bench) -> None:
    both = then(LIGHT, FRONT, 900)
    bench.hit(both)
    assert [r["multi_event"] for r in bench.records()] == [1]
    bench.step(20)
    first, second = bench.records()
    gap_ms = second["event_ms"] - first["event_ms"]
    assert second["event_1_to_2_ms"] == round(gap_ms / 100) * 100
    assert second["pre_crash"]["speed_kmh"] != first["pre_crash"]["speed_kmh"]


def test_two_crashes_more_than_5_s_apart_are_two_crashes(bench: Bench) -> None:
    bench.hit(LIGHT)
    bench.step(50)
    bench.hit(LIGHT)
    assert [r["multi_event"] for r in bench.records()] == [1, 1]


def test_an_air_bag_fires_once(bench: Bench) -> None:
    bench.hit(FRONT)
    bench.step(19)
    bench.hit(FRONT)
    first, second = bench.records()
    assert (first["airbag_deployed"], second["airbag_deployed"]) == (True, False)
    assert second["delta_v_max_kmh"] == -30


def test_a_stone_that_fires_a_pretensioner_makes_a_record_below_8_kmh(bench: Bench) -> None:
    stone = crash_table.strike(7.0, 20)
    bench.hit(stone)
    (record,) = bench.records()
    assert record["delta_v_max_kmh"] == -7
    assert record["restraints_ms"] == {"pretensioner": 29, "front_airbag": None, "side_airbag": None}
    assert (record["airbag_deployed"], record["locked"]) == (False, True)


def test_a_hit_on_the_side_is_recorded_on_the_lateral_axis(bench: Bench) -> None:
    bench.hit(SIDE)
    (record,) = bench.records()
    assert (record["delta_v_lat_max_kmh"], record["delta_v_max_kmh"]) == (-24, 0)
    assert record["restraints_ms"]["side_airbag"] is not None
    assert record["airbag_deployed"] is True


def test_knocks_make_no_record(bench: Bench) -> None:
    for seed, draw in enumerate(crash_table.KNOCKS.values()):
        bench.hit(draw(np.random.default_rng(seed)))
    bench.step(50)
    assert bench.records() == []


def test_a_parked_vehicles_recorder_sleeps() -> None:
    bench = Bench()
    parked = int(np.flatnonzero(bench.world.fleet.state.parked)[0])
    bench.hit(FRONT, parked)
    assert bench.records() == []


def test_the_older_profile_records_5_s_at_2_hz() -> None:
    bench = Bench(Setup(profile="us563_2006"))
    bench.hit(FRONT)
    (record,) = bench.records()
    assert (record["pre_crash_dt_ms"], record["complete"]) == (500, True)
    assert {len(column) for column in record["pre_crash"].values()} == {11}


def test_a_crash_of_two_events_with_its_pulse_is_sent_in_parts() -> None:
    bench = Bench(Setup(keep_pulse=True))
    bench.hit(then(LIGHT, FRONT, 900))
    bench.step(20)
    assert [len(sealed.payloads) for sealed in bench.sealed] == [1, 2]
    parts = [orjson.loads(payload) for payload in bench.sealed[1].payloads]
    whole = decode_crash(join_crash([part["data"] for part in parts], parts[0]["sha256"]))
    assert whole["multi_event"] == 2
    begin_ms = whole["pulse_mps2"]["from_ms"]
    assert begin_ms + 100 < -whole["event_1_to_2_ms"] + 100 < 0
    assert crash_table.judge(np.array(whole["pulse_mps2"]["long"])) is not None
