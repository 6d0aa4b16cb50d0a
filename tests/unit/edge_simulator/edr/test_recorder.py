"""The ring, the record and the memory: resolution, both profiles, what is incomplete, which events stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from edge_simulator.edr import pulse, recorder
from edge_simulator.edr.recorder import FLAGS, PROFILES, Memory, Ring
from infra.contract.messages import CRASH_EXTRAS, CRASH_KEYS, crash_digest, decode_crash
from load_tests.crash_table import VEHICLE_ID, ZERO_MS, driven, judge

GOLDEN = Path(__file__).parents[3] / "golden" / "crash.json"
SCENE: dict[str, Any] = {
    "vehicle_id": VEHICLE_ID, "boot_id": ZERO_MS - 60_000, "seq": 3, "event_ms": ZERO_MS,
    "lat_deg": 48.1371, "lon_deg": 11.5754, "has_engine": True, "ignition_cycle": 1042,
}  # fmt: skip
HARD = pulse.Pulse(pulse.haversine(-40.0, 110), pulse.haversine(3.0, 110))
SOFT = pulse.Pulse(pulse.haversine(-9.0, 110), np.zeros(570))


def sample(speed_kmh: float, ignition_on: bool = True, **numbers: float) -> dict[str, Any]:
    values = {"speed_kmh": speed_kmh, "accelerator_pct": 8.4, "engine_rpm": 2149.0, "steering_deg": -12.4}
    flags = {"brake_on": False, "abs_active": True, "esc_active": False, "driver_belt_on": True}
    wheels = {name: np.array([value]) for name, value in (values | numbers).items()}
    return wheels | {name: np.array([on]) for name, on in (flags | {"ignition_on": ignition_on}).items()}


def record_of(
    burst: pulse.Pulse, ring: Ring | None = None, profile: str = "us563_2024", **scene: Any
) -> dict[str, Any]:
    setup = PROFILES[profile]
    finding = judge(burst.long, burst.lat)
    event = Memory().store("c-1", 0, locked=bool(finding and finding.deployed_ms))
    assert finding is not None
    assert event is not None
    table = (ring or driven(setup)).harvest(0, ZERO_MS)
    return decode_crash(recorder.record(setup, table, finding, event, **(SCENE | scene)))


def test_the_ring_gives_back_each_element_at_its_resolution() -> None:
    ring = Ring(1, 3, 100)
    for k, speed in enumerate((49.6, 50.4, 251.0)):
        ring.record(100 * k, sample(speed))
    table = ring.harvest(0, 200.0)
    assert table["speed_kmh"].tolist() == [50, 50, 251]
    assert table["accelerator_pct"].tolist() == [8, 8, 8]
    assert table["engine_rpm"].tolist() == [2100, 2100, 2100]
    assert table["steering_deg"].tolist() == [-10, -10, -10]
    assert [table[name].tolist() for name in FLAGS] == [[0] * 3, [1] * 3, [0] * 3, [1] * 3, [1] * 3]


@pytest.mark.parametrize(("turned_deg", "kept_deg"), [(0.0, 0), (-2000.0, -635), (2000.0, 635), (13.0, 15)])
def test_the_steering_wheel_turns_to_both_sides(turned_deg: float, kept_deg: int) -> None:
    ring = Ring(1, 1, 100)
    ring.record(0, sample(50.0, steering_deg=turned_deg))
    assert ring.harvest(0, 0.0)["steering_deg"].tolist() == [kept_deg]


def test_a_vehicle_takes_about_a_kilobyte() -> None:
    ring = Ring(1000, 200, 100)
    arrays = [value for value in vars(ring).values() if isinstance(value, np.ndarray)]
    assert sum(a.nbytes for a in arrays) / 1000 < 1100


def test_a_ring_takes_one_sample_an_interval_and_holds_what_comes_rarely() -> None:
    ring = Ring(1, 4, 100)
    taken = []
    for k in range(1, 11):
        if ring.due(60 * k):
            ring.record(60 * k, sample(k))
            taken.append(60 * k)
    assert taken == [60, 120, 240, 300, 420, 540, 600]
    assert ring.harvest(0, 599.0)["speed_kmh"].tolist() == [4, 5, 7, 9]
    rare = Ring(1, 4, 100)
    rare.record(0, sample(10))
    rare.record(500, sample(20))
    assert rare.harvest(0, 650.0)["speed_kmh"].tolist() == [10, 10, 20, 20]


def test_what_was_before_the_first_sample_or_without_ignition_is_not_there() -> None:
    ring = Ring(1, 4, 100)
    ring.record(0, sample(1, ignition_on=False))
    ring.record(100, sample(2))
    ring.record(200, sample(3))
    assert [None if np.isnan(v) else v for v in ring.harvest(0, 200.0)["speed_kmh"]] == [None, None, 2, 3]


@pytest.mark.parametrize(("profile", "samples", "dt_ms"), [("us563_2006", 11, 500), ("us563_2024", 200, 100)])
def test_a_record_has_every_element_of_its_profile(profile: str, samples: int, dt_ms: int) -> None:
    record = record_of(HARD, profile=profile)
    assert set(record) - {"schema", "vehicle_id", "boot_id", "seq"} == {*CRASH_KEYS, *CRASH_EXTRAS} - {
        "pulse_mps2", "certificate", "signature",
    }  # fmt: skip
    assert (record["profile"], record["pre_crash_dt_ms"], record["complete"]) == (profile, dt_ms, True)
    assert {len(column) for column in record["pre_crash"].values()} == {samples}
    assert (len(record["delta_v_kmh"]), len(record["delta_v_lat_kmh"])) == (26, 26)
    assert all(type(v) is int for v in (*record["delta_v_kmh"], record["delta_v_max_kmh"]))
    assert record["delta_v_max_ms"] % 2.5 == 0
    assert record["belt_on"] is True


def test_the_record_is_the_golden_one() -> None:
    finding = judge(HARD.long, HARD.lat)
    event = Memory().store("c-1", 0, locked=True)
    assert finding is not None
    assert event is not None
    table = driven(PROFILES["us563_2024"]).harvest(0, ZERO_MS)
    shown = recorder.raw_pulse(HARD, finding.zero_ms, finding.zero_ms)
    raw = recorder.record(PROFILES["us563_2024"], table, finding, event, **SCENE, pulse_mps2=shown)
    assert raw == GOLDEN.read_bytes()
    record = decode_crash(raw)
    assert record["sha256"] == crash_digest(record)
    assert (record["airbag_ms"], record["locked"], record["multi_event"]) == (46, True, 1)
    assert record["pulse_mps2"]["from_ms"] == -57
    assert min(record["pulse_mps2"]["long"]) == -202.0
    assert orjson.dumps(record) == raw


def test_an_event_without_deployment_is_not_locked() -> None:
    record = record_of(SOFT)
    assert (record["locked"], record["airbag_deployed"], record["airbag_ms"]) == (False, False, None)
    assert record["restraints_ms"] == {"pretensioner": None, "front_airbag": None, "side_airbag": None}


def test_a_ring_that_is_not_full_makes_the_record_incomplete() -> None:
    ring = Ring(1, 200, 100)
    for back in range(50, -1, -1):
        ring.record(ZERO_MS - 100 * back, sample(50.0))
    record = record_of(HARD, ring)
    assert record["complete"] is False
    assert record["pre_crash"]["speed_kmh"][:149] == [None] * 149
    assert record["pre_crash"]["speed_kmh"][149:] == [50] * 51


def test_an_electric_vehicle_has_no_engine_speed() -> None:
    assert set(record_of(HARD, has_engine=False)["pre_crash"]["engine_rpm"]) == {None}


def test_the_belt_is_that_of_1_s_before() -> None:
    ring = Ring(1, 200, 100)
    for back in range(201, -1, -1):
        unbelted = {"driver_belt_on": np.array([back > 5])}
        ring.record(ZERO_MS - 100 * back, sample(50.0) | unbelted)
    assert record_of(HARD, ring)["belt_on"] is True


@pytest.mark.parametrize(
    ("stored", "held"),
    [
        pytest.param("c0 c1 c2", "c1 c2", id="without a deployment the oldest goes when a third comes"),
        pytest.param("a0 c0 c1 c2 c3 c4 c5", "a0 c4 c5", id="a deployment is never overwritten"),
        pytest.param("a0 a1 c0 c1 a2", "a0 a1 c1 a2", id="a deployment replaces the oldest without"),
    ],
)
def test_which_events_a_memory_holds(stored: str, held: str) -> None:
    """Names beginning with ``a`` are deployments; all are crashes of their own."""
    memory = Memory()
    for k, name in enumerate(stored.split()):
        assert memory.store(name, 60_000 * k, locked=name.startswith("a")) is not None
    assert [event.crash_id for event in memory.events] == held.split()


def test_a_memory_full_of_deployments_takes_nothing_more() -> None:
    memory = Memory()
    for k in range(4):
        memory.store(f"a{k}", 60_000 * k, locked=True)
    assert memory.store("a4", 300_000, locked=True) is None
    assert memory.store("c0", 300_000, locked=False) is None
    assert [event.crash_id for event in memory.events] == ["a0", "a1", "a2", "a3"]


def test_a_second_event_within_5_s_belongs_to_the_first() -> None:
    memory = Memory()
    first = memory.store("c0", 1000, locked=False)
    second = memory.store("c1", 6000, locked=True)
    assert first is not None
    assert second is not None
    assert (first.number, second.number, second.first) == (1, 2, first)


def test_an_event_more_than_5_s_later_is_a_crash_of_its_own() -> None:
    memory = Memory()
    memory.store("c0", 1000, locked=False)
    later = memory.store("c1", 6001, locked=False)
    assert later is not None
    assert (later.number, later.first) == (1, None)


def test_a_third_event_of_one_crash_is_kept_only_with_a_deployment() -> None:
    memory = Memory()
    memory.store("c0", 0, locked=False)
    memory.store("c1", 1000, locked=False)
    assert memory.store("c2", 2000, locked=False) is None
    third = memory.store("a0", 3000, locked=True)
    assert third is not None
    assert third.number == 2
