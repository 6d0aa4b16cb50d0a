"""The transforms on literal frames: each vehicle is one case."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.support_frames import Record, frame, vin
from tests.unit.stream_jobs.window_support import T0, Row, archived, received, road_rows, window_rows

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
def rows() -> dict[int, Row]:
    """The window at T0 of each vehicle."""
    found = window_rows(archived(CASES))
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


def test_a_road_cell_is_an_h3_cell_of_resolution_9_by_direction_with_space_mean_speed() -> None:
    found = road_rows(archived(CASES))
    start = datetime(2026, 1, 1, tzinfo=UTC)
    assert {key: (row["vehicles"], row["samples"], row["speed_kmh"]) for key, row in found.items()} == {
        ("891f8d7a49bffff", 0, start): (2, 16, 48.75),
        ("891f8d7a49bffff", 1, start): (1, 3, 30.0),
        ("891f8d7a49bffff", -1, start): (1, 1, 30.0),
    }
