"""The maps by their specification: no request, nothing of a device is code, the view stays."""

from __future__ import annotations

import json
import math
from typing import Any

import h3
import pandas as pd
import pytest

from dashboard.screens.vehicle import charts as vehicle_charts
from dashboard.shared import maps
from dashboard.shared.maps import wedge
from dashboard.shared.theme import SPEED_BANDS, STATES

FLEET = pd.DataFrame(
    [
        ("A", "Corolla", "moving", 49.0, 8.4, 90.0, 50.0, 2, "MAJOR"),
        ("B", None, "parked", 49.1, 8.5, 45.0, 0.0, 0, None),
        ("C", "Leaf", "unknown", None, None, None, None, 0, None),
    ],
    columns=[
        "vehicle_id",
        "model",
        "state",
        "lat_deg",
        "lon_deg",
        "heading_deg",
        "speed_kmh",
        "alerts",
        "severity",
    ],
)


def points(*rows: tuple[str, float, float, float | None]) -> pd.DataFrame:
    """A trace of (time, latitude, longitude, speed) in 10 s windows."""
    frame = pd.DataFrame(rows, columns=["window_start", "lat_deg", "lon_deg", "speed_mean_kmh"])
    start = pd.to_datetime("2026-01-01 " + frame["window_start"], utc=True)
    return frame.assign(window_start=start, local_time=start.dt.tz_localize(None), step_s=10)


def spec(*layers: Any) -> dict[str, Any]:
    drawn: dict[str, Any] = json.loads(
        maps.deck(layers, maps.View(49.0, 8.4, 12.0), "/ground.json").to_json()
    )
    return drawn


def addresses(value: Any) -> list[str]:
    """Every string in a specification that a browser could fetch from elsewhere."""
    if isinstance(value, dict):
        return [a for v in value.values() for a in addresses(v)]
    if isinstance(value, list):
        return [a for v in value for a in addresses(v)]
    return [value] if isinstance(value, str) and "://" in value and not value.startswith("data:") else []


def test_no_address_of_the_outside_is_in_a_map() -> None:
    drawn = spec(maps.roads("/map/roads.json?v=1", "dark"), maps.vehicles(FLEET, "dark"))
    assert addresses(drawn) == []
    assert drawn["mapStyle"] == "/ground.json"
    assert drawn["layers"][1]["iconAtlas"].startswith("data:image/svg+xml,")


def test_a_vehicle_is_drawn_where_it_is_and_an_arrow_points_where_it_drives() -> None:
    first = maps.vehicles(FLEET, "light").data[0]
    assert (first["lat"], first["lon"], first["icon"], first["angle"]) == (49.0, 8.4, "moving", -90.0)


def test_a_vehicle_that_stands_has_no_direction() -> None:
    assert maps.vehicles(FLEET, "light").data[1]["angle"] == 0


def test_a_vehicle_without_a_position_is_not_drawn_at_zero() -> None:
    assert [row["vehicle_id"] for row in maps.vehicles(FLEET, "light").data] == ["A", "B"]


def test_every_state_has_an_icon_of_its_own_beside_its_colour() -> None:
    mapping = spec(maps.vehicles(FLEET, "light"))["layers"][0]["iconMapping"]
    assert set(STATES) <= set(mapping)
    assert len({place["x"] for place in mapping.values()}) == len(mapping)


def test_a_pin_of_a_vehicle_has_the_severity_of_its_worst_incident() -> None:
    pins = maps.alert_pins(FLEET.head(1), "light").data
    assert [(pin["vehicle_id"], pin["icon"]) for pin in pins] == [("A", "MAJOR")]


def test_the_tooltip_names_vehicle_model_state_speed_and_alerts() -> None:
    tips = [row["tip"] for row in maps.vehicles(FLEET, "light").data]
    assert tips == ["A\nCorolla\nmoving, 50 km/h\n2 active alerts, worst MAJOR", "B\nparked, 0 km/h"]


def test_the_tooltip_is_text_never_html() -> None:
    assert spec().get("tooltip", True) is True
    assert "html" not in maps.deck([], maps.View(0, 0, 1), "")._tooltip


def test_text_of_a_device_is_no_expression_and_no_template() -> None:
    hostile = FLEET.assign(model="@@=({speed})")
    tip = maps.vehicles(hostile, "light").data[0]["tip"]
    assert tip.splitlines()[1] == "@ @=((speed))"


def test_a_trace_is_coloured_by_speed() -> None:
    rows = points(
        ("10:00:00", 49.0, 8.4, 5.0), ("10:00:10", 49.0001, 8.4, 30.0), ("10:00:20", 49.0002, 8.4, None)
    )
    pieces = vehicle_charts.trace(rows).data
    assert [piece["colour"] for piece in pieces] == [[59, 125, 212, 255], [154, 165, 177, 255]]
    assert SPEED_BANDS[1][:2] == (40, "#3b7dd4")
    assert [piece["tip"] for piece in pieces] == [
        "2026-01-01 10:00:10\n30 km/h",
        "2026-01-01 10:00:20\nno speed",
    ]


