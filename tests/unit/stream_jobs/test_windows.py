"""The transforms on literal frames: each vehicle is one case, all of them in one run of Spark."""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import infra.sql
from infra.contract.verdict import ClockLimits
from load_tests.oracle import expect
from stream_jobs import windows
from stream_jobs.archive_files import indexed
from stream_jobs.frames import batch_frames
from stream_jobs.rollups.columns import NAMES
from stream_jobs.schema import WRITER_COLUMNS
from stream_jobs.windows import Lengths
from tests.support_frames import Record, frame, random_frame, vin

T0 = 1_767_225_600_000
"""2026-01-01 00:00:00 UTC"""
LIMITS = ClockLimits(floor_ms=1_420_070_400_000, ahead_ms=10_000, lateness_ms=30_000)
LENGTHS = Lengths(window_s=10, road_window_s=60, watermark_s=60)
Row = dict[str, Any]


def archived(spark: SparkSession, records: list[Record]) -> DataFrame:
    batch = pa.RecordBatch.from_pydict(
        {
            "topic": ["telemetry"] * len(records),
            "partition": pa.array([0] * len(records), pa.int32()),
            "log_offset": pa.array(range(len(records)), pa.int64()),
            "key": pa.array([None] * len(records), pa.binary()),
            "received_ms": pa.array([r[0] for r in records], pa.int64()),
            "value": pa.array([r[1] for r in records], pa.binary()),
        }
    )
    return spark.createDataFrame(indexed(batch, LIMITS))


def windows_of(records: DataFrame) -> DataFrame:
    return windows.all_windows(batch_frames(records, LENGTHS), LENGTHS)


def window_rows(records: DataFrame) -> dict[tuple[str, datetime], Row]:
    rows = windows.vehicle_windows(windows_of(records)).toArrow().to_pylist()
    return {(row.pop("vehicle_id"), row.pop("window_start")): row for row in rows}


def road_rows(records: DataFrame) -> dict[tuple[str, int, datetime], Row]:
    rows = windows.road_windows(windows_of(records)).toArrow().to_pylist()
    return {(row.pop("cell"), row.pop("heading_sector"), row.pop("window_start")): row for row in rows}


def received(payload: Row, after_ms: int = 1500) -> Record:
    return payload["t0_ms"] + after_ms, orjson.dumps(payload)


CASES: list[Record] = [
    received(frame(1, 0, T0, speed_kmh=36.0, ignition_on=True)),
    received(frame(2, 0, T0, speed_kmh=0.5, ignition_on=True, fuel_rate_lph=3.6)),
    received(frame(3, 0, T0 + 9_500, speed_kmh=72.0)),
    received(
        frame(4, 0, T0, speed_kmh=[300.0, -1.0, *[10.0] * 8], coolant_temp_c=300, lat_deg=0, lon_deg=0)
    ),
    received(frame(5, 0, T0, tyre_pressure_fl_kpa=220.0, tyre_temp_fl_c=20.0, tyre_pressure_fr_kpa=220.0,
                   tyre_temp_fr_c=40.0, tyre_pressure_rl_kpa=220.0)),
    received(frame(6, 1, T0 + 1000, speed_kmh=20.0), after_ms=40_000),
    received(frame(6, 0, T0, speed_kmh=10.0), after_ms=40_000),
    received(frame(6, 0, T0, speed_kmh=10.0), after_ms=29_000),
    received(frame(7, 2, T0 + 2000, speed_kmh=50.0, odometer_m=1002, ignition_on=False)),
    received(frame(7, 1, T0 + 1000, speed_kmh=90.0, odometer_m=1001, ignition_on=True)),
    received(frame(7, 1, T0 + 1000, speed_kmh=90.0, odometer_m=1001, ignition_on=True)),
    received(frame(8, 0, T0, speed_kmh=[55.0] * 5 + [55.01] * 5, speed_limit_kmh=50)),
    received(frame(9, 0, T0, pack_voltage_v=400.0, pack_current_a=90.0, soc_pct=80.25)),
    received(frame(10, 0, T0, engine_rpm=[500] * 9 + [501], oil_pressure_kpa=150,
                   dtc_codes=["P0128", "P0300"], cell_voltage_min_v=3.601, cell_voltage_max_v=3.652,
                   accel_lat_mps2=[-3.5] + [2.0] * 9)),
    received(frame(11, 0, T0, speed_kmh=30.0, ignition_on=True, lat_deg=48.137154, lon_deg=11.576124,
                   heading_deg=[44.9] * 4 + [45.0] * 3 + [315.0] * 2 + [None])),
    received(frame(12, 0, T0, speed_kmh=60.0, ignition_on=True, lat_deg=48.137154, lon_deg=11.576124,
                   heading_deg=0.0)),
    received(frame(13, 0, T0, engine_rpm=1000, speed_kmh=20.0, gear=3, oil_pressure_kpa=80, ignition_on=True,
                   battery_voltage_v=13.8, coolant_temp_c=70.0, fuel_trim_short_pct=2.5,
                   fuel_trim_long_pct=-0.5, brake_pad_wear_fl_pct=40.0, brake_pad_wear_rr_pct=55.5)),
    received(frame(13, 1, T0 + 1000, engine_rpm=0, speed_kmh=0.0, gear=0, oil_pressure_kpa=0,
                   ignition_on=False, battery_voltage_v=12.6, coolant_temp_c=69.0, fuel_trim_short_pct=9.0,
                   fuel_trim_long_pct=9.0)),
    received(frame(14, 0, T0, cell_temp_max_c=30.0, pack_current_a=-4.9, cell_voltage_min_v=3.6,
                   cell_voltage_max_v=3.61, ignition_on=True, battery_voltage_v=14.0)),
    received(frame(14, 1, T0 + 5000, cell_temp_max_c=31.0, pack_current_a=5.0, cell_voltage_min_v=3.6,
                   cell_voltage_max_v=3.63)),
]  # fmt: skip


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> dict[int, Row]:
    """The window at T0 of each vehicle."""
    found = window_rows(archived(spark, CASES))
    start = datetime(2026, 1, 1, tzinfo=UTC)
    by_vehicle = {number: found[vin(number), start] for number in range(1, 15)}
    by_vehicle[103] = found[vin(3), datetime(2026, 1, 1, 0, 0, 10, tzinfo=UTC)]
    return by_vehicle


