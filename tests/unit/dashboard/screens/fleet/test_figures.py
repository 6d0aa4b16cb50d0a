"""The figures of the fleet: what each says, and that no data is not zero."""

from __future__ import annotations

from urllib.parse import unquote

import pandas as pd

from dashboard.screens.fleet import charts
from dashboard.shared import pictures

NOW = {
    "vehicles": 41, "reporting": 37, "moving": 24, "idling": 6, "parked": 6, "speed_moving_kmh": 31.46,
    "frames_per_s": None, "incidents": 5, "unseen": 4,
}  # fmt: skip
TODAY = {
    "tz": "Europe/Berlin", "distance_km": 1250.4, "before_distance_km": 1300.0, "idle_share": 0.1234,
    "l_per_100km": 6.62, "kwh_per_100km": 15.0,
}  # fmt: skip
HOUR = pd.DataFrame(
    {name: [10.0, None, 20.0, 40.0] for name in ("vehicles", "on_road", "frames_per_s", "idle_share")}
    | {"speed_moving_kmh": [30.0] * 4, "distance_km": [None] * 4, "l_per_100km": [None] * 4}
    | {"kwh_per_100km": [14.0] * 4}
)


def test_figures_in_their_units() -> None:
    told = {t.label: t.value for t in charts.tiles(NOW, TODAY, HOUR)}
    assert told == {
        "Vehicles": "41", "Reporting": "37", "On the road": "30", "Idling": "6", "Mean speed": "31.5 km/h",
        "Frames/s": "—", "Driven today": "1,250 km", "Idle share": "12.3 %", "l/100 km": "6.6",
        "Incidents": "5",
    }  # fmt: skip


def test_a_day_is_told_with_its_zone_and_against_the_day_before() -> None:
    driven = next(t for t in charts.tiles(NOW, TODAY, HOUR) if t.label == "Driven today")
    assert (driven.help, driven.delta) == ("Since midnight, Europe/Berlin", "-50 km to yesterday")


def test_a_fleet_that_burns_nothing_is_told_in_kilowatt_hours() -> None:
    tiles = charts.tiles(NOW, TODAY | {"l_per_100km": None}, HOUR)
    assert [(t.value, t.trend) for t in tiles if t.label == "kWh/100 km"] == [("15.0", [14.0] * 4)]


def test_a_trend_has_only_what_was_measured() -> None:
    assert charts.trend(HOUR, "on_road") == [10.0, 20.0, 40.0]
    assert charts.trend(HOUR, "distance_km") is None
    assert charts.trend(None, "on_road") is None


def test_before_the_first_minute_everything_but_the_fleet_is_a_dash() -> None:
    told = {t.label: t.value for t in charts.tiles(NOW, {}, None)}
    assert (told["Driven today"], told["Idle share"], told["l/100 km"]) == ("—", "—", "—")


def test_a_small_change_looks_small_because_the_axis_begins_at_zero() -> None:
    drawn = unquote(pictures.line([37.0, 36.0, 37.0], "vehicles"))
    assert "M0.0,1.0 L50.0,1.6 L100.0,1.0" in drawn
    assert 'alt="vehicles"' in drawn


def test_vehicles_have_the_worst_and_the_number_of_their_own_incidents_the_worst_vehicle_first() -> None:
    fleet = pd.DataFrame(
        {"vehicle_id": ["A", "B", "C"], "severity": [None] * 3, "alerts": [9] * 3, "state": "moving"}
    )
    incidents = pd.DataFrame(
        [
            ("B", "CRITICAL"),
            (None, "MAJOR"),
            ("A", "MAJOR"),
            ("B", "MINOR"),
            ("C", "WARNING"),
            ("gone", "MAJOR"),
        ],
        columns=["vehicle_id", "severity"],
    )
    columns = ["vehicle_id", "severity", "alerts"]
    told = charts.incidents_of(fleet, incidents)[columns].values.tolist()
    assert told == [["B", "CRITICAL", 2], ["A", "MAJOR", 1], ["C", "WARNING", 1]]
    graver = charts.incidents_of(fleet, incidents, "MAJOR")[columns].values.tolist()
    assert graver == [["B", "CRITICAL", 1], ["A", "MAJOR", 1]]
