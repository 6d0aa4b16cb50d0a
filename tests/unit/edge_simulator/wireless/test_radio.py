"""A rough run through outages, wrong clocks and clones: every frame is sent, lost or dropped, and counted."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest

from edge_simulator.wireless.settings import LinkShares
from edge_simulator.world import World
from infra.contract import frame
from tests.support_radio import BASE, FRAMES, START_MS, N, Story, identity

pytestmark = pytest.mark.slow

MIDWAY = 200
"""Slots, of about 410."""
ROUGH = LinkShares(
    late=0.04, late_beyond=0.02, duplicate=0.06, disorder=0.03, lost=0.03, clock_ahead=0.02, clock_unset=0.02,
    poison=0.04, outage_share=0.5, outage_min_s=4, outage_max_s=15, outage_gap_s=12, store_frames=8,
    upload_rate=3, clone_share=0.1, clock_boot_share=0.5, clock_offset_s=0.3, clock_drift_ppm=20,
    gnss_sync=0.5, clock_far_share=0.3,
)  # fmt: skip


def lived(link: LinkShares) -> Story:
    """A run of the whole world."""
    world = World(BASE.model_copy(update={"link": link}))
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
    truth += world.truth.take()
    return Story(world.counts, world.vehicle_ids, sent, live, truth, sequences)


@pytest.fixture(scope="module")
def rough() -> Story:
    return lived(ROUGH)


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
