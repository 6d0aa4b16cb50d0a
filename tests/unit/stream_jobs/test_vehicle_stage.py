"""What the stage makes of records, by literal frames: facts, runs beyond a threshold, what rules see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from infra.contract.settings import Settings
from infra.contract.verdict import clock_limits
from stream_jobs.vehicles import lookups
from stream_jobs.vehicles.arrivals import by_vehicle
from stream_jobs.vehicles.beat import Beat, HarshRun
from stream_jobs.vehicles.harsh_runs import G_MPS2
from stream_jobs.vehicles.journeys.harsh import HarshEvents, HarshState
from stream_jobs.vehicles.journeys.limits import journey_limits
from stream_jobs.vehicles.limits import harsh_limits
from stream_jobs.vehicles.stage import Features, VehicleStage
from tests.support_frames import frame, vin

T0 = 1_780_000_000_000
SETTINGS = Settings()
NOBODY = Path("none")


def vehicles(home: Path, *rows: tuple[str, str, str, str]) -> Path:
    """The file of what vehicles are, with these rows."""
    path = lookups.vehicle_file(home)
    lookups.write(
        path, pa.Table.from_pylist([dict(zip(lookups.SCHEMA.names, row, strict=True)) for row in rows])
    )
    return path


def features(batch: pa.RecordBatch, lookup: Path = NOBODY) -> Features:
    stage = VehicleStage(clock_limits(SETTINGS), harsh_limits(SETTINGS), lookup)
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


def beats(frames: list[dict[str, Any]], lookup: Path = NOBODY) -> list[Beat | None]:
    placed = by_vehicle([features(records(frames), lookup)])
    return [each[2].beat for arrivals in placed.values() for each in arrivals]


def test_the_samples_of_a_frame_become_what_a_trip_needs(tmp_path: Path) -> None:
    speeds = [0.0, 0.9, 36.0, 72.0, None, 300.0, 36.0, 0.0, 0.0, 0.0]
    said = frame(
        1, 7, T0, speed_kmh=speeds, lat_deg=[48.0] * 9 + [None], lon_deg=11.5, fuel_rate_lph=3.6,
        ignition_on=True, odometer_m=1234, speed_limit_kmh=50,
    )  # fmt: skip
    (beat,) = beats([said], vehicles(tmp_path, (vin(1), "van x", "diesel", "van")))
    assert beat is not None
    assert (beat.seq, beat.t0_ms, beat.end_ms, beat.received_ms) == (7, T0, T0 + 1000, T0 + 5000)
    assert (beat.moving_ms, beat.moving_from_ms, beat.moving_to_ms) == (300, T0 + 200, T0 + 700)
    assert beat.distance_m is not None
    assert round(beat.distance_m, 4) == round((0.9 + 36 + 72 + 36) / 36, 4)
    assert (beat.speed_kmh, beat.speed_max_kmh, beat.speeding_ms) == (0.0, 72.0, 100)
    assert (beat.lat_deg, beat.lon_deg, beat.fuel_l, beat.energy_kwh) == (48.0, 11.5, 0.001, None)
    assert (beat.ignition_on, beat.odometer_m) == (True, 1234.0)
    assert (beat.vehicle_class, beat.powertrain) == ("van", "diesel")


def test_a_frame_whose_clock_cannot_be_right_gives_its_number_and_nothing_else() -> None:
    assert beats([frame(1, 3, 0, speed_kmh=50.0), frame(1, 4, T0 + 600_000, speed_kmh=50.0)]) == [None, None]


def test_a_frame_under_another_vehicles_key_is_not_taken_for_that_vehicles() -> None:
    frames = [frame(1, 0, T0), frame(2, 0, T0), frame(1, 1, T0), frame(1, 2, T0)]
    keyed = records(frames, key=pa.array([vin(1).encode(), vin(1).encode(), None, b"\xff"], pa.binary()))
    assert features(keyed).vehicle_id == [vin(1)]
    assert features(records(frames)).vehicle_id == [vin(1), vin(2), vin(1), vin(1)]


def test_what_is_too_hard_depends_on_the_class(tmp_path: Path) -> None:
    hard = [0.0] * 3 + [-0.37 * G_MPS2] * 4 + [0.0] * 3
    said = [frame(1, 0, T0, speed_kmh=50.0, accel_long_mps2=hard)]
    (of_car,) = beats(said)
    assert of_car is not None
    assert of_car.harsh == ()
    (of_van,) = beats(said, vehicles(tmp_path, (vin(1), "v", "diesel", "van")))
    assert of_van is not None
    assert of_van.harsh == (HarshRun("brake", T0 + 300, T0 + 700, 3.63, 50.0),)


def test_a_brake_over_the_border_of_two_frames_is_one_event_and_below_the_gate_it_is_none() -> None:
    first = frame(1, 0, T0, speed_kmh=50.0, accel_long_mps2=[0.0] * 8 + [-5.0] * 2)
    second = frame(1, 1, T0 + 1000, speed_kmh=45.0, accel_long_mps2=[-6.0] + [0.0] * 9)
    slow = [frame(1, k, T0 + k * 1000, speed_kmh=9.0, accel_long_mps2=-6.0) for k in (2, 3)]
    quiet = [frame(1, k, T0 + k * 1000, speed_kmh=50.0, accel_long_mps2=0.0) for k in (4, 5)]
    machine = HarshEvents(journey_limits(SETTINGS), vin(1), HarshState())
    told = [machine.step(beat)[0] for beat in beats([first, second, *slow, *quiet]) if beat is not None]
    (event,) = [row for rows in told for row in rows]
    assert (event.kind, event.began_ms, event.ended_ms, event.grade) == ("brake", T0 + 800, T0 + 1100, 3)
    assert (event.peak_g, event.speed_kmh) == (0.612, 50.0)


def test_the_lookup_is_written_at_once_and_read_again_when_it_changed(tmp_path: Path) -> None:
    assert lookups.current(lookups.vehicle_file(tmp_path)).table.num_rows == 0
    path = vehicles(tmp_path, (vin(1), "m", "petrol", "car"))
    after = lookups.current(path)
    assert after.of(pa.array([vin(1), vin(2)]))["model"].to_pylist() == ["m", None]
    assert lookups.current(path) is after
