"""Map matching against the simulator's truth: receivers with canyons and jumps, a seed not tuned on."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import orjson
import pytest

from edge_simulator import scenario
from edge_simulator.world import World
from infra.settings.sections import Roads
from infra.settings.settings import load
from stream_jobs.roads.network import index_of, match, network_of

pytestmark = pytest.mark.slow

START_MS = 1_767_686_400_000
"""2026-01-06 08:00 UTC"""


def test_nineteen_of_twenty_samples_are_matched_and_nearly_all_of_them_rightly() -> None:
    options = {"vehicles": 80, "interval": "1s", "duration": "70s", "seed": 11, "truth_edges": True}
    world = World(scenario.read(None, load(), options, START_MS, None))
    net = network_of(1, [(e, c, v, m, [[x, y] for y, x in path]) for e, c, v, m, path in world.net.edges()])
    samples: list[tuple[str, int, float, float, float]] = []
    passed: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for slot in world.slots():
        for row in slot.truth:
            if row["kind"] == "edge":
                passed[row["vehicle_id"]].append((row["from_ms"], row["to_ms"], row["edge_id"]))
        for message in slot.messages:
            if message.channel == "telemetry":
                samples += last_sample(message.payload)
    known = [(s, edge) for s in samples if (edge := edge_at(passed[s[0]], s[1])) is not None]
    lat, lon, course = np.array([s[2:] for s, _ in known]).T
    found = match(index_of(net, Roads()), lat, lon, course, np.ones(len(lat), np.bool_))
    matched = found >= 0
    right = net.edge_id[found] == np.array([edge for _, edge in known])
    assert len(known) > 2000
    assert matched.mean() > 0.95
    assert right[matched].mean() > 0.97


def last_sample(payload: bytes) -> list[tuple[str, int, float, float, float]]:
    frame = orjson.loads(payload)
    place = [frame[name][-1] for name in ("lat_deg", "lon_deg", "heading_deg")]
    at = frame["t0_ms"] + (frame["n"] - 1) * frame["dt_ms"]
    return [] if None in place else [(frame["vehicle_id"], at, *place)]


def edge_at(passages: list[tuple[int, int, int]], at_ms: int) -> int | None:
    """The edge that a vehicle was on; None where no passage of it has ended."""
    return next((edge for begin, end, edge in passages if begin <= at_ms < end), None)
