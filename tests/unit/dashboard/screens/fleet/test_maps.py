"""Many vehicles on one place: which become a bubble, what it says, and that none is lost or counted twice."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dashboard.screens.fleet import charts as clusters
from dashboard.shared import maps
from dashboard.shared.theme import SEVERITIES, STATES, rgba

HERE = (49.0, 8.4)


def fleet(
    count: int, state: str = "moving", severity: str | None = None, at: tuple[float, float] = HERE
) -> pd.DataFrame:
    row = {"lat_deg": at[0], "lon_deg": at[1], "state": state, "severity": severity}
    return pd.DataFrame([row | {"alerts": 0 if severity is None else 1}] * count)


def tile_of(frame: pd.DataFrame, zoom: int = 9) -> list[dict[str, object]]:
    """The bubbles of the tile that holds HERE."""
    east, south = clusters.world(np.array([HERE[1]]), np.array([HERE[0]]))
    found = clusters.tile(frame, zoom, int(east[0] * 2**zoom), int(south[0] * 2**zoom))
    return [
        feature["properties"] | {"at": feature["geometry"]["coordinates"]} for feature in found["features"]
    ]


def test_few_vehicles_are_told_apart() -> None:
    assert tile_of(fleet(9)) == []


def test_a_bubble_says_how_many_in_which_states_and_the_worst_alert() -> None:
    parts = [fleet(12), fleet(30, "parked"), fleet(1, "idling", "MINOR"), fleet(1, "idling", "MAJOR")]
    (bubble,) = tile_of(pd.concat(parts, ignore_index=True))
    assert bubble["n"] == "44"
    assert bubble["tip"] == (
        "44 vehicles\n30 parked, 12 moving, 2 idling\n2 with alerts, worst MAJOR\nclick to look closer"
    )
    assert bubble["c"] == list(rgba(STATES["parked"], 235))
    assert bubble["k"] == list(rgba(SEVERITIES["MAJOR"]))
    assert (bubble["at"], bubble["cluster"]) == ([8.4, 49.0], [49.0, 8.4, 9])


def test_a_vehicle_without_a_position_is_in_no_bubble() -> None:
    some = fleet(30)
    some.loc[10:, "lat_deg"] = None
    assert tile_of(some)[0]["n"] == "10"


def test_tiles_share_no_vehicle_and_lose_none() -> None:
    random = np.random.default_rng(3)
    frame = fleet(4000).assign(lat_deg=random.uniform(48, 50, 4000), lon_deg=random.uniform(7.5, 9.5, 4000))
    east, south = clusters.world(frame["lon_deg"].to_numpy(), frame["lat_deg"].to_numpy())
    tiles = {(int(x), int(y)) for x, y in zip(east * 2**8, south * 2**8, strict=True)}
    found = [f for x, y in tiles for f in clusters.tile(frame, 8, x, y)["features"]]
    assert sum(int(f["properties"]["tip"].split()[0].replace(",", "")) for f in found) == 4000


def test_places_of_the_web_mercator_square() -> None:
    east, south = clusters.world(np.array([0.0, -180.0, 8.4]), np.array([0.0, 89.0, 49.0]))
    assert east.tolist() == pytest.approx([0.5, 0.0, 0.5233333])
    assert south.tolist() == pytest.approx([0.5, 0.001638, 0.343422], abs=1e-6)


def test_numbers_are_short_and_areas_grow_with_them() -> None:
    assert [clusters.short(n) for n in (87, 999, 1240, 9949, 9950, 14_200)] == [
        "87", "999", "1.2k", "9.9k", "10k", "14k",
    ]  # fmt: skip
    assert [clusters.radius_px(n) for n in (0, 375, 1500, 9000)] == [11.0, 20.5, 30.0, 30.0]


def spec(*layers: Any) -> list[dict[str, Any]]:
    drawn = json.loads(maps.deck(layers, maps.View(49.0, 8.4, 12.0), "").to_json())
    found: list[dict[str, Any]] = drawn["layers"]
    return found


def test_vehicles_and_bubbles_come_from_our_own_server_by_the_number_of_their_sheet() -> None:
    vehicles, bubbles = spec(
        maps.vehicles(maps.address(maps.VEHICLES_PATH, "7f", ["moving", "idling"]), "light", True),
        clusters.clusters("7f", [], 2),
    )
    assert vehicles["data"] == "/map/vehicles.json?at=7f&states=moving%2Cidling"
    assert bubbles["data"] == "/map/clusters/{z}/{x}/{y}.json?at=7f"
    assert (bubbles["@@type"], bubbles["id"]) == ("TileLayer", "clusters-2")
    assert bubbles["visibleMaxZoom"] == 12.5


def test_signs_are_small_only_among_thousands() -> None:
    few, many = spec(maps.vehicles("/a", "light"), maps.vehicles("/a", "light", many=True))
    assert (few["sizeMinPixels"], many["sizeMinPixels"]) == (20, 7)


def test_roads_are_coloured_by_band_the_worst_on_top_and_paler_where_it_is_only_usual() -> None:
    edge = {"edge_id": 1, "path": [[8.4, 49.0], [8.41, 49.0]], "vehicles": 4, "source": "live"}
    edge |= {"basis": "free flow"}
    rows = maps.edge_rows(
        pd.DataFrame(
            [
                edge | {"congestion": "severe", "speed_kmh": 9.6, "speed_ratio": 0.24},
                edge | {"congestion": "free", "speed_kmh": 40.0, "speed_ratio": 1.0, "source": "profile"},
                edge | {"congestion": "unknown", "speed_kmh": 30.0, "speed_ratio": None, "source": "none"},
            ]
        )
    )
    assert [row["colour"] for row in rows[1:]] == [[79, 163, 165, 160], [143, 34, 87, 240]]
    assert [row["tip"] for row in rows] == [
        "unknown: 30 km/h, not judged\n4 vehicles: too few to be sure",
        "free: 40 km/h, 100% of free flow\nas usual at this hour of the week",
        "severe: 10 km/h, 24% of free flow\n4 vehicles in five minutes",
    ]


def test_the_chosen_vehicle_has_a_ring_where_it_is() -> None:
    fleet = pd.DataFrame({"vehicle_id": ["A", "B"], "lat_deg": [49.0, None], "lon_deg": [8.4, None]})
    (ring,) = clusters.ring(fleet, "A")
    assert ring.data == [{"lon": 8.4, "lat": 49.0}]
    assert clusters.ring(fleet, "B") == clusters.ring(fleet, "C") == []
