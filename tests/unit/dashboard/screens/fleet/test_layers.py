"""Layers of a large fleet by their specification."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from dashboard.screens.fleet import maps as fleet_maps
from dashboard.shared import maps


def spec(*layers: Any) -> list[dict[str, Any]]:
    drawn = json.loads(maps.deck(layers, maps.View(49.0, 8.4, 12.0), "light").to_json())
    found: list[dict[str, Any]] = drawn["layers"]
    return found


def test_vehicles_and_bubbles_come_from_our_own_server_by_the_number_of_their_sheet() -> None:
    vehicles, bubbles = spec(
        maps.vehicles(maps.address(maps.VEHICLES_PATH, "7f", ["moving", "idling"]), "light", True),
        fleet_maps.clusters("7f", [], 2),
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
        "unknown: 30 km/h, not judged\n4 vehicles: too few to tell",
        "free: 40 km/h, 100% of free flow\nas usual at this hour of the week",
        "severe: 10 km/h, 24% of free flow\n4 vehicles in five minutes",
    ]


def test_the_chosen_vehicle_has_a_ring_where_it_is() -> None:
    fleet = pd.DataFrame({"vehicle_id": ["A", "B"], "lat_deg": [49.0, None], "lon_deg": [8.4, None]})
    (ring,) = fleet_maps.ring(fleet, "A")
    assert ring.data == [{"lon": 8.4, "lat": 49.0}]
    assert fleet_maps.ring(fleet, "B") == fleet_maps.ring(fleet, "C") == []
