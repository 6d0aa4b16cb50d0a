"""What the stage makes of records, by literal frames: features, runs beyond a threshold, what rules see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from infra.contract.verdict import clock_limits
from infra.settings.settings import Settings
from stream_jobs.frames.lookup_files import held
from stream_jobs.rules.rule_set import RuleSet
from stream_jobs.vehicles import lookups
from stream_jobs.vehicles.core import Core
from stream_jobs.vehicles.features import (
    CLASSES,
    FRAME_FEATURES,
    G_MPS2,
    KINDS,
    POWERTRAINS,
    Features,
    VehicleStage,
)
from stream_jobs.vehicles.rows import HarshRow
from tests.support_frames import frame, vin
from tests.unit.stream_jobs.rules.traces import rule

T0 = 1_780_000_000_000
SETTINGS = Settings()
NOBODY = Path("none")


def vehicles(home: Path, *rows: tuple[str, str, str, str]) -> Path:
    """The folder with the file of what vehicles are, with these rows."""
    folder = home / "lookups"
    lookups.write(
        folder / lookups.VEHICLE_FILE,
        pa.Table.from_pylist([dict(zip(lookups.SCHEMA.names, row, strict=True)) for row in rows]),
    )
    return folder


def features(batch: pa.RecordBatch, lookup: Path = NOBODY) -> Features:
    stage = VehicleStage(clock_limits(SETTINGS), SETTINGS.journeys, lookup)
    frames = stage.frames(batch)
    assert frames is not None
    return stage.features(frames)


def records(frames: list[dict[str, Any]], **more: pa.Array) -> pa.RecordBatch:
    batch = more | {
        "partition": pa.array([0] * len(frames), pa.int32()),
        "log_offset": pa.array(range(len(frames)), pa.int64()),
        "received_ms": pa.array([T0 + 5000] * len(frames), pa.int64()),
        "value": pa.array([orjson.dumps(each) for each in frames], pa.binary()),
    }
    return pa.RecordBatch.from_pydict(batch)


def features_by_name(frames: list[dict[str, Any]], lookup: Path = NOBODY) -> list[dict[str, Any] | None]:
    """What is known of each frame, by name; None of one whose clock is not believed."""
    found = features(records(frames), lookup)
    named = [dict(zip(FRAME_FEATURES, row, strict=True)) for row in found.frame_features.tolist()]
    known = [{name: value for name, value in row.items() if value == value} for row in named]
    return [
        row | {"runs": run} if row["believed"] else None for row, run in zip(known, found.runs, strict=True)
    ]


def test_the_samples_of_a_frame_become_what_a_trip_needs(tmp_path: Path) -> None:
    speeds = [0.0, 0.9, 36.0, 72.0, None, 300.0, 36.0, 0.0, 0.0, 0.0]
    said = frame(
        1, 7, T0, speed_kmh=speeds, lat_deg=[48.0] * 9 + [None], lon_deg=11.5, fuel_rate_lph=3.6,
        ignition_on=True, odometer_m=1234, speed_limit_kmh=50,
    )  # fmt: skip
    (of_frame,) = features_by_name([said], vehicles(tmp_path, (vin(1), "van x", "diesel", "van")))
    assert of_frame is not None
    for name in ("distance_m", "placed_m"):
        assert round(of_frame.pop(name), 4) == round((0.9 + 36 + 72 + 36) / 36, 4)
    assert of_frame == {
        "boot_id": 1, "seq": 7, "t0_ms": T0, "end_ms": T0 + 1000, "received_ms": T0 + 5000, "believed": 1,
        "moving_ms": 300, "moving_from_ms": T0 + 200, "moving_to_ms": T0 + 700, "speed_kmh": 0.0,
        "speed_max_kmh": 72.0, "speeding_ms": 100, "lat_deg": 48.0, "lon_deg": 11.5, "fuel_l": 0.001,
        "ignition_on": 1, "odometer_m": 1234.0, "vehicle_class": CLASSES.index("van"),
        "powertrain": POWERTRAINS.index("diesel"), "runs": [],
    }  # fmt: skip


def test_a_frame_whose_clock_cannot_be_right_gives_its_number_and_nothing_else() -> None:
    assert features_by_name([frame(1, 3, 0, speed_kmh=50.0), frame(1, 4, T0 + 600_000, speed_kmh=50.0)]) == [
        None,
        None,
    ]


def test_a_frame_under_another_vehicles_key_is_not_taken_for_that_vehicles() -> None:
    frames = [frame(1, 0, T0), frame(2, 0, T0), frame(1, 1, T0), frame(1, 2, T0)]
    keyed = records(frames, key=pa.array([vin(1).encode(), vin(1).encode(), None, b"\xff"], pa.binary()))
    assert sent_by(features(keyed)) == [vin(1)]
    assert sent_by(features(records(frames))) == [vin(1), vin(2), vin(1), vin(1)]


def sent_by(found: Features) -> list[str]:
    return [found.ids[place] for place in found.vehicle]


def test_what_is_too_hard_depends_on_the_class(tmp_path: Path) -> None:
    hard = [0.0] * 3 + [-0.37 * G_MPS2] * 4 + [0.0] * 3
    said = [frame(1, 0, T0, speed_kmh=50.0, accel_long_mps2=hard)]
    (of_car,) = features_by_name(said)
    assert of_car is not None
    assert of_car["runs"] == []
    (of_van,) = features_by_name(said, vehicles(tmp_path, (vin(1), "v", "diesel", "van")))
    assert of_van is not None
    assert of_van["runs"] == [KINDS.index("brake"), T0 + 300, T0 + 700, 3.63, 50.0]


def test_a_brake_over_the_border_of_two_frames_is_one_event_and_below_the_gate_it_is_none() -> None:
    first = frame(1, 0, T0, speed_kmh=50.0, accel_long_mps2=[0.0] * 8 + [-5.0] * 2)
    second = frame(1, 1, T0 + 1000, speed_kmh=45.0, accel_long_mps2=[-6.0] + [0.0] * 9)
    slow = [frame(1, k, T0 + k * 1000, speed_kmh=9.0, accel_long_mps2=-6.0) for k in (2, 3)]
    quiet = [frame(1, k, T0 + k * 1000, speed_kmh=50.0, accel_long_mps2=0.0) for k in (4, 5)]
    core = Core(SETTINGS.jobs, SETTINGS.journeys, RuleSet())
    rows = core.replay(features(records([first, second, *slow, *quiet])), T0 + 60_000)
    (event,) = [row for row in rows if isinstance(row, HarshRow)]
    assert (event.kind, event.began_ms, event.ended_ms, event.grade) == ("brake", T0 + 800, T0 + 1100, 3)
    assert (event.peak_g, event.speed_kmh) == (0.612, 50.0)


@pytest.mark.parametrize(
    ("last_kmh", "curves"),
    [(30.0, True), (29.0, False), (30.01, True), (30.25, True), (29.99, False)],
)
def test_a_speed_in_whole_kmh_that_reads_the_gate_may_be_above_it(last_kmh: float, curves: bool) -> None:
    whole = last_kmh == round(last_kmh)
    speeds = [40.0 if whole else 40.13] * 4 + [last_kmh] * 6
    said = frame(1, 0, T0, speed_kmh=speeds, accel_lat_mps2=[0.0] * 4 + [4.2] * 4 + [0.0] * 2)
    (of_car,) = features_by_name([said])
    assert of_car is not None
    run = [KINDS.index("corner"), T0 + 400, T0 + 800, 4.2, last_kmh]
    assert of_car["runs"] == (run if curves else [])


def test_a_rule_sees_what_a_frames_head_says_and_names_are_those_of_sql(tmp_path: Path) -> None:
    whose = f"vehicle_id = '{vin(2)}' AND N > 1"
    hot = rule(tmp_path, kind="level", condition=whose, value="Coolant_Temp_C", limit=110, beyond="above")
    stage = VehicleStage(clock_limits(SETTINGS), SETTINGS.journeys, NOBODY, (hot,))
    frames = stage.frames(records([frame(k, 0, T0, coolant_temp_c=120.0) for k in (1, 2)]))
    assert frames is not None
    rules = stage.features(frames).rules
    assert rules is not None
    assert rules.of(0).holds.tolist() == [-1, 1]


def test_the_lookup_is_written_at_once_and_read_again_when_it_changed(tmp_path: Path) -> None:
    ids = pa.array([vin(1), vin(2)])
    assert lookups.of_vehicles(tmp_path / "lookups", ids)["model"].to_pylist() == [None, None]
    path = vehicles(tmp_path, (vin(1), "m", "petrol", "car"))
    assert lookups.of_vehicles(path, ids)["model"].to_pylist() == ["m", None]
    after = held(path, lookups.VEHICLE_FILE, lookups.read)
    assert held(path, lookups.VEHICLE_FILE, lookups.read) is after
    assert vehicles(tmp_path, (vin(1), "n", "petrol", "car")) == path
    assert lookups.of_vehicles(path, ids)["model"].to_pylist() == ["n", None]
