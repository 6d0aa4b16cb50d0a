"""A stretch of a day as the player takes it: literal places, steps and states."""

from __future__ import annotations

import base64

import numpy as np
import pandas as pd

from dashboard.screens.replay import frames as replay_frames
from dashboard.screens.replay.frames import Plan, plan, start_of, stretch

COLUMNS = ["vehicle_id", "at_ms", "lat_deg", "lon_deg", "heading_deg", "speed_kmh", "ignition_on"]
ALERTS = ["vehicle", "severity", "from", "to"]
CUT = Plan(10_000, 20_000)


def places(*rows: tuple[str, int, float, float, float | None, float | None, bool | None]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=COLUMNS)


def array(packed: dict[str, object], name: str, kind: str) -> list[list[int]]:
    raw = np.frombuffer(base64.b64decode(str(packed[name])), kind)
    values: list[list[int]] = raw.reshape(-1, 3).tolist()
    return values


def test_a_stretch_has_a_row_a_vehicle_and_a_column_a_step() -> None:
    found = stretch(
        places(
            ("B", 60_000, 49.0, 8.4, 90.0, 50.4, True),
            ("A", 80_000, 49.5, -8.5, None, 0.0, False),
            ("B", 70_000, 49.001, 8.4, 359.9, 300.0, True),
        ),
        places(("C", 59_000, 1.0, 2.0, None, 0.4, True)),
        pd.DataFrame([("B", "MAJOR", 61_000, None)], columns=ALERTS),
        60_000,
        CUT,
    )
    none = replay_frames.UNKNOWN_PLACE
    assert found["ids"] == ["A", "B", "C"]
    assert array(found, "lat", "<i4") == [
        [none, none, 49_500_000],
        [49_000_000, 49_001_000, none],
        [none, none, none],
    ]
    assert array(found, "lon", "<i4")[0] == [none, none, -8_500_000]
    assert array(found, "speed", "u1")[1] == [50, 254, 255]
    assert array(found, "heading", "u1")[1] == [63, 254, 255]
    assert array(found, "state", "u1") == [[255, 255, 2], [0, 0, 255], [255, 255, 255]]
    assert found["before"] == [[2, 59_000, 1.0, 2.0, 1]]
    assert found["alerts"] == [{"vehicle": "B", "severity": "MAJOR", "from": 61_000, "to": None}]


def test_nobody_is_an_empty_stretch() -> None:
    found = stretch(places(), places(), pd.DataFrame(columns=ALERTS), 0, CUT)
    assert (found["ids"], found["lat"], found["before"]) == ([], "", [])


def test_a_vehicle_is_off_only_where_it_says_so() -> None:
    speed = np.array([0.0, 0.0, 1.0, np.nan])
    ignition = pd.Series([None, False, True, True], dtype=object)
    assert [replay_frames.STATES[k] for k in replay_frames.states(speed, ignition)] == [
        "idling",
        "parked",
        "moving",
        "unknown",
    ]


def test_faster_play_has_longer_steps_and_a_large_fleet_shorter_stretches() -> None:
    assert plan(1, 40, 10) == Plan(10_000, 600_000)
    assert plan(60, 1_000, 10) == Plan(30_000, 1_800_000)
    assert plan(60, 10_000, 10) == Plan(30_000, 180_000)
    assert plan(900, 40, 10).step_ms == 600_000
    assert plan(1, 40, 20).step_ms == 60_000  # steps are whole windows
    assert plan(300, 40, 45).step_ms == 180_000


def test_stretches_lie_side_by_side() -> None:
    assert [start_of(ms, CUT) for ms in (0, 19_999, 20_000, 39_999.5)] == [0, 0, 20_000, 20_000]
