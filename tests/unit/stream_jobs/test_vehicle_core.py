"""The order of a vehicle's frames and the memory of a bucket: whatever the way did, the same comes out."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.settings.settings import Settings
from stream_jobs.alerts.derive import AlertRow
from stream_jobs.rules.inputs import FLAGS, RuleInputs
from stream_jobs.rules.model import VEHICLES, load_rules, of_query
from stream_jobs.rules.rule_set import RuleSet, of_rules
from stream_jobs.vehicles.core import Core
from stream_jobs.vehicles.features import KINDS
from stream_jobs.vehicles.fleet import Fleet, dump, load
from stream_jobs.vehicles.rows import FINAL, HarshRow, IdleRow, LateVehicleFrames, Row, StopRow, TripRow
from stream_jobs.windows.open_windows import Memory
from tests.support_vehicles import Evaluation, features_of, inputs_of
from tests.unit.stream_jobs.rules.traces import rule

pytestmark = pytest.mark.slow

CORE = Core(Settings().jobs, Settings().journeys, RuleSet())
T0 = 1_780_000_000_000
HOLD_MS = 30_000
VEHICLE = "WDB1240001A000001"
Frame = dict[str, Any]


def frame(
    seq: int, kmh: float = 36.0, *, boot: int = 1, behind_ms: int = 0, void: bool = False, **more: Any
) -> Frame:
    """A frame a second, northwards; received 1.5 s after its first sample and ``behind_ms`` more."""
    t0 = T0 + seq * 1000
    moves = kmh >= 1
    return {
        "boot_id": boot, "seq": seq, "t0_ms": t0, "end_ms": t0 + 1000,
        "received_ms": t0 + 1500 + behind_ms, "believed": not void, "ignition_on": True,
        "lat_deg": 48 + seq * 1e-4, "lon_deg": 11.5, "heading_deg": 0.0, "speed_kmh": kmh,
        "speed_max_kmh": kmh, "distance_m": kmh / 3.6, "fuel_l": 0.001,
        "moving_ms": 1000 if moves else 0, "moving_from_ms": t0 if moves else None,
        "moving_to_ms": t0 + 1000 if moves else None,
    } | more  # fmt: skip


def drive() -> list[Frame]:
    """100 s of driving with a hard stop, 200 s of standing, twice; frames 40 to 42 never come."""
    made = [frame(s, 36.0 if s % 300 < 100 else 0.0) for s in range(600) if s not in (40, 41, 42)]
    made[96] = frame(99, 36.0, runs=(KINDS.index("brake"), T0 + 99_400, T0 + 99_900, 5.0, 36.0))
    return made


def take(fleet: Fleet, frames: list[Frame]) -> list[Row]:
    return CORE.take(fleet, features_of(frames, vehicles=[VEHICLE] * len(frames))) if frames else []


def fresh() -> Fleet:
    return Fleet(RuleSet())


def again(fleet: Fleet) -> Fleet:
    """As a checkpoint gives it back."""
    return load(dump(fleet, Memory()), RuleSet())[0]


def told(frames: list[Frame], cuts: set[int]) -> list[Row]:
    """Rows out of ``frames``, the memory written and read at each of ``cuts``, then a day of silence."""
    fleet, rows, begin = fresh(), list[Row](), 0
    for end in [*sorted(cut for cut in cuts if cut < len(frames)), len(frames)]:
        rows += take(fleet, frames[begin:end])
        fleet, begin = again(fleet), end
    return [*rows, *silence(fleet, 86_400_000)]


def silence(fleet: Fleet, for_ms: int) -> list[Row]:
    return CORE.expire(fleet, int(fleet.vehicles["clock"][0]) + for_ms)


def journeys(rows: list[Row]) -> dict[Any, Row]:
    """The last word of each key."""
    found: dict[Any, Row] = {}
    for row in rows:
        if isinstance(row, TripRow):
            found["trip", row.started_ms] = row
        elif isinstance(row, StopRow | IdleRow | HarshRow):
            found[type(row).__name__, row.began_ms] = row
    return found


@cache
def expected() -> dict[Any, Row]:
    """Of the drive in order and in one batch."""
    return journeys(told(drive(), set()))


def test_the_drive_has_the_trips_stops_and_events_that_a_person_sees() -> None:
    trips = [row for row in expected().values() if isinstance(row, TripRow)]
    assert [(t.started_ms - T0, t.ended_ms - T0, t.phase, t.harsh_brake) for t in trips] == [
        (0, 100_000, FINAL, 1),
        (300_000, 400_000, FINAL, 0),
    ]
    events = [row for row in expected().values() if isinstance(row, HarshRow)]
    assert [(e.kind, e.peak_g, e.grade) for e in events] == [("brake", 0.51, 2)]
    idle = [row for row in expected().values() if isinstance(row, IdleRow)]
    assert [round(row.fuel_l or 0, 3) for row in idle] == [0.2, 0.2]


@settings(max_examples=10)
@given(seed=st.integers(0, 10_000), cuts=st.sets(st.integers(0, 700), max_size=6))
def test_any_disorder_within_the_hold_copies_and_any_batches_give_the_same(seed: int, cuts: set[int]) -> None:
    rng = random.Random(seed)
    frames = [(each["received_ms"] + rng.randrange(HOLD_MS // 2), each) for each in drive()]
    frames += [(at + rng.randrange(60_000), each) for at, each in frames if rng.random() < 0.1]
    come = [each | {"received_ms": at} for at, each in sorted(frames, key=lambda pair: pair[0])]
    assert journeys(told(come, cuts)) == expected()
    whole = features_of(come, vehicles=[VEHICLE] * len(come))
    assert journeys(CORE.replay(whole, T0 + 10**9)) == expected()


def test_a_gap_is_waited_for_and_what_comes_after_it_was_given_up_is_behind() -> None:
    fleet = fresh()
    take(fleet, [frame(s) for s in range(10)] + [frame(s) for s in range(11, 20)])
    assert fleet.order(0).next_seq == 10
    take(fleet, [frame(20, behind_ms=HOLD_MS)])
    assert fleet.order(0).next_seq == 21
    rows = take(fleet, [frame(10, behind_ms=HOLD_MS + 20_000)])
    assert rows == [LateVehicleFrames(VEHICLE, T0 + 10_000, T0 + 11_000, T0 + 61_500, 1)]
    assert take(fleet, [frame(10, behind_ms=HOLD_MS + 20_000)]) == []


def test_a_vehicle_met_midway_behind_a_frame_that_waits_has_the_same_order_in_any_batches() -> None:
    at_ms = T0 + 900_000
    first, next_ms = frame(5, received_ms=at_ms), range(at_ms + 1000, at_ms + 41_000, 1000)
    then = [frame(700 + k, received_ms=received_ms) for k, received_ms in enumerate(next_ms)]
    orders = []
    for batches in ([[first, *then]], [[first], then]):
        fleet = fresh()
        for batch in batches:
            take(fleet, batch)
        orders.append(fleet.order(0))
    assert orders[0] == orders[1]
    assert (orders[1].next_seq, orders[1].gaps) == (740, [(1, 0, 4), (1, 6, 699)])


def test_the_number_of_a_frame_with_an_impossible_clock_is_not_waited_for() -> None:
    fleet = fresh()
    take(fleet, [frame(0), frame(1, void=True), frame(2), frame(10**6, void=True)])
    assert fleet.order(0).next_seq == 3
    assert fleet.order(0).held == []


def test_an_outages_store_sent_beside_live_frames_extends_the_trip_under_the_same_id() -> None:
    fleet = fresh()
    rows = take(fleet, [frame(s) for s in range(60)])
    rows += CORE.expire(fleet, T0 + 600_000)
    stored = [frame(s, behind_ms=900_000 - 800 * (s - 60)) for s in range(60, 960)]
    live = [frame(s) for s in range(960, 1200)]
    rows += take(fleet, sorted([*stored, *live], key=lambda each: each["received_ms"]))
    rows += take(fleet, [frame(s, 0.0) for s in range(1200, 1400)])
    trips = [row for row in rows if isinstance(row, TripRow)]
    assert {t.trip_id for t in trips} == {trips[0].trip_id}
    assert [t.phase for t in trips if t.phase != "open"] == ["provisional", "final"]
    assert (trips[-1].ended_ms - trips[-1].started_ms, trips[-1].distance_m) == (1_200_000, 12_000.0)
    assert not [row for row in rows if isinstance(row, LateVehicleFrames)]


def test_a_second_device_under_the_same_name_with_a_lower_boot_takes_no_part() -> None:
    fleet = fresh()
    take(fleet, [frame(s, boot=2) for s in range(10)])
    assert take(fleet, [frame(s, boot=1) for s in range(10)]) == []
    assert fleet.order(0).boot_id == 2


def test_a_vehicle_that_was_silent_for_long_is_forgotten_and_the_others_keep_their_memory() -> None:
    fleet = fresh()
    CORE.take(fleet, features_of([frame(0), frame(0), frame(0)], vehicles=["A", "B", "C"]))
    CORE.take(fleet, features_of([frame(86_400 * 40)], vehicles=["B"]))
    CORE.expire(fleet, T0 + 86_400_000 * 40)
    fleet = again(fleet)
    assert fleet.ids == ["B"]
    assert (fleet.order(0).next_seq, fleet.vehicles["last_seq"][0]) == (1, 0)


def anything(rng: np.random.Generator, seconds: range, rules: int) -> Any:
    """Frames of three vehicles whose rules say anything: all flags, values about their limits."""
    frames = [frame(s) for s in seconds for _ in "ABC"]
    n = len(frames)
    flags = rng.integers(-1, 2, (len(FLAGS), rules, n)).astype(np.int8)
    values = np.where(rng.random((rules, n)) < 0.5, rng.normal(10, 5, (rules, n)), np.nan)
    said = RuleInputs(flags, values, np.full((rules, n), 10.0), {})
    return features_of(frames, said, ["A", "B", "C"] * len(seconds))


def test_memories_of_all_shipped_rules_survive_a_checkpoint_and_a_change_of_the_other_rules() -> None:
    unnamed = [rule for rule in of_query(load_rules(), VEHICLES) if not rule.names]
    core, rng = Core(Settings().jobs, Settings().journeys, of_rules(unnamed)), np.random.default_rng(5)
    fleet = Fleet(of_rules(unnamed))
    core.take(fleet, anything(rng, range(300), len(unnamed)))
    blob = dump(fleet, Memory())
    assert dump(load(blob, of_rules(unnamed))[0], Memory()) == blob
    assert sum(memory.on.any() for memory in fleet.detectors) > 20
    other, _ = load(blob, of_rules(unnamed[::-1][1:]))
    for name, memory in zip(other.rules, other.detectors, strict=True):
        before = fleet.detectors[fleet.rules.index(name)]
        assert memory.on.tolist() == before.on.tolist()
        assert memory.rows[memory.on].tobytes() == before.rows[before.on].tobytes()


@pytest.mark.parametrize("names", [("gears", None), (None, "gears")])
def test_a_frame_that_waits_is_taken_though_its_rule_has_lost_or_got_names_in_the_same_version(
    tmp_path: Path, names: tuple[str | None, str | None]
) -> None:
    fleet, rows = Fleet(()), list[Row]()
    for each, seqs in zip(names, ((0, 2), (3, 1)), strict=True):
        rule_set = of_rules([rule(tmp_path, kind="count", names=each)])
        told = Evaluation(True, names=("4",) if each else ())
        inputs = inputs_of([[told], [told]], [0] if each else [])
        fleet, _ = load(dump(fleet, Memory()), rule_set)
        core = Core(Settings().jobs, Settings().journeys, rule_set)
        rows += core.take(fleet, features_of([frame(seq) for seq in seqs], inputs))
    assert (fleet.order(0).next_seq, fleet.held) == (4, None)
    assert [row.seq for row in rows if isinstance(row, AlertRow)] == [0, 1]
