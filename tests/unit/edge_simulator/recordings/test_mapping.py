"""Mappings: any CSV of recorded drives can be described, and a wrong description is named by file and key."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from edge_simulator.recordings import drives, frames, replay
from edge_simulator.vehicle import vehicles
from infra.contract import frame
from infra.contract.errors import ConfigError

HEAD = "model: m\npowertrain: petrol\nvehicle_class: car\n"
ISO = HEAD + "timestamp: {column: t, format: iso}\ntime_zone: UTC\n"
AT_MS = 1_704_096_000_000  # 2024-01-01 08:00:00 UTC
VIN = "WVWZZZ1JZXW000001"


def recording(folder: Path, mapping: str, text: str, encoding: str = "utf-8") -> drives.Recording:
    (folder / "mapping.yaml").write_text(mapping)
    (folder / "a.csv").write_text(text, encoding=encoding)
    meaning, (file,) = drives.look_into(folder)
    return drives.read(file, meaning)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found_from_the_header(tmp_path: Path, delimiter: str) -> None:
    text = "t,v,x\n2024-01-01T08:00:00,7,1\n".replace(",", delimiter)
    found = recording(tmp_path, ISO + "signals: {speed_kmh: v}\n", text)
    assert found.drives[0].rows[0].values == {"speed_kmh": 7.0}
    assert found.ignored == ["x"]


def test_decimal_commas_and_another_encoding(tmp_path: Path) -> None:
    mapping = ISO + 'signals: {speed_kmh: {column: "Größe"}}\ndecimal: ","\nencoding: cp1252\n'
    text = "t;Größe\n2024-01-01 08:00:00;7,5\n2024-01-01 08:00:01;1.007,5\n"
    (drive,) = recording(tmp_path, mapping, text, "cp1252").drives
    assert [row.values["speed_kmh"] for row in drive.rows] == [7.5, None]
    assert drive.bad_values == ["3: speed_kmh '1.007,5'"]


@pytest.mark.parametrize(
    ("stamp", "cell"),
    [
        ("timestamp: {column: t, format: epoch_s}", "1704096000"),
        ("timestamp: {column: t, format: epoch_s}", "1704096000.0"),
        ("timestamp: {column: t, format: epoch_ms}", "1704096000000"),
        ("timestamp: {column: t, format: [epoch_ms, iso]}", "2024-01-01T08:00:00Z"),
        ("timestamp: {column: t, format: iso}\ntime_zone: Europe/Berlin", "2024-01-01T09:00:00"),
        ("timestamp: {column: t, format: iso}\ntime_zone: Europe/Berlin", "2024-01-01T03:00:00-05:00"),
        ('timestamp: {column: t, format: ["%Y", "%d.%m.%y %H Uhr"]}\ntime_zone: UTC', "01.01.24 08 Uhr"),
        ('timestamp: {column: t, format: "%Y-%m-%d %H:%M %z"}', "2024-01-01 10:00 +0200"),
    ],
)
def test_timestamps_in_one_column(tmp_path: Path, stamp: str, cell: str) -> None:
    found = recording(tmp_path, f"{HEAD}{stamp}\nsignals: {{speed_kmh: v}}\n", f"t,v\n{cell},1\n")
    assert found.drives[0].rows[0].t_ms == AT_MS


def test_date_and_time_in_several_formats(tmp_path: Path) -> None:
    mapping = (
        HEAD + 'time_zone: UTC\ndate: {column: d, format: ["%m/%d/%Y", "%Y-%m-%d"]}\n'
        'time: {column: t, format: ["%H:%M:%S", "%H:%M"]}\nsignals: {speed_kmh: v}\n'
    )
    text = "d,t,v\n01/01/2024,08:00:00,1\n1/1/2024,08:01,1\n2024-01-01,08:02:00,1\n"
    (drive,) = recording(tmp_path, mapping, text).drives
    assert [row.t_ms - AT_MS for row in drive.rows] == [0, 60_000, 120_000]


def test_an_iso_time_without_a_zone_needs_the_mappings_zone(tmp_path: Path) -> None:
    mapping = HEAD + "timestamp: {column: t, format: iso}\nsignals: {speed_kmh: v}\n"
    found = recording(tmp_path, mapping, "t,v\n2024-01-01T08:00:00,1\n2024-01-01T08:00:00Z,1\n")
    assert found.drives[0].bad_rows == ["2: time '2024-01-01T08:00:00' is not iso with a zone"]
    assert found.drives[0].rows[0].t_ms == AT_MS


def test_a_time_before_1970_or_beyond_reason_is_a_bad_row(tmp_path: Path) -> None:
    mapping = HEAD + "timestamp: {column: t, format: epoch_s}\nsignals: {speed_kmh: v}\n"
    found = recording(tmp_path, mapping, "t,v\n-5,1\n1e300,1\nnan,1\n1_0,1\n10,1\n")
    assert found.drives[0].bad_rows == [
        "2: time '-5' is before 1970 or beyond reason",
        "3: time '1e300' is before 1970 or beyond reason",
        "4: time 'nan' is not epoch_s",
        "5: time '1_0' is not epoch_s",
    ]


@pytest.mark.parametrize(
    ("signal", "unit", "cell", "value"),
    [
        ("speed_kmh", "mph", "10", 16.09344),
        ("speed_kmh", "Knots", "10", 18.52),
        ("ambient_temp_c", "F", "68", 20.0),
        ("odometer_m", "miles", "2", 3218.688),
        ("tyre_pressure_fl_kpa", "psi", "32", 220.632),
        ("accel_long_mps2", "g", "-0.5", -4.903325),
        ("soc_pct", "ratio", "0.25", 25.0),
    ],
)
def test_units_by_name(tmp_path: Path, signal: str, unit: str, cell: str, value: float) -> None:
    mapping = ISO + f"signals: {{{signal}: {{column: v, unit: {unit}}}}}\n"
    found = recording(tmp_path, mapping, f"t,v\n2024-01-01T08:00:00,{cell}\n")
    assert found.drives[0].rows[0].values[signal] == pytest.approx(value, rel=1e-5)


def test_an_optional_column_may_lack_and_a_word_may_say_missing(tmp_path: Path) -> None:
    mapping = ISO + "signals: {speed_kmh: v, soc_pct: {column: charge, optional: true}}\nmissing: [n/a]\n"
    found = recording(tmp_path, mapping, "T,V,note\n2024-01-01T08:00:00,N/A,x\n")
    assert (found.lacking, found.ignored) == (["charge"], ["note"])
    assert found.drives[0].rows[0].values == {"speed_kmh": None}
    assert found.drives[0].bad_values == []


def test_several_vehicles_in_one_file_are_drives_of_their_own(tmp_path: Path) -> None:
    mapping = ISO + "signals: {speed_kmh: v}\nvehicle: id\n"
    stamps = "2024-01-01T08:00:0"
    text = f"t,id,v\n{stamps}0,bus 1,1\n{stamps}0,{VIN},2\n{stamps}1,bus 1,3\nx,bus 1,4\n{stamps}1,,5\n9,9\n"
    found = recording(tmp_path, mapping, text)
    assert [(d.name, d.vehicle_id, len(d.rows)) for d in found.drives] == [
        ("a/bus 1", vehicles.make("bus 1"), 2),
        (f"a/{VIN}", VIN, 1),
    ]
    assert found.drives[0].bad_rows == [
        "5: time 'x' is not iso", "6: no vehicle", "7: 2 cells, the header has 3",
    ]  # fmt: skip
    assert found.lines == 6


def test_any_signal_of_the_contract_reaches_the_frame(tmp_path: Path) -> None:
    mapping = ISO + (
        "signals: {speed_kmh: v, heading_deg: h, coolant_temp_c: c, engine_rpm: r,\n"
        "  ignition_on: {column: i, values: {on: 1, off: 0}}}\n"
    )
    text = "t,v,h,c,r,i\n" + "".join(f"2024-01-01T08:00:00.{k}00,10,{k},80.{k},90{k},on\n" for k in range(3))
    text += "2024-01-01T08:01:00.000,10,0,80,900,on\n"
    ready = frames.prepare(recording(tmp_path, mapping, text).drives[0])
    body, last = (frame.decode(ready.frame(rows, 0, 1, 0, 1)) for rows in ready.groups())
    assert (body["dt_ms"], body["n"]) == (100, 3)
    assert body["heading_deg"] == [0.0, 1.0, 2.0]
    assert body["engine_rpm"] == [900, 901, 902]
    assert (body["coolant_temp_c"], body["ignition_on"]) == (80.2, True)
    assert last["ignition_on"] is False  # a recording that ends is no vehicle that falls silent


def test_uneven_rows_make_shorter_frames_and_none_is_left_out(tmp_path: Path) -> None:
    seconds = (0, 1.02, 1.98, 3, 4.4, 5.4, 6.4, 60)
    text = "t,v\n" + "".join(f"{1_700_000_000 + s},36\n" for s in seconds)
    mapping = HEAD + "timestamp: {column: t, format: epoch_s}\nsignals: {speed_kmh: v}\n"
    ready = frames.prepare(recording(tmp_path, mapping, text).drives[0])
    assert ready.groups() == [range(4), range(4, 7), range(7, 8)]
    assert ready.speed_distance_m == pytest.approx(64.0, abs=0.1)  # not across the last gap


def test_drives_of_one_vehicle_never_share_an_identity(tmp_path: Path) -> None:
    (tmp_path / "mapping.yaml").write_text(ISO + "signals: {speed_kmh: v}\nvehicle: id\n")
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("t,id,v\n2024-01-01T08:00:00,x,1\n")
    for start in ("now", "kept", "2026-11-20T08:00"):
        items = replay.convoy(tmp_path, None, 60.0, replay.parse_start(start)).frames()
        heads = [frame.decode(item.payload) for item in items]
        assert len({(h["vehicle_id"], h["boot_id"], h["seq"]) for h in heads}) == 2


def test_a_given_start_moves_a_recording_there_and_keeps_its_vehicles_together(tmp_path: Path) -> None:
    (tmp_path / "mapping.yaml").write_text(ISO + "signals: {speed_kmh: v}\nvehicle: id\n")
    (tmp_path / "a.csv").write_text("t,id,v\n2024-01-01T08:00:00,x,1\n2024-01-01T08:01:00,y,1\n")
    start_ms = replay.parse_start("2026-11-20T09:00+01:00")
    convoy = replay.convoy(tmp_path, None, 60.0, start_ms)
    items = list(convoy.frames())
    assert start_ms == 1_795_161_600_000
    assert [frame.decode(i.payload)["t0_ms"] - 1_795_161_600_000 for i in items] == [0, 60_000]
    assert [frame.decode(i.payload)["sent_ms"] - 1_795_161_600_000 for i in items] == [0, 60_000]
    assert [i.due_ms - convoy.origin_ms for i in items] == [0, 1000]
    again = replay.convoy(tmp_path, None, 60.0, start_ms).frames()
    assert [i.payload for i in again] == [i.payload for i in items]


def test_a_start_that_is_near_is_kept_to_whatever_reading_the_files_took(tmp_path: Path) -> None:
    (tmp_path / "mapping.yaml").write_text(ISO + "signals: {speed_kmh: v}\n")
    (tmp_path / "a.csv").write_text("t,v\n2024-01-01T08:00:00,1\n2024-01-01T08:01:00,1\n")
    start_ms = time.time_ns() // 1_000_000 - 60_000
    items = replay.convoy(tmp_path, None, 1.0, start_ms).frames()
    assert [item.due_ms - start_ms for item in items] == [0, 60_000]


@pytest.mark.parametrize("text", ["tomorrow", "", "1960-01-01", "-5", "2026-13-01"])
def test_a_start_that_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--start .*now, kept or a time"):
        replay.parse_start(text)


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        (ISO + "signals: {speed_kmh: {colum: v}}", r"signals\.speed_kmh\.column: the key is missing"),
        (ISO + "signals: {speed_kmh: v}\nspeed: 1", r"m\.yaml: speed: there is no such key"),
        (ISO + "signals: {sped_kmh: v}", "no such signal: sped_kmh; did you mean speed_kmh"),
        (
            ISO + "signals: {speed_kmh: {column: v, unit: psi}}",
            r"signals\.speed_kmh\.unit: no such unit 'psi'",
        ),
        (ISO + "signals: {speed_kmh: {column: v, unit: mph, factor: 2}}", "not two of them"),
        (ISO + "signals: {soc_pct: {column: v, check: w}}", "only speed_kmh can have a second source"),
        (ISO + "signals: {dtc_codes: v}", "trouble codes cannot be taken"),
        (
            ISO.replace("UTC", "Mars/Base") + "signals: {speed_kmh: v}",
            "time_zone: there is no zone 'Mars/Base'",
        ),
        (ISO.replace("petrol", "steam") + "signals: {speed_kmh: v}", r"m\.yaml: powertrain: "),
        (ISO.replace("iso", "rfc") + "signals: {speed_kmh: v}", "timestamp.format: 'rfc' is none of"),
        (
            HEAD + "timestamp: {column: t, format: '%Y-%m'}\nsignals: {speed_kmh: v}",
            "time_zone: the key is missing",
        ),
        (ISO + "date: {column: d, format: '%Y'}\nsignals: {speed_kmh: v}", "one of the two ways"),
        (ISO + "signals: {speed_kmh: v}\ndelimiter: x", r"m\.yaml: delimiter: "),
        ("- a\n- b\n", "not a readable mapping"),
        ("a: [", "cannot be read"),
    ],
)
def test_a_wrong_mapping_is_named_by_file_and_key(tmp_path: Path, mapping: str, message: str) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(mapping)
    with pytest.raises(ConfigError, match=message) as caught:
        drives.load_mapping(path)
    assert str(path) in str(caught.value)


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"a\.csv, row 1: two columns v"):
        recording(tmp_path, ISO + "signals: {speed_kmh: v}\n", "t,v,V\n2024-01-01T08:00:00,1,2\n")