def test_a_trace_is_not_drawn_across_a_silence() -> None:
    rows = points(
        ("10:00:00", 49.0, 8.4, 30.0), ("10:01:10", 49.001, 8.4, 30.0), ("10:01:20", 49.0015, 8.4, 30.0)
    )
    assert [piece["from"] for piece in vehicle_charts.trace(rows).data] == [[8.4, 49.001]]


def test_a_trace_is_not_drawn_across_a_jump_no_car_can_drive() -> None:
    rows = points(
        ("10:00:00", 49.0, 8.4, 30.0), ("10:00:10", 49.02, 8.4, 30.0), ("10:00:20", 49.0205, 8.4, 30.0)
    )
    assert [piece["from"] for piece in vehicle_charts.trace(rows).data] == [[8.4, 49.02]]


def test_a_direction_is_its_quarter_of_the_hexagon_and_an_unknown_one_is_not_drawn() -> None:
    cell = {
        "cell": "891f8d7a49bffff",
        "heading_sector": 1,
        "speed_kmh": 12.0,
        "speed_ratio": 0.4,
        "congestion": "severe",
        "vehicles": 4,
        "source": "live",
        "basis": "the speed limit",
    }
    cells = pd.DataFrame([cell, cell | {"heading_sector": 0}, cell | {"heading_sector": -1}])
    east, north = maps.congestion(maps.cell_rows(cells)).data
    assert east["tip"] == "severe: 12 km/h, 40% of the speed limit\n4 vehicles"
    centre = [11.573976, 48.137336]
    assert east["polygon"][0] == north["polygon"][0] == centre
    assert east["polygon"][1] == north["polygon"][-1]
    assert all(x > centre[0] for x, _ in east["polygon"][1:])
    assert all(y > centre[1] for _, y in north["polygon"][1:])


def test_the_quarters_of_a_hexagon_are_the_whole_of_it() -> None:
    cell = "891f8d7a49bffff"
    lat_deg = h3.cell_to_latlng(cell)[0]
    km_per_degree = 6371.0088 * math.pi / 180
    areas = [abs(_area(wedge(cell, sector))) for sector in range(4)]
    km2 = sum(areas) * km_per_degree**2 * math.cos(math.radians(lat_deg))
    assert km2 == pytest.approx(h3.cell_area(cell, "km^2"), rel=1e-4)


def _area(points: tuple[tuple[float, float], ...]) -> float:
    return 0.5 * sum(a[0] * b[1] - a[1] * b[0] for a, b in zip(points, points[1:] + points[:1], strict=True))


def test_major_roads_are_wider() -> None:
    edges = pd.DataFrame(
        {"path": [[[8.123456, 49.0], [8.2, 49.1]]] * 2, "road_class": ["primary", "residential"]}
    )
    assert maps.road_rows(edges) == [
        {"p": [[8.12346, 49.0], [8.2, 49.1]], "w": 3},
        {"p": [[8.12346, 49.0], [8.2, 49.1]], "w": 1},
    ]


SIZE_PX = (800, 400)


def view_of(*places: tuple[float | None, float | None]) -> Any:
    return maps.view_of(pd.DataFrame(places, columns=["lat_deg", "lon_deg"]), SIZE_PX)


def test_the_view_holds_all_points() -> None:
    view = view_of((33.95, -6.90), (34.01, -6.80), (None, None))
    assert (view.lat_deg, view.lon_deg) == (33.98, -6.85)
    assert 11.0 < view.zoom < 12.5


def test_one_point_is_seen_from_close_by_not_from_infinity_and_none_not_at_all() -> None:
    assert view_of((33.95, -6.90)).zoom <= 16.0
    assert view_of((None, None)) is None


NETWORK = {"version": "town", "south": 48.0, "north": 48.2, "west": 11.4, "east": 11.7}


def test_a_map_looks_at_the_roads_while_a_vehicle_is_on_them_else_not() -> None:
    town = pd.DataFrame({"lat_deg": [48.1, 34.0, None], "lon_deg": [11.5, -6.8, None]})
    roads = maps.view_of_roads(NETWORK, town, SIZE_PX)
    assert roads is not None
    assert (roads.lat_deg, roads.lon_deg) == pytest.approx((48.1, 11.55), abs=0.01)
    assert maps.view_of_roads(NETWORK, town.iloc[2:], SIZE_PX) == roads  # nobody is known to be elsewhere
    assert maps.view_of_roads(NETWORK, town.iloc[1:], SIZE_PX) is None
    assert maps.view_of_roads({}, town, SIZE_PX) is None


def test_a_map_of_traffic_looks_where_vehicles_were_seen_not_where_speeds_are_usual() -> None:
    away, home = (h3.latlng_to_cell(*place, 9) for place in ((34.0, -6.8), (48.1, 11.5)))
    found = pd.DataFrame({"cell": [home, away], "source": ["profile", "live"]})
    view = maps.view_of_traffic(NETWORK, found, SIZE_PX)
    assert view is not None
    assert (view.lat_deg, view.lon_deg) == pytest.approx((34.0, -6.8), abs=0.01)
    assert maps.view_of_traffic(NETWORK, found.drop(columns="cell"), SIZE_PX) == maps.view_of_roads(
        NETWORK, pd.DataFrame({"lat_deg": [], "lon_deg": []}), SIZE_PX
    )
