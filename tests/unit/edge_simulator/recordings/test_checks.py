"""What is odd about recorded drives is measured; and no bytes whatever make a row vanish."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import orjson
import pytest
import typer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from edge_simulator import cli
from edge_simulator.recordings import checks, drives, frames
from edge_simulator.recordings.drives import Row
from infra.contract import frame
from infra.contract.errors import ConfigError
from tests.support import recorded_drives

pytestmark = pytest.mark.slow

MAPPING = """
model: m
powertrain: petrol
vehicle_class: car
time_zone: UTC
timestamp: {column: t, format: [epoch_s, iso]}
vehicle: {column: id}
signals: {speed_kmh: {column: v, check: g}, lat_deg: y, lon_deg: x, soc_pct: {column: c, optional: true}}
"""
HEADER = "t,id,v,g,y,x"


def speed_kmh(second: float) -> float:
    return 50 + 30 * math.sin(second / 9) + 10 * math.sin(second / 4)


def rows(lag_s: int, wrong: range = range(0), skip: range = range(0)) -> list[Row]:
    """Ten minutes at 1 Hz; the second source is ``lag_s`` late, and 25 km/h too high in ``wrong``."""
    return [
        Row(1000 * k, {"speed_kmh": speed_kmh(k)}, speed_kmh(k - lag_s) + 25 * (k in wrong), k + 2)
        for k in range(600) if k not in skip
    ]  # fmt: skip


@pytest.mark.parametrize("lag_s", [0, 4, -3])
def test_the_lag_of_the_second_speed_source_is_found_and_is_no_disagreement(lag_s: int) -> None:
    found = checks.compare_speeds(rows(lag_s))
    assert found is not None
    assert (found.lag_s, found.correlation) == (lag_s, pytest.approx(1.0))
    assert (found.spells, found.seconds) == ([], 0)


def test_a_disagreement_of_more_than_three_seconds_is_named_once() -> None:
    found = checks.compare_speeds(rows(4, wrong=range(100, 120)))
    assert found is not None
    assert found.spells == ["98: from 1970-01-01 00:01:36 UTC for 20 s, up to 25 km/h"]
    assert found.seconds == 20
    assert checks.compare_speeds(rows(4, wrong=range(100, 103))).spells == []  # type: ignore[union-attr]


def test_a_gap_ends_a_disagreement() -> None:
    found = checks.compare_speeds(rows(0, wrong=range(100, 120), skip=range(105, 110)))
    assert found is not None
    assert [spell.partition(":")[0] for spell in found.spells] == ["102", "112"]


def test_without_a_second_source_there_is_nothing_to_compare() -> None:
    assert checks.compare_speeds([Row(0, {"speed_kmh": 1.0})]) is None


def test_repeated_positions_count_only_while_the_vehicle_moves() -> None:
    track = [(1.0, 0.0), (1.0, 0.0), (1.0, 20.0), (1.0, 20.0), (2.0, 20.0), (2.0, 20.0), (None, 20.0)]
    made = [
        Row(1000 * k, {"lat_deg": lat, "lon_deg": lat, "speed_kmh": v}) for k, (lat, v) in enumerate(track)
    ]
    assert checks.repeats(made) == (3, 2)


def test_gaps_are_counted_with_their_length() -> None:
    assert checks.gaps([0, 1000, 2000, 9000, 10_000, 11_400]) == (1, 7.0)


def check_file(folder: Path, content: bytes) -> None:
    """A file is refused by name, or each of its lines is a good or a bad row, and frames hold the good."""
    path = folder / "a.csv"
    path.write_bytes(content)
    (folder / "mapping.yaml").write_text(MAPPING)
    meaning, (file,) = drives.look_into(folder)
    refusal = checks.report(file, meaning).error
    if refusal:
        with pytest.raises(ConfigError, match=r"a\.csv"):
            drives.read(file, meaning)
        return
    found = drives.read(file, meaning)
    text = content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    assert found.lines == sum(bool(line.strip()) for line in text.split("\n")[1:])
    assert found.lines == sum(len(d.rows) + len(d.bad_rows) for d in found.drives)
    named = [what.partition(":")[0] for d in found.drives for what in d.bad_rows]
    assert len(named) == len(set(named))
    for drive in found.drives:
        ready = frames.prepare(drive)
        bodies = [frame.decode(ready.frame(r, k, 1, 0, 1)) for k, r in enumerate(ready.groups())]
        assert sum(body["n"] for body in bodies) == len(drive.rows)
    assert checks.lines(checks.report(path, meaning))


CELL = st.one_of(
    st.sampled_from(
        ["", "0", "1", "2", "50", "-1", "1e9", "nan", "inf", '"', '"a"', "1_0", "x", "\x00", "1,5"]
    ),
    st.integers(0, 2_000_000_000).map(str),
    st.floats().map(str),
    st.datetimes().map(lambda d: d.isoformat()),
    st.text(max_size=4),
)
QUICK = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


@QUICK
@given(st.lists(st.lists(CELL, min_size=5, max_size=7), max_size=12))
def test_no_cells_make_a_row_vanish(tmp_path: Path, table: list[list[str]]) -> None:
    lines = [HEADER, *(",".join(cells) for cells in table)]
    check_file(tmp_path, "\n".join(lines).encode("utf-8", "replace"))


@QUICK
@given(st.binary(max_size=200), st.booleans())
def test_no_bytes_raise_anything_but_a_named_error(tmp_path: Path, tail: bytes, headed: bool) -> None:
    check_file(tmp_path, HEADER.encode() + b"\n1,a,1,1,1,1\n" + tail if headed else tail)


def check(*arguments: str) -> Any:
    """What ``odograph drives check`` comes to."""
    app = typer.Typer()
    cli.register(app)
    return CliRunner().invoke(app, ["drives", "check", *arguments])


def test_drives_check_tells_files_that_can_and_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "mapping.yaml").write_text(MAPPING)
    (tmp_path / "good.csv").write_text(f"{HEADER},note\n5,a,10,10,1,1,\n6,a,10,,1,1,\nx,a,10,10,1,1,\n")
    assert check(str(tmp_path)).stdout.splitlines() == [
        "good.csv  rows 3",
        "  columns without a meaning: note",
        "  optional columns that are not there: c",
        "  good/a (WDGEW7VEX41EW6TRZ)  1970-01-01T00:00:05+00:00 to 1970-01-01T00:00:06+00:00",
        "    good 2  bad 1  bad values 0  jumps of the position 0  every 1000 ms",
        "      row 4: time 'x' is not one of epoch_s, iso",
        "    gaps 0 (0 s)  repeated positions 1 (at most 1 in a row)",
        "    distance 0.00 km by speed, 0.00 km by trace",
        "    speed sources: the second lags 0 s, correlation unknown; disagree 0 times, 0 s",
    ]
    (tmp_path / "bad.csv").write_text("nothing\n")
    second = check(str(tmp_path), "--json")
    assert second.exit_code == 1
    bad, good = orjson.loads(second.stdout)
    assert "bad.csv, row 1: no column g, id, t, v, x, y" in bad["error"]
    assert good["drives"][0]["good_rows"] == 2
    assert isinstance(check(str(tmp_path / "none")).exception, ConfigError)


def test_the_real_drives_have_lagging_speeds_and_repeated_positions() -> None:
    meaning, files = drives.look_into(recorded_drives())
    found = {}
    for file in files:
        one = checks.report(file, meaning)
        (drive,) = one.drives
        assert one.ignored == ["humidity", "weather", "windspeedav", "traffic"]
        assert one.rows == drive.good_rows + drive.bad_rows
        assert drive.speed is not None
        found[drive.name] = (drive.gaps, drive.repeated_positions, drive.speed.lag_s, len(drive.speed.spells))
    assert found == {
        "T1_03_29_2021": (1, 4798, 8.0, 134),
        "T2_03_30_2021": (2, 4996, 8.0, 148),
        "T3_04_22_2021_1": (0, 926, 12.0, 9),
        "T3_05_25_2021_04": (0, 2149, 10.0, 26),
        "T3_06_07_2021": (0, 1397, 8.0, 21),
    }
