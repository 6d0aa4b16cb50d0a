"""The world's messages: same seed same bytes, frames by the contract, joined without gaps, all in range."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import orjson
import pytest

from edge_simulator import faults
from edge_simulator.scenario import LinkShares, Scenario, cadence
from edge_simulator.telemetry.outbox import Outgoing, take_due
from edge_simulator.world import World
from infra.contract import frame, messages
from infra.contract.signals import FAST, SIGNALS

pytestmark = pytest.mark.slow

START_MS = 1_760_000_000_000
BASE = Scenario(
    seed=7, vehicles=40, cadence=cadence(40, None, 1000), start_ms=START_MS, frames_per_vehicle=25
)
MISHAPS = LinkShares(
    late=0.05, late_beyond=0.02, duplicate=0.05, disorder=0.05, lost=0.03, clock_ahead=0.02, clock_unset=0.02,
    poison=0.03,
)  # fmt: skip
FAULTS = tuple(
    faults.Wanted(name, count=2)
    for name in ("crash", "pothole", "overheating", "rapid_leak", "slow_leak", "weak_battery")
)


def everything(scenario: Scenario) -> tuple[World, list[Outgoing], list[dict[str, Any]]]:
    """All messages of a run in order of sending, and its truth."""
    world = World(scenario)
    sent, truth = [], []
    for slot in world.slots():
        sent += slot.messages
        truth += slot.truth
    return world, sent + take_due(world.emitter.queue), truth


@pytest.fixture(scope="module")
def calm() -> tuple[World, list[Outgoing], list[dict[str, Any]]]:
    return everything(BASE)


@pytest.fixture(scope="module")
def rough() -> tuple[World, list[Outgoing], list[dict[str, Any]]]:
    return everything(BASE.model_copy(update={"link": MISHAPS, "faults": FAULTS}))


def test_the_same_seed_gives_the_same_bytes(rough: tuple[World, list[Outgoing], Any]) -> None:
    _, again, _ = everything(BASE.model_copy(update={"link": MISHAPS, "faults": FAULTS}))
    assert [(m.due_ms, m.payload) for m in again] == [(m.due_ms, m.payload) for m in rough[1]]


def test_obd_sensors_read_whole_degrees_and_fine_ones_tenths() -> None:
    def sent(**more: Any) -> list[dict[str, Any]]:
        _, found, _ = everything(BASE.model_copy(update={"vehicles": 12, "frames_per_vehicle": 3, **more}))
        return [frame.decode(m.payload) for m in found]

    def read(name: str, frames: list[dict[str, Any]]) -> set[float]:
        each = [value for f in frames for value in np.atleast_1d(f.get(name, ())) if value is not None]
        return {float(value) for value in each}

    obd, fine = sent(sensors="obd"), sent()
    for name, steps_per_unit in {"coolant_temp_c": 1, "speed_kmh": 1, "battery_voltage_v": 10}.items():
        coarse = read(name, obd)
        assert {round(value * steps_per_unit, 6) % 1 for value in coarse} == {0}, name
        assert len(coarse) < len(read(name, fine)), name


def test_another_seed_gives_other_bytes(calm: tuple[World, list[Outgoing], Any]) -> None:
    _, other, _ = everything(BASE.model_copy(update={"seed": 8, "frames_per_vehicle": 2}))
    assert other[0].payload != calm[1][0].payload


def test_every_frame_follows_the_contract_and_holds_ten_samples(
    calm: tuple[World, list[Outgoing], Any],
) -> None:
    frames = [frame.decode(m.payload) for m in calm[1]]
    assert len(frames) == 40 * 25
    assert {f["n"] for f in frames} == {10}
    assert {f["dt_ms"] for f in frames} == {100}
    assert max(len(m.payload) for m in calm[1]) < 4096


def test_a_vehicles_frames_join_without_a_gap_and_in_order(calm: tuple[World, list[Outgoing], Any]) -> None:
    world, sent, _ = calm
    for vehicle in world.vehicle_ids:
        mine = [f for f in map(frame.decode, (m.payload for m in sent)) if f["vehicle_id"] == vehicle]
        assert [f["seq"] for f in mine] == list(range(25))
        assert {b["t0_ms"] - a["t0_ms"] for a, b in pairwise(mine)} == {1000}
        assert START_MS <= mine[0]["t0_ms"] < START_MS + 2000


def test_frames_leave_spread_over_the_second(calm: tuple[World, list[Outgoing], Any]) -> None:
    phases = {m.due_ms % 1000 for m in calm[1][:40]}
    assert len(phases) == 40


def test_every_value_is_within_its_signals_range_and_on_its_steps(
    rough: tuple[World, list[Outgoing], Any],
) -> None:
    seen = set()
    for message in rough[1]:
        if message.channel != "telemetry" or message.flag == "poison":
            continue
        body = frame.decode(message.payload)
        for signal in (s for s in SIGNALS if s.kind == "number" and body.get(s.name) is not None):
            values = np.array(body[signal.name] if signal in FAST else [body[signal.name]], dtype=float)
            seen.add(signal.name)
            assert (values >= signal.minimum).all(), signal.name
            assert (values <= signal.maximum).all(), signal.name
            assert np.allclose(
                values * signal.steps_per_unit, np.rint(values * signal.steps_per_unit), atol=1e-5
            )
    assert seen == {s.name for s in SIGNALS if s.kind == "number"}


def test_reported_heading_is_below_360(calm: tuple[World, list[Outgoing], Any]) -> None:
    headings = [h for m in calm[1] for h in frame.decode(m.payload)["heading_deg"]]
    assert min(headings) >= 0
    assert max(headings) < 360


def test_an_electric_vehicle_has_no_engine_and_a_petrol_one_no_traction_battery(
    calm: tuple[World, list[Outgoing], Any],
) -> None:
    world, sent, _ = calm
    kinds = {
        orjson.loads(m.payload)["vehicle_id"]: orjson.loads(m.payload)["powertrain"]
        for m in world.emitter.births()
    }
    assert set(kinds.values()) == {"petrol", "diesel", "hybrid", "electric"}
    for message in sent[:200]:
        body = frame.decode(message.payload)
        electric = kinds[body["vehicle_id"]] == "electric"
        assert (body["engine_rpm"] is None) == electric
        assert ("coolant_temp_c" in body) == (not electric)
        assert ("soc_pct" in body) == (kinds[body["vehicle_id"]] in ("electric", "hybrid"))
        assert ("dpf_soot_pct" in body) == (kinds[body["vehicle_id"]] == "diesel")


def test_what_the_link_did_is_counted_exactly(rough: tuple[World, list[Outgoing], Any]) -> None:
    world, sent, _ = rough
    counts = world.counts
    telemetry = [m for m in sent if m.channel == "telemetry"]
    identities = {(m.vehicle, orjson.loads(m.payload)["seq"]) for m in telemetry if m.flag != "poison"}
    assert counts["generated"] == 1000
    assert len(identities) == 1000 - counts["lost"]
    assert sum(m.copy for m in telemetry) == counts["duplicate"]
    assert sum(m.flag == "poison" for m in telemetry) == counts["poison"]
    names = ("late", "late_beyond", "duplicate", "disorder", "lost", "clock_ahead", "clock_unset", "poison")
    assert [counts[name] for name in names] == [48, 27, 51, 45, 22, 18, 16, 34]


def test_a_disordered_frame_arrives_after_its_successor(rough: tuple[World, list[Outgoing], Any]) -> None:
    place = {
        (m.vehicle, orjson.loads(m.payload)["seq"]): k
        for k, m in enumerate(rough[1])
        if m.channel == "telemetry" and m.flag in ("plain", "disorder", "duplicate") and not m.copy
    }
    swapped = [
        (v, s) for (v, s), k in place.items() if rough[1][k].flag == "disorder"
        and (v, s + 1) in place and rough[1][place[v, s + 1]].flag == "plain"
    ]  # fmt: skip
    assert len(swapped) > 20
    assert all(place[v, s] > place[v, s + 1] for v, s in swapped)


def test_a_duplicate_is_the_same_bytes(rough: tuple[World, list[Outgoing], Any]) -> None:
    copies = [m for m in rough[1] if m.copy]
    firsts = [m.payload for m in rough[1] if m.flag == "duplicate" and not m.copy]
    assert sorted(m.payload for m in copies) == sorted(firsts)


def test_poison_is_refused_by_the_contract_or_names_another_vehicle(
    rough: tuple[World, list[Outgoing], Any],
) -> None:
    world, sent, _ = rough
    for message in (m for m in sent if m.flag == "poison"):
        try:
            body = frame.decode(message.payload)
        except frame.ContractError:
            continue
        assert body["vehicle_id"] != world.vehicle_ids[message.vehicle]


def test_each_crash_is_one_sealed_record_of_20_s_and_a_pothole_is_none(
    rough: tuple[World, list[Outgoing], list[dict[str, Any]]],
) -> None:
    _, sent, truth = rough
    records = [messages.decode_crash(m.payload) for m in sent if m.channel == "crash"]
    told = {t["vehicle_id"]: t for t in truth if t.get("fault") == "crash"}
    assert len(records) == len(told) == 2
    assert sum(t.get("fault") == "pothole" for t in truth) == 2
    for record in records:
        assert set(messages.CRASH_KEYS) <= set(record)
        assert record["sha256"] == messages.crash_digest(record)
        assert abs(record["event_ms"] - told[record["vehicle_id"]]["from_ms"]) <= 100
        assert {len(column) for column in record["pre_crash"].values()} == {200}
        assert record["complete"] is True
        assert record["pre_crash"]["speed_kmh"][-1] > 24
        assert len(record["delta_v_kmh"]) == 26


def test_a_wreck_stands_still(rough: tuple[World, list[Outgoing], list[dict[str, Any]]]) -> None:
    _, sent, truth = rough
    for told in (t for t in truth if t.get("fault") == "crash"):
        plain = (m.payload for m in sent if m.channel == "telemetry" and m.flag == "plain")
        mine = [f for f in map(frame.decode, plain) if f["vehicle_id"] == told["vehicle_id"]]
        later = [f for f in mine if f["t0_ms"] > told["from_ms"] + 6000]
        assert later
        assert {v for f in later for v in f["speed_kmh"]} == {0.0}


def test_truth_rows_name_vehicle_time_and_severity(rough: tuple[World, Any, list[dict[str, Any]]]) -> None:
    world, _, told = rough
    truth = [row for row in told if row["kind"] == "fault"]
    assert len(truth) == 12
    assert {t["fault"] for t in truth} == {want.name for want in FAULTS}
    for row in truth:
        assert row["vehicle_id"] in world.vehicle_ids
        assert START_MS < row["from_ms"] <= START_MS + 12_500
        assert row["from_ms"] <= row["full_ms"]
        assert (row["to_ms"] == row["from_ms"]) if row["fault"] == "pothole" else (row["to_ms"] is None)
        assert 0.6 <= row["severity"] <= 1.0


def test_status_messages_tell_birth_model_and_end(calm: tuple[World, Any, Any]) -> None:
    births = [messages.decode_status(m.payload) for m in calm[0].emitter.births()]
    ends = [messages.decode_status(m.payload) for m in calm[0].emitter.farewells(START_MS + 1)]
    assert len(births) == len(ends) == 40
    assert {b["state"] for b in births} == {"online"}
    assert {e["state"] for e in ends} == {"offline"}
    assert all(b["model"] and b["powertrain"] and b["vehicle_class"] for b in births)


def test_a_limit_ends_the_run_at_exactly_so_many_frames() -> None:
    world, sent, _ = everything(BASE.model_copy(update={"limit": 123, "frames_per_vehicle": None}))
    assert world.counts["generated"] == len(sent) == 123
