"""The charts by their specification."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd
import pytest

from dashboard.screens.vehicle import charts as vehicle_charts
from dashboard.shared import charts
from dashboard.shared.charts import Drawing

TIMES = pd.to_datetime(["2026-01-01 10:00", "2026-01-01 10:01", "2026-01-01 10:05"])


def values(drawn: Drawing, label: str) -> list[Any]:
    return [None if pd.isna(value) else value for value in drawn.rows[label]]


def test_a_line_breaks_where_a_step_is_missing() -> None:
    frame = pd.DataFrame({"t": TIMES, "v": [1.0, 2.0, 3.0]})
    whole = vehicle_charts.with_gaps(frame, "t", 60)
    assert list(whole["t"].dt.strftime("%H:%M")) == ["10:00", "10:01", "10:02", "10:05"]
    assert whole["v"].isna().tolist() == [False, False, True, False]


def test_an_empty_history_has_no_gaps() -> None:
    assert vehicle_charts.with_gaps(pd.DataFrame({"t": [], "v": []}), "t", 60).empty


def test_only_what_a_vehicle_has_gets_a_panel() -> None:
    frame = pd.DataFrame(
        {"coolant_mean_c": [None, None], "soc_pct": [80.0, None], "cell_temp_max_c": [30.0, 31.0]}
    )
    assert [p.title for p in vehicle_charts.present(frame)] == [
        "State of charge",
        "Cell temperature, highest",
    ]


def test_a_panel_has_its_unit_on_the_axis_and_a_legend_for_several_lines() -> None:
    frame = pd.DataFrame(
        {"t": TIMES, "battery_mean_v": [13.8, 13.7, 13.6], "battery_min_v": [13.5, 13.4, 13.3]}
    )
    battery = next(p for p in vehicle_charts.HEALTH if p.title == "12 V system")
    drawn = vehicle_charts.panel(frame, battery, "t").spec
    assert drawn["encoding"]["y"]["title"] == "V"
    assert drawn["encoding"]["color"]["scale"]["domain"] == ["mean", "lowest"]
    assert drawn["encoding"]["color"]["legend"] is not None


def test_a_missing_value_stays_missing_in_the_chart() -> None:
    frame = pd.DataFrame({"t": TIMES, "soc_pct": [80.0, None, 79.0]})
    soc = next(p for p in vehicle_charts.HEALTH if p.title == "State of charge")
    assert values(vehicle_charts.panel(frame, soc, "t"), "charge") == [80.0, None, 79.0]


def test_a_panel_spans_the_chosen_time_not_only_the_data() -> None:
    frame = pd.DataFrame({"t": TIMES, "soc_pct": [80.0, 79.5, 79.0]})
    soc = next(p for p in vehicle_charts.HEALTH if p.title == "State of charge")
    window = (pd.Timestamp("2026-01-01 09:00"), pd.Timestamp("2026-01-01 11:00"))
    scale = vehicle_charts.panel(frame, soc, "t", window).spec["encoding"]["x"]["scale"]
    assert scale["domain"] == ["2026-01-01T09:00:00", "2026-01-01T11:00:00"]


def test_speed_shows_mean_highest_and_the_limit_as_a_dashed_line() -> None:
    frame = pd.DataFrame(
        {
            "t": TIMES,
            "speed_mean_kmh": [40.0, 41, 42],
            "speed_max_kmh": [50.0, 51, 52],
            "speed_limit_kmh": [50.0] * 3,
        }
    )
    drawn = vehicle_charts.speed(frame, "t").spec
    assert [layer["mark"].get("strokeDash") for layer in drawn["layer"]] == [None, [4, 3]]


def test_speed_without_a_known_limit_has_no_limit_line() -> None:
    frame = pd.DataFrame(
        {
            "t": TIMES,
            "speed_mean_kmh": [40.0, 41, 42],
            "speed_max_kmh": [50.0, 51, 52],
            "speed_limit_kmh": [None] * 3,
        }
    )
    assert len(vehicle_charts.speed(frame, "t").spec["layer"]) == 1


def test_queries_are_told_apart_by_name() -> None:
    frame = pd.DataFrame({"query": ["telemetry", "archive"], "t": TIMES[:2], "batch_ms": [300, 600]})
    drawn = charts.by_query(frame, "t", "batch_ms", "ms").spec
    assert drawn["encoding"]["color"]["scale"]["domain"] == ["archive", "telemetry"]
    assert drawn["encoding"]["y"]["scale"] == {"domainMin": 0, "nice": True}


def test_counts_that_are_all_zero_lie_on_an_axis_with_whole_numbers() -> None:
    frame = pd.DataFrame({"query": ["telemetry", "archive"], "t": TIMES[:2], "lag_records": [0, 0]})
    axis = charts.by_query(frame, "t", "lag_records", "records").spec["encoding"]["y"]
    assert axis["scale"] == {"domainMax": 1, "domainMin": 0, "nice": True}
    assert (axis["axis"]["format"], axis["axis"]["tickMinStep"]) == (",.0f", 1)


def every_drawing(window: charts.Window | None) -> list[Drawing]:
    frame = pd.DataFrame({"t": TIMES, "query": "telemetry", "value": [1.0, 2.0, 3.0]})
    for column in ("speed_mean_kmh", "speed_max_kmh", "speed_limit_kmh", "soc_pct"):
        frame[column] = [40.0, 41.0, 42.0]
    soc = next(p for p in vehicle_charts.HEALTH if p.title == "State of charge")
    trend = {
        "unit": "kPa", "as_of": TIMES[2], "value": 170.0, "slope_per_day": -9.6, "span_days": 6.5,
        "days_to_threshold": 0.25, "threshold": 169.5,
    }  # fmt: skip
    return [
        vehicle_charts.panel(frame, soc, "t", window),
        vehicle_charts.speed(frame, "t", window),
        charts.trend(frame, "t", "value", "km/h"),
        charts.by_query(frame, "t", "value", "ms"),
        vehicle_charts.forecast(frame.rename(columns={"t": "bucket"}), trend),
    ]


WINDOW = (pd.Timestamp("2026-01-01 09:00"), pd.Timestamp("2026-01-01 11:00"))


@pytest.mark.parametrize("window", [None, WINDOW])
def test_every_drawing_is_valid_vega_lite_and_names_columns_that_its_rows_have(
    window: charts.Window | None,
) -> None:
    for drawn in every_drawing(window):
        whole = alt.Chart.from_dict(drawn.spec | {"data": {"name": "rows"}}, validate=True).to_dict()
        folds = [t for t in nodes_of(whole) if "fold" in t]
        made = {name for fold in folds for name in fold["as"]}
        assert all(set(fold["fold"]) <= set(drawn.rows.columns) for fold in folds), drawn.alt
        fields = {node["field"] for node in nodes_of(whole) if "field" in node}
        assert {"time", "value"} <= fields <= set(drawn.rows.columns) | made, drawn.alt
        assert "@" not in str(drawn.spec), drawn.alt
        assert not any({"data", "datasets"} & set(node) for node in nodes_of(drawn.spec)), drawn.alt
        assert drawn.alt


def nodes_of(node: Any) -> list[dict[str, Any]]:
    """All objects within a description."""
    if isinstance(node, list):
        return [found for part in node for found in nodes_of(part)]
    return [node, *nodes_of(list(node.values()))] if isinstance(node, dict) else []


def test_a_description_is_made_once_and_each_drawing_has_its_own_window() -> None:
    frame = pd.DataFrame({"t": TIMES, "soc_pct": [80.0, 79.5, 79.0]})
    soc = next(p for p in vehicle_charts.HEALTH if p.title == "State of charge")
    later = (WINDOW[0] + pd.Timedelta(hours=1), WINDOW[1] + pd.Timedelta(hours=1))
    one, other = vehicle_charts.panel(frame, soc, "t", WINDOW), vehicle_charts.panel(frame, soc, "t", later)
    assert one.description is other.description
    domains = [d.spec["encoding"]["x"]["scale"]["domain"] for d in (one, other)]
    assert domains[0] == ["2026-01-01T09:00:00", "2026-01-01T11:00:00"]
    assert domains[1] == ["2026-01-01T10:00:00", "2026-01-01T12:00:00"]


def test_a_page_may_change_a_description_without_changing_another_readers() -> None:
    frame = pd.DataFrame({"t": TIMES, "soc_pct": [80.0, 79.5, 79.0]})
    drawn = charts.trend(frame, "t", "soc_pct", "%")
    drawn.spec["layer"][0]["encoding"].clear()
    assert drawn.spec["layer"][0]["encoding"]["y"]["title"] == "%"


def test_a_forecast_draws_each_part_of_its_rows_in_a_layer_of_its_own() -> None:
    forecast = every_drawing(None)[-1]
    filters = [layer["transform"][0]["filter"] for layer in forecast.spec["layer"]]
    assert filters == [f"datum.part == '{part}'" for part in ("hours", "past", "ahead", "threshold")]
    assert forecast.rows["part"].value_counts().to_dict() == {
        "hours": 3, "past": 2, "ahead": 2, "threshold": 1,
    }  # fmt: skip
