"""A rough run through outages, wrong clocks and clones: every frame is sent, lost or dropped, and counted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import orjson
import pytest

from edge_simulator.scenario import SAMPLES, Scenario, cadence
from edge_simulator.telemetry.emitter import Emitter
from edge_simulator.telemetry.outbox import Outgoing
from edge_simulator.vehicle.vehicles import MODELS
from edge_simulator.wireless.clocks import SYNC_S, Clocks
from edge_simulator.wireless.link_settings import LinkShares
from edge_simulator.world import World
from infra.contract import frame

START_MS = 1_760_000_000_000
N, FRAMES = 30, 40
MIDWAY = 200
"""Slots, of about 410."""
ROUGH = LinkShares(
    late=0.04, late_beyond=0.02, duplicate=0.06, disorder=0.03, lost=0.03, clock_ahead=0.02, clock_unset=0.02,
    poison=0.04, outage_share=0.5, outage_min_s=4, outage_max_s=15, outage_gap_s=12, store_frames=8,
    upload_rate=3, clone_share=0.1, clock_boot_share=0.5, clock_offset_s=0.3, clock_drift_ppm=20,
    gnss_sync=0.5, clock_far_share=0.3,
)  # fmt: skip
BASE = Scenario(
    seed=11, vehicles=N, cadence=cadence(N, None, 1000), start_ms=START_MS, frames_per_vehicle=FRAMES
)


@dataclass
class Story:
    """All that a run gave."""

    counts: Counter[str]
    vehicle_ids: list[str]
    sent: list[Outgoing]
    live: int
    truth: list[dict[str, Any]]
    sequences: list[tuple[int, list[dict[str, Any]]]]
    """After so many messages: what each device says of its sequence numbers; midway, then at the end."""

    @property
    def telemetry(self) -> list[Outgoing]:
        return [m for m in self.sent if m.channel == "telemetry" and m.flag != "poison"]

    def bodies(self, flag: str) -> list[tuple[Outgoing, dict[str, Any]]]:
        return [(m, frame.decode(m.payload)) for m in self.telemetry if m.flag == flag]


def lived(link: LinkShares) -> Story:
    """A run of the whole world."""
    world = World(replace(BASE, link=link))
    sent, truth, end_ms = [], [], START_MS
    sequences: list[tuple[int, list[dict[str, Any]]]] = []
    for number, slot in enumerate(world.slots()):
        sent += slot.messages
        truth += slot.truth
        end_ms = slot.end_ms
        if number == MIDWAY:
            sequences.append((len(sent), list(world.emitter.sequences())))
    live = len(sent)
    sent += world.emitter.flush(end_ms)
    sequences.append((len(sent), list(world.emitter.sequences())))
    truth += world.emitter.radio.truth()
    return Story(world.counts, world.vehicle_ids, sent, live, truth, sequences)


@pytest.fixture(scope="module")
def rough() -> Story:
    return lived(ROUGH)


@pytest.fixture(scope="module")
def standing() -> World:
    """A world whose vehicles are not moved: enough to see what the link does."""
    return World(BASE)


@pytest.fixture
def told(standing: World) -> Callable[..., Story]:
    def run(link: LinkShares, **changes: Any) -> Story:
        sc, fleet = replace(BASE, link=link, **changes), standing.fleet
        models = [MODELS[k] for k in standing.specs.model]
        emitter = Emitter(
            sc, standing.vehicle_ids, models, standing.instruments, np.random.default_rng([sc.seed, 7])
        )
        sent, truth, k, at_ms = [], [], 0, START_MS
        while k < 9 + 10 * FRAMES and not emitter.limit_reached():
            k += 1
            at_ms = START_MS + 100 * k
            emitter.sample(0.1)
            emitter.tune(at_ms, fleet.state.lat, fleet.state.lon, fleet.ignition_on())
            if k >= SAMPLES:
                emitter.emit(k, at_ms, {})
            sent += emitter.take(at_ms + 100)
            truth += emitter.radio.truth()
        live = len(sent)
        sent += emitter.flush(at_ms + 100)
        truth += emitter.radio.truth()
        return Story(emitter.counts, standing.vehicle_ids, sent, live, truth, [])

    return run


def identity(message: Outgoing) -> tuple[str, int, int]:
    body = orjson.loads(message.payload)
    return body["vehicle_id"], body["boot_id"], body["seq"]


def test_generated_is_sent_and_lost_and_dropped(rough: Story) -> None:
    counts = rough.counts
    identities = {identity(m) for m in rough.telemetry}
    assert counts["generated"] == len(identities) + counts["lost"] + counts["dropped_on_board"]
    assert counts["generated"] == N * FRAMES + counts["clone_frames"]
    assert min(counts[name] for name in ("dropped_on_board", "stored_on_board", "outages", "lost")) > 0
    assert len(rough.telemetry) == len(identities) + counts["duplicate"]
    assert sum(m.copy for m in rough.sent) == counts["duplicate"]
    assert sum(m.flag == "poison" for m in rough.sent) == counts["poison"]


def test_every_sequence_number_was_sent_or_lost_or_dropped_or_is_on_board(rough: Story) -> None:
    for messages, rows in rough.sequences:
        gone = defaultdict(set)
        for message in rough.sent[:messages]:
            if message.channel == "telemetry" and message.flag != "poison":
                vehicle_id, boot_id, seq = identity(message)
                gone[vehicle_id, boot_id].add(seq)
        assert gone.keys() <= {(row["vehicle_id"], row["boot_id"]) for row in rows}
        for row in rows:
            sets = [gone[row["vehicle_id"], row["boot_id"]]] + [numbers(row[k]) for k in LEFT_BEHIND]
            assert set().union(*sets) == set(range(row["next_seq"]))
            assert sum(map(len, sets)) == row["next_seq"]
    (_, midway), (_, end) = rough.sequences
    assert sum(len(numbers(row["on_board"])) for row in midway) > 0
    assert sum(len(numbers(row["on_board"])) for row in end) == 0
    assert sum(row["next_seq"] for row in end) == rough.counts["generated"]
    assert sum(len(numbers(row["dropped"])) for row in end) == rough.counts["dropped_on_board"]


LEFT_BEHIND = ("lost", "dropped", "on_board")


def numbers(ranges: list[tuple[int, int]]) -> set[int]:
    return {n for first, last in ranges for n in range(first, last + 1)}


def test_the_same_seed_gives_the_same_bytes_and_truth(rough: Story) -> None:
    again = lived(ROUGH)
    assert [(m.due_ms, m.payload) for m in again.sent] == [(m.due_ms, m.payload) for m in rough.sent]
    assert again.truth == rough.truth


def test_messages_come_in_the_order_of_their_times(rough: Story) -> None:
    live = rough.sent[: rough.live]
    assert all(a.due_ms <= b.due_ms for a, b in pairwise(live))


def test_nothing_leaves_a_vehicle_without_a_link(rough: Story) -> None:
    spells = [t for t in rough.truth if t["kind"] == "outage"]
    assert len(spells) == rough.counts["outages"]
    for spell in spells:
        number = rough.vehicle_ids.index(spell["vehicle_id"])
        during = [
            m for m in rough.sent
            if m.vehicle == number and m.flag != "clone" and spell["from_ms"] <= m.due_ms < spell["to_ms"]
        ]  # fmt: skip
        assert during == []


def test_stored_frames_say_when_they_were_sent_not_when_they_were_made(told: Callable[..., Story]) -> None:
    story = told(LinkShares(outage_share=1, outage_at_s=10, outage_min_s=10, outage_max_s=10, upload_rate=2))
    stored = story.bodies("stored")
    assert len(stored) == story.counts["stored_on_board"] == 10 * N
    assert all(body["sent_ms"] == m.due_ms for m, body in stored)
    first = [(m.due_ms - START_MS, body["seq"]) for m, body in stored if m.vehicle == 0]
    assert [due for due, _ in first] == [20_000 + 500 * k for k in range(10)]
    assert [seq for _, seq in first] == list(range(first[0][1], first[0][1] + 10))
    assert all(body["t0_ms"] < START_MS + 20_000 for _, body in stored)
    live = [m for m in story.telemetry if m.flag == "plain" and m.vehicle == 0]
    between = [m for m in live if START_MS + 20_000 <= m.due_ms < START_MS + 25_000]
    assert len(between) == 5  # live frames go on beside the upload


def test_what_is_on_board_at_the_end_is_handed_out_at_the_end(told: Callable[..., Story]) -> None:
    story = told(LinkShares(outage_share=1, outage_at_s=30, outage_min_s=100, outage_max_s=100))
    assert len({identity(m) for m in story.telemetry}) == N * FRAMES
    assert len(story.sent) - story.live == story.counts["stored_on_board"] > 0
    ends = {t["to_ms"] for t in story.truth}
    assert len(ends) == 1


def test_outages_leave_the_fates_of_all_other_frames_as_they_were(told: Callable[..., Story]) -> None:
    calm = told(LinkShares(late=0.1))
    gone = told(LinkShares(late=0.1, outage_share=0.2, outage_at_s=10, outage_min_s=5, outage_max_s=5))
    late = {identity(m) for m in calm.telemetry if m.flag == "late"}
    away = {identity(m) for m in gone.telemetry if m.flag == "stored"}
    assert late - {identity(m) for m in gone.telemetry if m.flag == "late"} <= away


def test_a_clone_has_its_own_identity_and_anothers_motion(rough: Story) -> None:
    rows = [t for t in rough.truth if t["kind"] == "clone"]
    assert len(rows) == rough.counts["cloned_vehicles"] == 3
    own = {identity(m): frame.decode(m.payload) for m in rough.telemetry if m.flag != "clone"}
    clones = rough.bodies("clone")
    assert len(clones) == rough.counts["clone_frames"] == 3 * FRAMES
    for row in rows:
        mine = [b for m, b in clones if b["vehicle_id"] == row["vehicle_id"]]
        assert sorted(b["seq"] for b in mine) == list(range(FRAMES))
        assert {b["boot_id"] for b in mine} == {row["details"]["boot_id"]}
        for body in mine:
            like = own.get((row["details"]["moves_like"], START_MS, body["seq"]))
            assert like is None or like["lat_deg"] == body["lat_deg"]
            same = own.get((row["vehicle_id"], START_MS, body["seq"]))
            assert same is None or same["lat_deg"] != body["lat_deg"]


def test_clones_keep_to_the_limit_of_frames(told: Callable[..., Story]) -> None:
    story = told(LinkShares(clone_share=0.5), limit=100, frames_per_vehicle=None)
    assert story.counts["generated"] == len(story.telemetry) == 100


def test_clocks_not_set_say_1970_until_the_fix(told: Callable[..., Story]) -> None:
    story = told(LinkShares(clock_boot_share=0.5))
    unset = {t["vehicle_id"]: t["to_ms"] for t in story.truth if t["details"].get("cause") == "not_set"}
    old = [(m, b) for m, b in story.bodies("plain") if b["t0_ms"] < 100_000]
    assert len(old) == story.counts["clock_boot"] > 50
    for message, body in old:
        assert message.due_ms - 1000 < unset[body["vehicle_id"]]
        assert 900 <= body["sent_ms"] - body["t0_ms"] <= 1000
    for name in {b["vehicle_id"] for _, b in old}:
        told_ms = [b["t0_ms"] for _, b in story.bodies("plain") if b["vehicle_id"] == name]
        assert told_ms == sorted(told_ms)
    for row in story.truth:
        if row["details"].get("cause") == "not_set":
            assert 5000 <= row["to_ms"] - row["from_ms"] <= 60_000


def test_a_free_clock_drifts_over_an_hour_and_a_synchronised_one_does_not() -> None:
    settings = LinkShares(clock_offset_s=0.3, clock_drift_ppm=20, gnss_sync=0.5)
    clocks = Clocks(settings, np.random.default_rng(5), 2000)
    rows = np.arange(2000)
    now, hour = (clocks.read(rows, np.full(2000, t), t, START_MS) - START_MS - t for t in (0, 3_600_000))
    assert 900 < clocks.free.sum() < 1100
    assert np.std(now[clocks.free]) == pytest.approx(300, rel=0.1)
    assert np.std((hour - now)[clocks.free]) == pytest.approx(20e-6 * 3_600_000, rel=0.1)
    assert np.abs(hour[~clocks.free]).max() <= 100e-6 * 1000 * SYNC_S
    assert not now[~clocks.free].any()


def test_far_clocks_are_told_in_the_truth(rough: Story) -> None:
    rows = [t for t in rough.truth if t["details"].get("cause") == "free_running"]
    assert rows
    for row in rows:
        assert abs(row["details"]["offset_ms"]) > 1000 or abs(row["details"]["drift_ppm"]) > 100
        bodies = [
            (m, b) for m, b in rough.bodies("plain") if b["vehicle_id"] == row["vehicle_id"]
            and b["t0_ms"] > 10**9
        ]  # fmt: skip
        for message, body in bodies:
            assert body["sent_ms"] - message.due_ms == pytest.approx(row["details"]["offset_ms"], abs=10)


def test_everything_off_leaves_counts_and_truth_empty(told: Callable[..., Story]) -> None:
    story = told(LinkShares())
    assert Counter(m.flag for m in story.sent) == {"plain": N * FRAMES}
    assert story.truth == []
