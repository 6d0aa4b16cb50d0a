"""Windows of random frames equal the oracle's, in whatever order they come; clock rules by example."""

from __future__ import annotations

import random
from pathlib import Path

import orjson

from infra.settings import sections
from load_tests.oracle import Roads, expect
from stream_jobs.roads import network
from stream_jobs.roads.network import RoadLookup
from tests.support_frames import TOWN, random_frame, vin
from tests.unit.stream_jobs.window_support import (
    T0,
    archived,
    keyed,
    received,
    window_rows,
    windows_of,
)

PATHS = {edge: path for edge, _, _, _, path in TOWN}


def town(folder: Path) -> RoadLookup:
    """The file of a network as maintenance writes it."""
    rows = [(edge, kind, kmh, m, [[lon, lat] for lat, lon in path]) for edge, kind, kmh, m, path in TOWN]
    network.save(network.network_of(3, rows), folder / "roads.npz")
    return RoadLookup(folder, sections.Roads())


def test_the_order_of_arrival_changes_nothing_and_the_oracle_agrees(tmp_path: Path) -> None:
    rng = random.Random(1)
    records = [received(random_frame(v, s, T0 + s * 950, rng)) for v in range(20, 25) for s in range(25)]
    shuffled = rng.sample(records, len(records))
    expected = expect(records, roads=Roads(3, PATHS))
    vehicle, road, edge = windows_of(archived(shuffled), town(tmp_path))
    assert keyed(vehicle, "vehicle_id") == expected.vehicle
    assert keyed(road, "cell", "heading_sector") == expected.road
    assert keyed(edge, "network_no", "edge_id") == expected.edge
    assert {key[1] for key in expected.edge} >= {-2, -1, 1, 2}
    assert window_rows(archived(records)) == expected.vehicle


HEAD = {"vehicle_id": vin(1), "boot_id": 1, "seq": 1, "t0_ms": T0, "dt_ms": 100, "n": 10}
VERDICTS: list[tuple[str, int, bytes]] = [
    ("ok", T0 + 1000, orjson.dumps(HEAD)),
    ("ok", T0 + 30_000, orjson.dumps(HEAD)),
    ("late", T0 + 30_001, orjson.dumps(HEAD)),
    ("ok", T0 - 9_100, orjson.dumps(HEAD)),
    ("clock_ahead", T0 - 9_101, orjson.dumps(HEAD)),
    ("clock_unset", T0, orjson.dumps(HEAD | {"t0_ms": 0})),
    ("clock_unset", T0, orjson.dumps(HEAD | {"t0_ms": 1_420_070_399_999})),
    ("late", T0, orjson.dumps(HEAD | {"t0_ms": 1_420_070_400_000})),
    ("clock_ahead", T0, orjson.dumps(HEAD | {"t0_ms": 2_082_758_400_000})),
    ("clock_ahead", T0, orjson.dumps(HEAD | {"t0_ms": 2**53})),
    ("unreadable", T0, orjson.dumps(HEAD | {"t0_ms": 2**62})),
    ("unreadable", T0, orjson.dumps(HEAD | {"n": 0})),
    ("unreadable", T0, orjson.dumps({k: v for k, v in HEAD.items() if k != "seq"})),
    ("unreadable", T0, orjson.dumps(HEAD)[:-5]),
    ("unreadable", T0, b'{"speed_kmh": NaN, ' + orjson.dumps(HEAD)[1:]),
    ("unreadable", T0, b""),
    ("unreadable", T0, b"\xff\xfe"),
    ("unreadable", T0, b"[" * 300),
    ("ok", T0 + 1000, orjson.dumps(HEAD | {"speed_kmh": "fast", "coolant_temp_c": [1]})),
]


def test_a_verdict_depends_on_the_payload_and_its_receive_time_only() -> None:
    found = archived([(received_ms, payload) for _, received_ms, payload in VERDICTS])
    assert found["verdict"].to_pylist() == [verdict for verdict, _, _ in VERDICTS]
