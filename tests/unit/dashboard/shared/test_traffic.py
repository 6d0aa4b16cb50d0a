"""What speeds are judged by until free flow is known, and what is said of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import h3
import pandas as pd
import pytest

from dashboard import query_cache
from dashboard.shared import live, maps
from infra.contract.errors import ServiceError
from infra.settings.sections import Roads

HERE = h3.latlng_to_cell(49.0, 8.4, 9)
LAT, LON = h3.cell_to_latlng(HERE)
NOW = datetime(2026, 11, 20, 8, 0, tzinfo=UTC)


def cells(*rows: tuple[int, float, str, float | None]) -> pd.DataFrame:
    """Sector, speed, source and free flow of one cell's directions, judged as the views do."""
    frame = pd.DataFrame(rows, columns=["heading_sector", "speed_kmh", "source", "free_flow_kmh"])
    judged = frame["free_flow_kmh"].notna() & (frame["source"] != "none")
    ratio = (frame["speed_kmh"] / frame["free_flow_kmh"]).where(judged)
    return frame.assign(cell=HERE, speed_ratio=ratio, congestion="unknown")


def test_a_speed_is_judged_by_free_flow_else_by_the_limit_there_else_by_50_km_h() -> None:
    found = maps.judged(
        cells((0, 20.0, "live", 40.0), (1, 20.0, "live", None), (2, 20.0, "live", None)), {(HERE, 1): 30.0}
    )
    assert found[["basis", "congestion"]].to_numpy().tolist() == [
        ["free flow", "congested"],
        ["the speed limit", "congested"],
        ["50 km/h", "severe"],
    ]
    assert found["speed_ratio"].tolist() == pytest.approx([0.5, 2 / 3, 0.4])


def test_of_few_vehicles_only_what_has_no_free_flow_yet_is_judged() -> None:
    found = maps.judged(cells((0, 20.0, "none", 40.0), (1, 28.0, "none", None)), {(HERE, 1): 30.0})
    assert found["congestion"].tolist() == ["unknown", "free"]


def test_an_edge_without_history_is_judged_by_its_limit_though_few_vehicles_were_seen() -> None:
    edge = {"speed_kmh": 24.0, "free_flow_kmh": 30.0, "source": "none", "speed_ratio": None}
    found = maps.judged(
        pd.DataFrame([edge | {"free_flow_basis": "limit"}, edge | {"free_flow_basis": "all hours"}]), {}
    )
    assert found[["basis", "congestion"]].to_numpy().tolist() == [
        ["the speed limit", "slow"],
        ["free flow", "unknown"],
    ]


def test_the_limit_of_a_cells_direction_is_that_of_its_roads_by_their_lengths() -> None:
    east = [[LON, LAT], [LON + 0.001, LAT]]
    edges = pd.DataFrame(
        {
            "path": [east, east, east[::-1], [[LON, LAT], [LON, LAT + 0.001]]],
            "speed_limit_kmh": [30.0, 60.0, 50.0, 0.0],
        }
    )
    assert maps.limits_of(edges) == pytest.approx({(HERE, 1): 40.0, (HERE, 3): 50.0})


def test_limits_are_made_once_for_all_and_asked_for_again_after_the_database_was_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    roads = pd.DataFrame({"path": [[[LON, LAT], [LON + 0.001, LAT]]], "speed_limit_kmh": [30.0]})
    answers: list[pd.DataFrame | ServiceError] = [ServiceError("away"), roads]

    def ask_for_all(*_: object) -> pd.DataFrame:
        found = answers.pop(0)
        if isinstance(found, ServiceError):
            raise found
        return found

    monkeypatch.setattr(query_cache, "ask_for_all", ask_for_all)
    monkeypatch.setattr(live, "network", lambda: {"version": "of this test"})
    found = [live.judged(cells((1, 20.0, "live", None)))["basis"].item() for _ in range(3)]
    assert found == ["50 km/h", "the speed limit", "the speed limit"]


def test_it_is_said_how_much_free_flow_is_missing_and_when_it_comes() -> None:
    none = maps.judged(cells((0, 20.0, "live", None), (1, 20.0, "live", None)), {})
    half = maps.judged(cells((0, 20.0, "live", 30.0), (1, 20.0, "live", None)), {})
    began = NOW - timedelta(minutes=10)
    assert maps.learning(none, began, Roads(), NOW) == (
        "Free-flow speed is known of 0 of 2 places (0%). It takes speeds of 3 five-minute spans and is "
        "computed every 10 min: the first in about 15 min."
    )
    assert maps.learning(half, began, Roads(), NOW).endswith(
        "known of 1 of 2 places (50%). It takes speeds of 3 five-minute spans and is computed every 10 min: "
        "of a place about 25 min after vehicles began to use it."
    )
    assert maps.learning(maps.judged(cells((0, 20.0, "live", 30.0)), {}), began, Roads(), NOW) == ""