def test_a_second_at_36_kmh_is_ten_metres(rows: dict[int, Row]) -> None:
    assert (rows[1]["speed_mean_kmh"], rows[1]["distance_m"], rows[1]["moving_s"]) == (36.0, 10.0, 1.0)
    assert (rows[1]["frames"], rows[1]["frames_late"], rows[1]["samples"]) == (1, 0, 10)


def test_standing_with_ignition_on_is_idling_and_burns_its_fuel_rate(rows: dict[int, Row]) -> None:
    assert (rows[2]["idle_s"], rows[2]["moving_s"], rows[2]["fuel_l"]) == (1.0, 0.0, 0.001)
    assert (rows[2]["idle_fuel_l"], rows[1]["idle_fuel_l"]) == (0.001, None)


def test_what_no_sample_tells_is_null_and_not_zero(rows: dict[int, Row]) -> None:
    unknown = (
        "fuel_l",
        "energy_kwh",
        "rpm_mean",
        "coolant_max_c",
        "lat_deg",
        "soc_pct",
        "dtc_count",
        "speeding_s",
    )
    assert [rows[1][name] for name in unknown] == [None] * len(unknown)


def test_a_frame_over_a_boundary_is_counted_once_and_its_samples_where_they_lie(rows: dict[int, Row]) -> None:
    assert (rows[3]["frames"], rows[3]["samples"], rows[3]["distance_m"]) == (1, 5, 10.0)
    assert (rows[103]["frames"], rows[103]["samples"], rows[103]["distance_m"]) == (0, 5, 10.0)


def test_values_out_of_range_are_not_available_and_are_counted(rows: dict[int, Row]) -> None:
    assert (rows[4]["speed_max_kmh"], rows[4]["speed_mean_kmh"], rows[4]["coolant_max_c"]) == (
        10.0,
        10.0,
        None,
    )
    assert (rows[4]["lat_deg"], rows[4]["lon_deg"]) == (None, None)
    assert rows[4]["out_of_range"] == 2 + 1 + 20


def test_tyre_pressure_is_brought_to_20_degrees_and_needs_a_temperature(rows: dict[int, Row]) -> None:
    assert (rows[5]["tyre_fl_kpa20"], rows[5]["tyre_fr_kpa20"], rows[5]["tyre_rl_kpa20"]) == (
        220.0,
        199.5,
        None,
    )


def test_a_late_frame_counts_as_late_unless_a_copy_came_in_time(rows: dict[int, Row]) -> None:
    assert (rows[6]["frames"], rows[6]["frames_late"], rows[6]["speed_mean_kmh"]) == (2, 1, 15.0)


def test_copies_and_disorder_do_not_matter_and_the_last_sample_is_by_event_time(rows: dict[int, Row]) -> None:
    assert (rows[7]["frames"], rows[7]["samples"], rows[7]["speed_mean_kmh"]) == (2, 20, 70.0)
    assert (rows[7]["speed_last_kmh"], rows[7]["odometer_m"], rows[7]["ignition_on"]) == (50.0, 1002, False)


def test_speeding_begins_above_the_margin(rows: dict[int, Row]) -> None:
    assert (rows[8]["speeding_s"], rows[8]["speeding_10_s"], rows[1]["speeding_10_s"]) == (0.5, 0.0, None)


def test_energy_is_voltage_times_current_times_time(rows: dict[int, Row]) -> None:
    assert (rows[9]["energy_kwh"], rows[9]["soc_pct"]) == (0.01, 80.25)


