"""The order of a vehicle's frames and the memory of a bucket: whatever the way did, the same comes out."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from infra.contract.settings import Settings
from stream_jobs.vehicles.beat import NOTHING_SAID, Beat, HarshRun
from stream_jobs.vehicles.core import Core, VehicleState
from stream_jobs.vehicles.journeys.rows import FINAL, HarshRow, IdleRow, StopRow, TripRow
from stream_jobs.vehicles.limits import core_limits
from stream_jobs.vehicles.plugged import Detection
from stream_jobs.vehicles.replay import replay
from stream_jobs.vehicles.rows import BehindRow, Row
from stream_jobs.vehicles.sequencer import Arrival
from stream_jobs.vehicles.state import Bucket, adopt, dump_vehicle, load_vehicle

CORE = Core(core_limits(Settings()), Detection())
T0 = 1_780_000_000_000
HOLD_MS = 30_000
VEHICLE = "WDB1240001A000001"


def arrival(
    seq: int, kmh: float = 36.0, *, boot: int = 1, behind_ms: int = 0, void: bool = False, **more: Any
) -> Arrival:
    """A frame a second, northwards; received 1.5 s after its first sample and ``behind_ms`` more."""
    t0 = T0 + seq * 1000
    moves = kmh >= 1
    known: dict[str, Any] = {
        "vehicle_id": VEHICLE, "boot_id": boot, "seq": seq, "t0_ms": t0, "end_ms": t0 + 1000,
        "received_ms": t0 + 1500 + behind_ms, "ignition_on": True, "lat_deg": 48 + seq * 1e-4,
        "lon_deg": 11.5, "heading_deg": 0.0, "speed_kmh": kmh, "speed_max_kmh": kmh, "distance_m": kmh /
        3.6, "fuel_l": 0.001, "energy_kwh": None, "said": NOTHING_SAID, "moving_ms": 1000 if moves else 0,
        "moving_from_ms": t0 if moves else None, "moving_to_ms": t0 + 1000 if moves else None,
    }  # fmt: skip
    beat = Beat(**(known | more))
    return Arrival(boot, seq, t0, beat.received_ms, None if void else beat)


def drive() -> list[Arrival]:
    """100 s of driving with a hard stop, 200 s of standing, twice; frames 40 to 42 never come."""
    made = [arrival(s, 36.0 if s % 300 < 100 else 0.0) for s in range(600) if s not in (40, 41, 42)]
    hard = HarshRun("brake", T0 + 99_400, T0 + 99_900, 5.0, 36.0)
    made[96] = arrival(99, 36.0, harsh=(hard,))
    return made


def told(arrivals: list[Arrival], cuts: set[int]) -> list[Row]:
    """Rows out of ``arrivals``, the memory written and read at each of ``cuts``, then a day of silence."""
    rows: list[Row] = []
    state = CORE.new()
    batch: list[Arrival] = []
    for place, each in enumerate(arrivals):
        if place in cuts:
            rows += CORE.take(state, batch)
            state, batch = load_vehicle(dump_vehicle(state)), []
        batch.append(each)
    rows += CORE.take(state, batch)
    return [*rows, *silence(state)]


def silence(state: VehicleState) -> list[Row]:
    return list(CORE.expire(state, state.clock_ms + 86_400_000))


def journeys(rows: list[Row]) -> dict[Any, Row]:
    """The last word of each key."""
    found: dict[Any, Row] = {}
    for row in rows:
        if isinstance(row, TripRow):
            found["trip", row.started_ms] = row
        elif isinstance(row, StopRow | IdleRow | HarshRow):
            found[type(row).__name__, row.began_ms] = row
    return found


EXPECTED = journeys(told(drive(), set()))


def test_the_drive_has_the_trips_stops_and_events_that_a_person_sees() -> None:
    trips = [row for row in EXPECTED.values() if isinstance(row, TripRow)]
    assert [(t.started_ms - T0, t.ended_ms - T0, t.phase, t.harsh_brake) for t in trips] == [
        (0, 100_000, FINAL, 1),
        (300_000, 400_000, FINAL, 0),
    ]
    events = [row for row in EXPECTED.values() if isinstance(row, HarshRow)]
    assert [(e.kind, e.peak_g, e.grade) for e in events] == [("brake", 0.51, 2)]
    idle = [row for row in EXPECTED.values() if isinstance(row, IdleRow)]
    assert [round(row.fuel_l or 0, 3) for row in idle] == [0.2, 0.2]


@settings(max_examples=20)
@given(seed=st.integers(0, 10_000), cuts=st.sets(st.integers(0, 700), max_size=6))
def test_any_disorder_within_the_hold_copies_and_any_batches_give_the_same(seed: int, cuts: set[int]) -> None:
    rng = random.Random(seed)
    arrivals = [(each.received_ms + rng.randrange(HOLD_MS // 2), each) for each in drive()]
    arrivals += [(at + rng.randrange(60_000), each) for at, each in arrivals if rng.random() < 0.1]
    come = [_received(each, at) for at, each in sorted(arrivals, key=lambda pair: pair[0])]
    assert journeys(told(come, cuts)) == EXPECTED
    assert journeys(list(replay(CORE, come, T0 + 10**9))) == EXPECTED


def _received(each: Arrival, at_ms: int) -> Arrival:
    return Arrival(each.boot_id, each.seq, each.t0_ms, at_ms, each.beat)


def test_a_gap_is_waited_for_and_what_comes_after_it_was_given_up_is_behind() -> None:
    state = CORE.new()
    first = [arrival(s) for s in range(10)] + [arrival(s) for s in range(11, 20)]
    list(CORE.take(state, first))
    assert state.order.next_seq == 10
    list(CORE.take(state, [arrival(20, behind_ms=HOLD_MS)]))
    assert state.order.next_seq == 21
    rows = list(CORE.take(state, [arrival(10, behind_ms=HOLD_MS + 20_000)]))
    assert rows == [BehindRow(VEHICLE, T0 + 10_000, T0 + 11_000, T0 + 61_500, 1)]
    assert list(CORE.take(state, [arrival(10, behind_ms=HOLD_MS + 20_000)])) == []


def test_the_number_of_a_frame_with_an_impossible_clock_is_not_waited_for() -> None:
    state = CORE.new()
    list(CORE.take(state, [arrival(0), arrival(1, void=True), arrival(2), arrival(10**6, void=True)]))
    assert state.order.next_seq == 3
    assert state.order.held == []


def test_an_outages_store_sent_beside_live_frames_extends_the_trip_under_the_same_id() -> None:
    state = CORE.new()
    rows = list(CORE.take(state, [arrival(s) for s in range(60)]))
    rows += CORE.expire(state, T0 + 600_000)
    stored = [arrival(s, behind_ms=900_000 - 800 * (s - 60)) for s in range(60, 960)]
    live = [arrival(s) for s in range(960, 1200)]
    come = sorted([*stored, *live], key=lambda each: each.received_ms)
    rows += CORE.take(state, come)
    rows += CORE.take(state, [arrival(s, 0.0) for s in range(1200, 1400)])
    trips = [row for row in rows if isinstance(row, TripRow)]
    assert {t.trip_id for t in trips} == {trips[0].trip_id}
    assert [t.phase for t in trips if t.phase != "open"] == ["provisional", "final"]
    assert (trips[-1].ended_ms - trips[-1].started_ms, trips[-1].distance_m) == (1_200_000, 12_000.0)
    assert not [row for row in rows if isinstance(row, BehindRow)]


def test_a_second_device_under_the_same_name_with_a_lower_boot_takes_no_part() -> None:
    state = CORE.new()
    list(CORE.take(state, [arrival(s, boot=2) for s in range(10)]))
    rows = list(CORE.take(state, [arrival(s, boot=1) for s in range(10)]))
    assert rows == []
    assert state.order.boot_id == 2


def test_the_memory_of_a_rule_survives_a_change_of_the_other_rules_and_not_its_own() -> None:
    state = CORE.new()
    state.memories, state.dues = [(1, ("x",)), (2,)], [None, 5]
    bucket = Bucket({VEHICLE: dump_vehicle(state)}, {VEHICLE: 5}, ["coolant@1", "silent@1"])
    adopt(bucket, ["silent@1", "coolant@2", "speed@1"])
    after = load_vehicle(bucket.vehicles[VEHICLE])
    assert after.memories == [(2,), None, None]
    assert after.dues == [5, None, None]
    assert bucket.rules == ["silent@1", "coolant@2", "speed@1"]
