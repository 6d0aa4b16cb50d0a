"""A trip's way and events, by small frames whose answers are known."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from xml.etree import ElementTree as ET
from zoneinfo import ZoneInfo

import h3
import pandas as pd
import pytest

from dashboard.screens.trips import path as trip_path
from dashboard.shared import text, tracks

START = datetime(2026, 3, 1, 8, tzinfo=UTC)
EMPTY = pd.DataFrame()


def windows(*rows: tuple[float | None, float | None, float | None, float]) -> pd.DataFrame:
    """Windows of 10 s in a row: latitude, longitude, mean speed, highest speed."""
    return pd.DataFrame(
        [
            {
                "window_start": START + timedelta(seconds=10 * k),
                "window_end": START + timedelta(seconds=10 * k + 10),
                "lat_deg": lat,
                "lon_deg": lon,
                "heading_deg": 270.0,
                "speed_mean_kmh": mean,
                "speed_max_kmh": most,
                "speed_limit_kmh": None,
                "step_s": 10.0,
            }
            for k, (lat, lon, mean, most) in enumerate(rows)
        ]
    )


def test_a_piece_lies_in_the_cell_of_its_middle_and_has_the_direction_of_its_way() -> None:
    way = windows((49.0, 8.4, 30.0, 32.0), (49.001, 8.4, 40.0, 42.0), (49.001, 8.4015, 40.0, 42.0))
    found = trip_path.pieces(way)
    assert found["sector"].tolist() == [3, 0, 1]  # alone: by its course; then north; then east
    assert found["cell"][1] == h3.latlng_to_cell(49.0005, 8.4, 9)
    assert found["joined"].tolist() == [False, True, True]
    assert found["t_ms"].tolist() == [round(START.timestamp() * 1000) + 10_000 * k for k in (1, 2, 3)]


def test_a_way_is_not_drawn_across_a_jump_or_a_silence() -> None:
    way = windows((49.0, 8.4, 30.0, 32.0), (49.2, 8.4, 30.0, 32.0), (49.2, 8.4001, 30.0, 32.0))
    way.loc[2, ["window_start", "window_end"]] += pd.Timedelta(minutes=10)
    assert trip_path.pieces(way)["joined"].tolist() == [False, False, False]


def track() -> pd.DataFrame:
    """Three places in a row, then one far away."""
    way = windows((49.0, 8.4, 30, 32), (49.001, 8.4, None, 42), (49.001, 8.4015, 40, 42), (51.0, 8.4, 40, 42))
    return trip_path.track({"trip_id": "a1", "vehicle_id": "WDB1240001A000001"}, way)


def test_a_ways_gpx_is_valid_and_has_a_time_a_point_and_a_segment_after_a_jump() -> None:
    root = ET.fromstring(tracks.to_gpx(track()))
    space = {"g": "http://www.topografix.com/GPX/1/1"}
    assert (root.tag, root.get("version")) == ("{http://www.topografix.com/GPX/1/1}gpx", "1.1")
    assert root.findtext("g:trk/g:name", None, space) == "WDB1240001A000001 2026-03-01T08:00:10.000000Z"
    segments = root.findall("g:trk/g:trkseg", space)
    assert [len(segment) for segment in segments] == [3, 1]
    assert [(p.get("lat"), p.get("lon"), p.findtext("g:time", None, space)) for p in segments[0]] == [
        ("49.000000", "8.400000", "2026-03-01T08:00:10.000000Z"),
        ("49.001000", "8.400000", "2026-03-01T08:00:20.000000Z"),
        ("49.001000", "8.401500", "2026-03-01T08:00:30.000000Z"),
    ]
    assert {child.tag.rpartition("}")[2] for child in root.iter()} == {
        "gpx", "trk", "name", "desc", "trkseg", "trkpt", "time",
    }  # fmt: skip


GPX_ORDER = {
    "gpx": ("metadata", "wpt", "rte", "trk", "extensions"),
    "trk": ("name", "cmt", "desc", "src", "link", "number", "type", "extensions", "trkseg"),
    "trkseg": ("trkpt", "extensions"),
    "trkpt": ("ele", "time", "magvar", "geoidheight", "name", "cmt", "desc", "src", "link", "sym", "type"),
}
"""By element its children in the order that the schema of GPX 1.1 wants them in."""
GPX_ATTRIBUTES = {"gpx": {"version", "creator"}, "trkpt": {"lat", "lon"}}


def test_a_ways_gpx_keeps_to_the_schema_of_gpx_1_1() -> None:
    way = pd.concat([track(), track().assign(trip_id="a2", lon_deg=179.9999999, vehicle_id="A <&> B")])
    root = ET.fromstring(tracks.to_gpx(way))
    assert len(root) == 2
    for element in root.iter():
        space, _, name = element.tag.rpartition("}")
        assert space == "{http://www.topografix.com/GPX/1/1"
        assert set(element.attrib) == GPX_ATTRIBUTES.get(name, set())
        order = [GPX_ORDER[name].index(child.tag.rpartition("}")[2]) for child in element]
        assert order == sorted(order)
        if name == "trkpt":
            assert -90 <= float(element.attrib["lat"]) <= 90
            assert -180 <= float(element.attrib["lon"]) < 180
        if name == "time":
            assert datetime.fromisoformat(element.text or "").tzinfo is not None


def test_a_ways_geojson_has_a_line_or_point_a_segment_with_times_and_speeds() -> None:
    found = json.loads(tracks.to_geojson(track()))
    assert [f["geometry"] for f in found["features"]] == [
        {"type": "LineString", "coordinates": [[8.4, 49.0], [8.4, 49.001], [8.4015, 49.001]]},
        {"type": "Point", "coordinates": [8.4, 51.0]},
    ]
    assert found["features"][1]["properties"] == {
        "trip_id": "a1",
        "vehicle_id": "WDB1240001A000001",
        "segment": 2,
        "coordTimes": ["2026-03-01T08:00:40.000000Z"],
        "speeds_kmh": [40.0],
    }
    assert found["features"][0]["properties"]["speeds_kmh"] == [30.0, None, 40.0]


def test_no_way_is_an_empty_file_of_either_form() -> None:
    none = trip_path.track(
        {"trip_id": "a1", "vehicle_id": "WDB1240001A000001"},
        windows((None, None, 30.0, 32.0)),
    )
    assert len(ET.fromstring(tracks.to_gpx(none))) == 0
    assert json.loads(tracks.to_geojson(none)) == {"type": "FeatureCollection", "features": []}


def test_windows_without_a_place_are_left_out() -> None:
    assert len(trip_path.pieces(windows((None, None, 30.0, 32.0), (49.0, 8.4, None, 3.0)))) == 1


@pytest.mark.parametrize(
    ("heading_deg", "sector"),
    [(0.0, 0), (44.9, 0), (45.0, 1), (135.0, 2), (314.9, 3), (315.0, 0), (None, -1)],
)
def test_sectors_are_a_quarter_wide_and_centred(heading_deg: float | None, sector: int) -> None:
    assert trip_path.sector_of(heading_deg) == sector


def test_windows_without_movement_in_a_row_are_one_halt() -> None:
    way = windows(*[(49.0, 8.4, 0.0, top) for top in (0.0, 0.4, 20.0, 0.0)])
    assert [r["duration_s"] for r in trip_path.halts(way)] == [20.0, 10.0]


def test_a_halt_on_a_trip_of_which_every_other_window_is_drawn_is_one_of_its_whole_length() -> None:
    way = windows(*[(49.0, 8.4, 0.0, top) for top in (20.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 20.0)])
    thinned = way.iloc[1::2].assign(step_s=20.0)
    assert [r["duration_s"] for r in trip_path.halts(thinned)] == [60.0]


def test_the_path_has_the_ratio_of_each_piece_and_none_where_free_flow_is_not_known() -> None:
    pieces = trip_path.pieces(windows((49.0, 8.4, 30.04, 32.0), (49.001, 8.4, None, 42.0)))
    ratios = pd.DataFrame(
        [(1, 50.0, 0.6, "congested"), (2, None, None, "unknown")],
        columns=["place", "free_flow_kmh", "speed_ratio", "congestion"],
    )
    found = trip_path.path(pieces, ratios)
    assert found["speed"] == [30.0, None]
    assert found["free"] == [50.0, None]
    assert found["band"] == ["congested", "unknown"]
    assert trip_path.path(pieces, EMPTY)["band"] == ["unknown", "unknown"]


def harsh() -> pd.DataFrame:
    event: dict[str, Any] = {"began_at": START, "kind": "brake", "grade": 2, "peak_g": 0.47, "limit_g": 0.3}
    return pd.DataFrame([event | {"speed_kmh": 38.0, "duration_ms": 900, "lat_deg": 49.0, "lon_deg": 8.4}])


def alert(message: str) -> pd.DataFrame:
    row = {"rule": "speeding", "severity": "MAJOR", "message": message, "lat_deg": None, "lon_deg": None}
    return pd.DataFrame([row | {"opened_at": START - timedelta(seconds=5)}])


def test_marks_are_in_order_and_say_what_and_how_much() -> None:
    halt = {"began_at": START + timedelta(hours=1), "duration_s": 130.0, "lat_deg": 49.0, "lon_deg": 8.4}
    found = trip_path.marks([halt], trip_path.happenings(EMPTY, harsh(), alert("71 km/h")))
    assert [(m["sign"], m["words"]) for m in found] == [
        ("!", "MAJOR alert · 71 km/h"),
        ("▼", "harsh braking · 0.47 g (limit 0.30, grade 2) at 38 km/h · 1 s"),
        ("■", "stood · 2 min"),
    ]


def test_the_table_of_events_is_in_order_of_time() -> None:
    stops = pd.DataFrame([{"began_at": START - timedelta(minutes=9), "ended_at": START, "dwell_s": 540.0}])
    rows = trip_path.events(trip_path.happenings(EMPTY, harsh(), alert("71 km/h")), stops)
    found = text.table(rows, trip_path.EVENTS, ZoneInfo("UTC"))
    assert list(found["What"]) == ["■ stop", "! MAJOR alert", "▼ harsh braking"]
    assert list(found["Lasted"]) == ["9 min", "—", "1 s"]
