"""Recorded drives: dirt is named and counted, what lacks is worked out, nothing is dropped in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge_simulator.recordings import drives, frames, replay
from edge_simulator.vehicle import vehicles
from infra.contract import frame
from infra.contract.errors import ConfigError
from tests.support import recorded_drives

HEADER = "Date,Time,SOC,Speed,mode,LAT,LON,ALT,GpsSpeed,Temperature,SpeedLimit"
ROWS = (
    "03/29/2021,11:00:00,87.5,0,N,34.000000,-6.700000,140,0,20,40",
    "3/29/2021,11:00:01,87.5,18,D,34.000000,-6.700000,140,0,20,40",
    "03/29/2021,11:00:02,87.4,36,D,34.000090,-6.700000,141,0,20,40",
    "90/02/2032,11:00:03,87.4,36,D,34.000180,-6.700000,141,0,20,40",
    "03/29/2021,11:00:04,87.4,36,D,34.000180,1555.633300,141,0,20,40",
    "03/29/2021,11:00:05,87.3,36,D,34.000180,-6.699000,142,0,20.5,60",
    "03/29/2021,11:00:05,87.3,36,D,34.000180,-6.699000,142,0,20.5,60",
    "03/29/2021,11:00:06,87.3,,R,34.000180,-6.699000,142,0,20.5,60",
)  # fmt: skip


def written(folder: Path, *rows: str, name: str = "drive.csv") -> Path:
    path = folder / name
    path.write_text("\n".join((HEADER, *rows)) + "\n")
    return path


def drives_of(folder: Path) -> list[drives.Drive]:
    meaning, files = drives.look_into(folder)
    return [drive for file in files for drive in drives.read(file, meaning).drives]


@pytest.fixture
def prepared(tmp_path: Path) -> frames.Prepared:
    written(tmp_path, *ROWS)
    (drive,) = drives_of(tmp_path)
    return frames.prepare(drive)


def test_bad_rows_and_values_are_named_by_line(prepared: frames.Prepared) -> None:
    assert prepared.drive.bad_rows == [
        "5: time '90/02/2032 11:00:03' is not %m/%d/%Y %H:%M:%S",
        "8: time does not advance",
    ]
    assert prepared.drive.bad_values == ["6: lon_deg '1555.633300'"]
    assert len(prepared.t_ms) == 6


def test_local_time_becomes_utc_by_the_zones_own_rules(tmp_path: Path) -> None:
    summer = ROWS[0]
    ramadan = ROWS[0].replace("03/29/2021", "04/22/2021")
    written(tmp_path, summer, ramadan)
    (drive,) = drives_of(tmp_path)
    assert drive.rows[0].t_ms == 1_617_012_000_000  # 10:00 UTC: an hour ahead
    assert drive.rows[1].t_ms == 1_619_089_200_000  # 11:00 UTC: Morocco keeps UTC in Ramadan


def test_a_gap_begins_a_new_frame(prepared: frames.Prepared) -> None:
    assert prepared.groups() == [range(3), range(3, 6)]


def test_signals_of_the_frames(prepared: frames.Prepared) -> None:
    first, second = (
        frame.decode(prepared.frame(rows, k, 7, 0, 5)) for k, rows in enumerate(prepared.groups())
    )
    assert first["vehicle_id"] == vehicles.make("drive")
    assert (first["t0_ms"], first["dt_ms"], first["n"], first["seq"]) == (1_617_012_000_000, 1000, 3, 0)
    assert first["speed_kmh"] == [0.0, 18.0, 36.0]
    assert first["accel_long_mps2"] == [None, 5.0, 5.0]
    assert first["heading_deg"] == [None, None, 0.0]
    assert (first["gear"], first["ignition_on"], second["ignition_on"]) == (1, True, False)
    assert first["odometer_m"] == 10
    assert first["soc_pct"] == 87.4
    assert second["lon_deg"] == [None, -6.699, -6.699]
    assert second["lat_deg"] == [None, 34.00018, 34.00018]
    assert second["heading_deg"][:2] == [0.0, pytest.approx(83.8, abs=0.3)]
    assert second["speed_kmh"] == [36.0, 36.0, None]
    assert second["accel_long_mps2"] == [None, 0.0, None]
    assert second["gear"] == -1
    assert second["speed_limit_kmh"] == 60


def test_a_change_after_a_reading_that_was_repeated_took_all_that_time(tmp_path: Path) -> None:
    speeds = (0, 18, 18, 18, 18, 36, 27, None, 27, 45)
    rows = [f"03/29/2021,11:00:0{k},87.5,{'' if v is None else v},D,34,-6.7,140,0,20,40"
            for k, v in enumerate(speeds)]  # fmt: skip
    written(tmp_path, *rows)
    (drive,) = drives_of(tmp_path)
    accels = frames.prepare(drive).columns["accel_long_mps2"]
    assert accels == [None, 5.0, 0.0, 0.0, 0.0, 1.25, -2.5, None, None, 5.0]


def test_distance_is_the_speeds_integral_without_the_gap(prepared: frames.Prepared) -> None:
    assert prepared.speed_distance_m == pytest.approx((9 + 27) / 3.6 + 10.0, abs=0.05)


def test_fixes_where_the_vehicle_cannot_have_been_are_left_out_and_named(tmp_path: Path) -> None:
    """A straight drive north at 36 km/h; rows 100 and 200..229 are a degree further east, 92 km."""
    off = {100, *range(200, 230)}
    rows = [
        f"03/29/2021,11:{k // 60:02}:{k % 60:02},80,36,D,{34 + k * 9e-5:.6f},{lon},1,0,20,60"
        for k in range(600)
        for lon in [-5.7 if k in off else -6.7]
    ]
    written(tmp_path, *rows)
    (drive,) = drives_of(tmp_path)
    ready = frames.prepare(drive)
    assert len(ready.jumps) == 31
    assert ready.jumps[:2] == ["102: fix 91.4 km out of reach", "202: fix 91.4 km out of reach"]
    assert ready.trace_m == pytest.approx(ready.speed_distance_m, rel=0.01)
    assert {k for k, lat in enumerate(ready.columns["lat_deg"]) if lat is None} == off
    late_start = [*(row.replace("-6.7", "-5.7") for row in rows[:20]), *rows[20:100]]
    written(tmp_path, *late_start)
    (drive,) = drives_of(tmp_path)
    assert len(frames.prepare(drive).jumps) == 20  # what most fixes say counts, not what the first one says


def test_now_lets_each_drive_end_when_its_last_frame_is_sent(tmp_path: Path) -> None:
    written(tmp_path, *ROWS[:3], name="a.csv")
    written(tmp_path, *ROWS, name="b.csv")
    convoy = replay.convoy(tmp_path, None, 2.0, "now")
    items = list(convoy.frames())
    last = {item.vehicle: item for item in items}
    for number in range(2):
        body = frame.decode(last[number].payload)
        assert body["t0_ms"] + (body["n"] - 1) * 1000 == last[number].due_ms
    assert last[1].due_ms == convoy.origin_ms + 3000
    assert [item.due_ms for item in items] == sorted(item.due_ms for item in items)


def test_kept_times_repeat_the_same_frames(tmp_path: Path) -> None:
    written(tmp_path, *ROWS)
    first, second = (replay.convoy(tmp_path, None, 60.0, "kept").frames() for _ in range(2))
    assert [item.payload for item in first] == [item.payload for item in second]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"x\.csv, row 1: the file is empty"),
        (HEADER.encode(), r"x\.csv, row 2: no usable row"),
        (b"Date,Time,Speed\n1,2,3\n", r"x\.csv, row 1: no column ALT, LAT"),
        (HEADER.encode() + b"\n03/29/2021,\xff\xfe\n", r"x\.csv, row 2: not UTF-8"),
        (HEADER.encode() + b"\n1,2\n", r"x\.csv, row 2: no usable row; row 2: 2 cells"),
    ],
)
def test_a_useless_file_is_refused_by_name_and_row(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "x.csv").write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        drives_of(tmp_path)


def test_a_mapping_beside_the_drives_says_what_its_columns_mean(tmp_path: Path) -> None:
    (tmp_path / "other.CSV").write_text(
        "when;\n".replace(";", ",clock,mph,y,x") + "2024-01-01,08:00:00,10,1,2\n"
    )
    (tmp_path / "mapping.yaml").write_text(
        "model: any\npowertrain: petrol\nvehicle_class: car\ntime_zone: UTC\n"
        'date: {column: when, format: "%Y-%m-%d"}\ntime: {column: clock, format: "%H:%M:%S"}\n'
        "signals: {speed_kmh: {column: mph, factor: 1.609344}, lat_deg: {column: y}, lon_deg: {column: x}}\n"
    )
    (drive,) = drives_of(tmp_path)
    assert drive.rows[0].values["speed_kmh"] == pytest.approx(16.09344)


def test_a_mapping_with_an_unknown_signal_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(drives.DEFAULT_MAPPING.read_text().replace("speed_kmh", "sped_kmh"))
    with pytest.raises(ConfigError, match="no such signal: sped_kmh"):
        drives.load_mapping(path)


@pytest.mark.slow
def test_the_real_drives_can_be_read_whole() -> None:
    found = drives_of(recorded_drives())
    ready = {d.name: frames.prepare(d) for d in found}
    assert {n: (len(p.t_ms), len(p.drive.bad_rows), len(p.drive.bad_values)) for n, p in ready.items()} == {
        "T1_03_29_2021": (6179, 10, 0),
        "T2_03_30_2021": (6812, 56, 0),
        "T3_04_22_2021_1": (1049, 0, 0),
        "T3_05_25_2021_04": (2517, 0, 0),
        "T3_06_07_2021": (1703, 0, 3),
    }
    for one in ready.values():
        assert one.jumps == []
        assert one.speed_distance_m == pytest.approx(one.trace_m, rel=0.1)
        for seq, rows in enumerate(one.groups()):
            frame.decode(one.frame(rows, seq, 1, 0, 0))
