"""One fault of the link at a time, on vehicles that are not moved: outages, clones, clocks, and nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from edge_simulator.scenario import SAMPLES
from edge_simulator.telemetry.emitter import Emitter
from edge_simulator.truth import TruthLog
from edge_simulator.vehicle.vehicles import MODELS
from edge_simulator.wireless.radio import SYNC_S, Clocks
from edge_simulator.wireless.settings import LinkShares
from edge_simulator.world import World
from tests.support_radio import BASE, FRAMES, START_MS, N, Story, identity

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def standing() -> World:
    """A world whose vehicles are not moved: enough to see what the link does."""
    return World(BASE)


@pytest.fixture
def simulated(standing: World) -> Callable[..., Story]:
    def run(link: LinkShares, **changes: Any) -> Story:
        sc, fleet = BASE.model_copy(update={"link": link, **changes}), standing.fleet
        models = [MODELS[k] for k in standing.specs.model]
        truth, chance = TruthLog(standing.vehicle_ids, START_MS), np.random.default_rng([sc.seed, 7])
        emitter = Emitter(sc, standing.vehicle_ids, models, standing.instruments, chance, truth)
        emitter.radio.begin(START_MS, fleet.state.lat, fleet.state.lon)
        sent, k, at_ms = [], 0, START_MS
        while k < 9 + 10 * FRAMES and not emitter.limit_reached():
            k += 1
            at_ms = START_MS + 100 * k
            emitter.sample(0.1)
            emitter.radio.step(at_ms, fleet.state.lat, fleet.state.lon, fleet.ignition_on())
            if k >= SAMPLES:
                emitter.emit(k, at_ms, {})
            sent += emitter.take(at_ms + 100)
        live = len(sent)
        sent += emitter.flush(at_ms + 100)
        return Story(emitter.counts, standing.vehicle_ids, sent, live, truth.take(), [])

    return run


def test_stored_frames_say_when_they_were_sent_not_when_they_were_made(
    simulated: Callable[..., Story],
) -> None:
    story = simulated(
        LinkShares(outage_share=1, outage_at_s=10, outage_min_s=10, outage_max_s=10, upload_rate=2)
    )
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


def test_what_is_on_board_at_the_end_is_handed_out_at_the_end(simulated: Callable[..., Story]) -> None:
    story = simulated(LinkShares(outage_share=1, outage_at_s=30, outage_min_s=100, outage_max_s=100))
    assert len({identity(m) for m in story.telemetry}) == N * FRAMES
    assert len(story.sent) - story.live == story.counts["stored_on_board"] > 0
    ends = {t["to_ms"] for t in story.truth}
    assert len(ends) == 1


def test_outages_leave_the_fates_of_all_other_frames_as_they_were(simulated: Callable[..., Story]) -> None:
    calm = simulated(LinkShares(late=0.1))
    gone = simulated(LinkShares(late=0.1, outage_share=0.2, outage_at_s=10, outage_min_s=5, outage_max_s=5))
    late = {identity(m) for m in calm.telemetry if m.flag == "late"}
    away = {identity(m) for m in gone.telemetry if m.flag == "stored"}
    assert late - {identity(m) for m in gone.telemetry if m.flag == "late"} <= away


def test_clones_keep_to_the_limit_of_frames(simulated: Callable[..., Story]) -> None:
    story = simulated(LinkShares(clone_share=0.5), limit=100, frames_per_vehicle=None)
    assert story.counts["generated"] == len(story.telemetry) == 100


def test_clocks_not_set_say_1970_until_the_fix(simulated: Callable[..., Story]) -> None:
    story = simulated(LinkShares(clock_boot_share=0.5))
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


def test_everything_off_leaves_counts_and_truth_empty(simulated: Callable[..., Story]) -> None:
    story = simulated(LinkShares())
    assert Counter(m.flag for m in story.sent) == {"plain": N * FRAMES}
    assert story.truth == []
