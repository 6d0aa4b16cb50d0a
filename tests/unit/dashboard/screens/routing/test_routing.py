"""Charts and layers of traffic, flows and arrivals by their specification."""

from __future__ import annotations

import json
from typing import Any

import h3
import pandas as pd

from dashboard.screens.routing import charts

A, B, C = (h3.latlng_to_cell(49.0 + k * 0.1, 8.4, 7) for k in range(3))
FLOWS = pd.DataFrame(
    [
        (A, B, False, 20.0, 12.0, 9.5),
        (B, A, False, 10.0, 11.0, 9.4),
        (A, A, False, 5.0, 4.0, 1.5),
        (A, C, True, None, None, None),
    ],
    columns=["origin_h3_r7", "destination_h3_r7", "suppressed", "trips", "duration_min", "distance_km"],
)
QUALITY = pd.DataFrame(
    [(0.5, 2.0, 4, 37.5, 12.5), (60.0, 1440.0, 2, 3.0, -2.0)],
    columns=["from_min", "to_min", "predictions", "mape_pct", "bias_pct"],
)


def written(layer: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(layer.to_json())
    return found


def test_the_busiest_hexagon_is_first_and_a_suppressed_flow_names_none() -> None:
    assert charts.names(FLOWS) == {A: "Z1", B: "Z2"}


def test_flows_are_arcs_as_wide_as_their_trips_and_those_within_fill_the_hexagon() -> None:
    zones, arcs, labels = map(written, charts.flow_layers(FLOWS, charts.names(FLOWS)))
    assert [arc["tip"] for arc in arcs["data"]] == [
        "Z1 to Z2: about 20 trips, 12 min, 9.5 km (medians)",
        "Z2 to Z1: about 10 trips, 11 min, 9.4 km (medians)",
    ]
    assert [arc["width"] for arc in arcs["data"]] == [14.0, 7.8]
    assert [zone["tip"] for zone in zones["data"]] == [
        "Z1: about 5 trips, 4 min, 1.5 km (medians)",
        "Z2: no flow within it is shown",
    ]
    assert [label["name"] for label in labels["data"]] == ["Z1", "Z2"]


def test_the_matrix_has_a_field_for_each_flow_that_may_be_shown() -> None:
    drawn = charts.matrix(FLOWS, charts.names(FLOWS))
    assert drawn.rows[["origin", "destination", "trips"]].to_records(index=False).tolist() == [
        ("Z1", "Z2", 20.0),
        ("Z2", "Z1", 10.0),
        ("Z1", "Z1", 5.0),
    ]
    assert drawn.spec["layer"][0]["encoding"]["y"]["title"] == "from"


def test_predictions_are_charted_by_horizon_in_their_order() -> None:
    drawn = charts.horizons(QUALITY, "bias_pct", "bias, %", signed=True)
    bars = drawn.spec["layer"][0]
    assert drawn.rows[["horizon", "bias_pct"]].to_records(index=False).tolist() == [
        ("0.5-2", 12.5),
        ("60+", -2.0),
    ]
    assert bars["encoding"]["y"]["title"] == "bias, %"
    assert bars["encoding"]["x"]["sort"] is None


def test_a_day_is_charted_with_all_its_hours() -> None:
    hours = pd.DataFrame(
        [("08:00", 2.5, 17.0, 120.0)], columns=["hour", "travel_time_index", "speed_kmh", "distance_km"]
    )
    bars = charts.delay(hours, "08:00").spec["layer"][0]
    assert len(bars["encoding"]["x"]["scale"]["domain"]) == 24
    assert bars["encoding"]["color"]["condition"]["test"] == "datum.hour === '08:00'"