def test_oil_pressure_counts_with_the_engine_above_500_rpm(rows: dict[int, Row]) -> None:
    assert (rows[10]["oil_pressure_min_kpa"], rows[10]["rpm_max"], rows[10]["rpm_mean"]) == (
        150.0,
        501.0,
        500.1,
    )
    assert (rows[10]["dtc_count"], rows[10]["cell_spread_max_mv"], rows[10]["accel_lat_max_mps2"]) == (
        2,
        51.0,
        3.5,
    )


def test_engine_gearbox_and_12_v_system_count_where_they_can_tell(rows: dict[int, Row]) -> None:
    row = rows[13]
    assert (row["oil_shortfall_max_kpa"], row["oil_below_floor_s"]) == (12.0, 1.0)
    assert (rows[10]["oil_shortfall_max_kpa"], rows[10]["oil_below_floor_s"]) == (None, None)
    assert (row["gear_min"], row["gear_max"], row["rpm_per_kmh"]) == (3, 3, 50.0)
    assert (row["battery_running_v"], row["battery_rest_v"], row["battery_on_min_v"]) == (13.8, 12.6, 13.8)
    assert (row["fuel_trim_mean_pct"], row["fuel_trim_n"], row["coolant_n"]) == (2.0, 10, 20)
    pads = [row[f"brake_pad_wear_{wheel}_pct"] for wheel in ("fl", "fr", "rl", "rr")]
    assert (pads, row["brake_pad_wear_max_pct"]) == ([40.0, None, None, 55.5], 55.5)


def test_cells_are_at_rest_below_5_a_and_heat_by_time(rows: dict[int, Row]) -> None:
    row = rows[14]
    assert (row["cell_spread_rest_mv"], row["cell_spread_max_mv"]) == (10.0, 30.0)
    assert (row["cell_temp_rate_c_min"], rows[13]["cell_temp_rate_c_min"]) == (12.0, None)
    assert (row["battery_running_v"], row["battery_rest_v"]) == (14.0, None)


def test_a_road_cell_is_an_h3_cell_of_resolution_9_by_direction_with_space_mean_speed(
    spark: SparkSession,
) -> None:
    found = road_rows(archived(spark, CASES))
    start = datetime(2026, 1, 1, tzinfo=UTC)
    assert {key: (row["vehicles"], row["samples"], row["speed_kmh"]) for key, row in found.items()} == {
        ("891f8d7a49bffff", 0, start): (2, 16, 48.75),
        ("891f8d7a49bffff", 1, start): (1, 3, 30.0),
        ("891f8d7a49bffff", -1, start): (1, 1, 30.0),
    }


@pytest.mark.parametrize("seed", [1])
def test_the_order_of_arrival_changes_nothing_and_the_oracle_agrees(spark: SparkSession, seed: int) -> None:
    rng = random.Random(seed)
    records = [received(random_frame(v, s, T0 + s * 950, rng)) for v in range(20, 25) for s in range(25)]
    shuffled = rng.sample(records, len(records))
    expected = expect(records)
    assert window_rows(archived(spark, records)) == expected.vehicle
    assert window_rows(archived(spark, shuffled).repartition(5)) == expected.vehicle
    assert road_rows(archived(spark, shuffled)) == expected.road


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


def test_a_verdict_depends_on_the_payload_and_its_receive_time_only(spark: SparkSession) -> None:
    found = archived(spark, [(received_ms, payload) for _, received_ms, payload in VERDICTS])
    verdicts = [
        row["verdict"] for row in found.select("log_offset", "verdict").orderBy("log_offset").collect()
    ]
    assert verdicts == [verdict for verdict, _, _ in VERDICTS]


COLUMNS = {
    "vehicle_window": {*windows.VEHICLE_COLUMNS, *WRITER_COLUMNS},
    "road_cell_window": {*windows.ROAD_COLUMNS, *WRITER_COLUMNS},
    "road_edge_window": {*windows.EDGE_COLUMNS, *WRITER_COLUMNS},
    "vehicle_minute": {"vehicle_id", "bucket", "revision", "restated_at", *NAMES},
}


@pytest.mark.parametrize("table", COLUMNS)
def test_the_columns_are_those_of_the_table(table: str) -> None:
    assert columns_of(table) == COLUMNS[table]


def columns_of(table: str) -> set[str]:
    """Columns that the files of infra.sql give to a table, in their order."""
    names: set[str] = set()
    for path in sorted(Path(infra.sql.__file__).parent.glob("*.sql")):
        text = path.read_text()
        created = re.search(rf"CREATE TABLE odograph\.{table} \((.*?)\n\);", text, re.DOTALL)
        if created is not None:
            names |= set(re.findall(r"^    ([a-z]\w+) ", created[1], re.MULTILINE))
        for altered in re.findall(rf"ALTER TABLE odograph\.{table}\b(.*?);\n", text, re.DOTALL):
            names |= set(re.findall(r"ADD COLUMN (\w+) ", altered))
    return names
