"""The charts by their specification."""

from __future__ import annotations

from datetime import date
from typing import Any

import altair as alt
import pandas as pd
import pytest

from dashboard.screens.alerts import evidence
from dashboard.screens.crashes import charts as crash_charts
from dashboard.screens.routing import charts as routing_charts
from dashboard.screens.vehicle import charts as vehicle_charts
from dashboard.shared import charts
from dashboard.shared.charts import Drawing

TIMES = pd.to_datetime(["2026-01-01 10:00", "2026-01-01 10:01", "2026-01-01 10:05"])


HOURLY = ["hour", "travel_time_index", "speed_kmh", "distance_km"]
FLOWS = ["origin_h3_r7", "destination_h3_r7", "suppressed", "trips", "duration_min", "distance_km"]


def values(drawn: Drawing, label: str) -> list[Any]:
    return [None if pd.isna(value) else value for value in drawn.rows[label]]


def test_a_line_breaks_where_a_step_is_missing() -> None:
    frame = pd.DataFrame({"bucket": TIMES, "v": [1.0, 2.0, 3.0]})
    whole = vehicle_charts.with_gaps(frame, 60)
    assert list(whole["bucket"].dt.strftime("%H:%M")) == ["10:00", "10:01", "10:02", "10:05"]
    assert whole["v"].isna().tolist() == [False, False, True, False]


def test_the_hour_that_clocks_repeat_keeps_its_order_and_has_no_gap() -> None:
    clock = pd.to_datetime([f"2026-10-25 {at}" for at in ("02:30", "02:00", "02:30", "03:30")])
    whole = vehicle_charts.with_gaps(pd.DataFrame({"bucket": clock, "v": [1.0, 2.0, 3.0, 4.0]}), 1800)
    assert [f"{at:%H:%M}" for at in whole["bucket"]] == ["02:30", "02:00", "02:30", "03:00", "03:30"]


def test_an_empty_history_has_no_gaps() -> None:
    assert vehicle_charts.with_gaps(pd.DataFrame({"bucket": [], "v": []}), 60).empty


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
        {"bucket": TIMES, "battery_mean_v": [13.8, 13.7, 13.6], "battery_min_v": [13.5, 13.4, 13.3]}
    )
    battery = next(p for p in vehicle_charts.HEALTH if p.title == "12 V system")
    drawn = vehicle_charts.panel(frame, battery).spec
    assert drawn["encoding"]["y"]["title"] == "V"
    assert drawn["encoding"]["color"]["scale"]["domain"] == ["mean", "lowest"]
    assert drawn["encoding"]["color"]["legend"] is not None


def test_a_missing_value_stays_missing_in_the_chart() -> None:
    frame = pd.DataFrame({"bucket": TIMES, "soc_pct": [80.0, None, 79.0]})
    soc = next(p for p in vehicle_charts.HEALTH if p.title == "State of charge")
    assert values(vehicle_charts.panel(frame, soc), "charge") == [80.0, None, 79.0]


def test_a_panel_spans_the_chosen_time_not_only_the_data() -> None:
    frame = pd.DataFrame({"bucket": TIMES, "soc_pct": [80.0, 79.5, 79.0]})
    soc = next(p for p in vehicle_charts.HEALTH if p.title == "State of charge")
    window = (pd.Timestamp("2026-01-01 09:00"), pd.Timestamp("2026-01-01 11:00"))
    scale = vehicle_charts.panel(frame, soc, window).spec["encoding"]["x"]["scale"]
    assert scale["domain"] == ["2026-01-01T09:00:00", "2026-01-01T11:00:00"]


def test_speed_shows_mean_highest_and_the_limit_as_a_dashed_line() -> None:
    frame = pd.DataFrame(
        {
            "bucket": TIMES,
            "speed_mean_kmh": [40.0, 41, 42],
            "speed_max_kmh": [50.0, 51, 52],
            "speed_limit_kmh": [50.0] * 3,
        }
    )
    drawn = vehicle_charts.speed(frame).spec
    assert [layer["mark"].get("strokeDash") for layer in drawn["layer"]] == [None, [4, 3]]


def test_speed_without_a_known_limit_has_no_limit_line() -> None:
    frame = pd.DataFrame(
        {
            "bucket": TIMES,
            "speed_mean_kmh": [40.0, 41, 42],
            "speed_max_kmh": [50.0, 51, 52],
            "speed_limit_kmh": [None] * 3,
        }
    )
    drawn = vehicle_charts.speed(frame).spec
    assert drawn["mark"].get("strokeDash") is None


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
    frame["bucket"] = TIMES
    soc = next(p for p in vehicle_charts.HEALTH if p.title == "State of charge")
    trend = {
        "unit": "kPa", "as_of": TIMES[2], "value": 170.0, "slope_per_day": -9.6, "span_days": 6.5,
        "days_to_threshold": 0.25, "threshold": 169.5,
    }  # fmt: skip
    return [
        vehicle_charts.panel(frame, soc, window),
        vehicle_charts.speed(frame, window),
        charts.trend(frame, "t", "value", "km/h"),
        charts.by_query(frame, "t", "value", "ms"),
        vehicle_charts.forecast(frame, trend),
    ]


def drawings_without_time() -> list[Drawing]:
    judged = pd.DataFrame({"s": [-1.0, 0.0], "value": [104.0, 106.0], "limit": [105.0, 105.0]})
    counted = pd.DataFrame({"day": [date(2026, 1, 1)], "worst": [2], "alerts": [3]})
    after = pd.DataFrame({"t_ms": [0.0, 10.0], "delta_v_kmh": [0.0, -5.0], "delta_v_lat_kmh": [0.0, 1.0]})
    before = pd.DataFrame({"t_ms": [-200.0, 0.0], "speed_kmh": [50.0, 48.0], "brake_on": [True, None]})
    before = before.reindex(columns=["t_ms", *crash_charts.PANELS, *crash_charts.FLAGS])
    hours = pd.DataFrame([("08:00", 2.5, 17.0, 120.0)], columns=HOURLY)
    flows = pd.DataFrame([("a", "b", False, 20.0, 12.0, 9.5)], columns=FLOWS)
    graded = pd.DataFrame([(0.5, 2.0, 4, 12.5)], columns=["from_min", "to_min", "predictions", "bias_pct"])
    return [
        evidence.value_chart(evidence.Judged(judged, "°C", ("coolant_temp_c",)), "Coolant", 12.0),
        evidence.signal_chart(judged[["s", "value"]], "coolant_temp_c", 12.0),
        evidence.by_day(counted, [date(2026, 1, 1)]),
        crash_charts.delta_v(after, {"air bag": 5.0}),
        *(drawn for _, drawn in crash_charts.panels(before)),
        routing_charts.delay(hours, "08:00"),
        routing_charts.matrix(flows, {"a": "Z1", "b": "Z2"}),
        routing_charts.horizons(graded, "bias_pct", "bias, %"),
    ]


WINDOW = (pd.Timestamp("2026-01-01 09:00"), pd.Timestamp("2026-01-01 11:00"))


@pytest.mark.parametrize(
    "drawings",
    [every_drawing(None), every_drawing(WINDOW), drawings_without_time()],
    ids=("all", "span", "rest"),
)
def test_every_drawing_is_valid_vega_lite_and_names_columns_that_its_rows_have(
    drawings: list[Drawing],
) -> None:
    for drawn in drawings:
        whole = alt.Chart.from_dict(drawn.spec | {"data": {"name": "rows"}}, validate=True).to_dict()
        folds = [t for t in nodes_of(whole) if "fold" in t]
        made = {name for fold in folds for name in fold["as"]}
        assert all(set(fold["fold"]) <= set(drawn.rows.columns) for fold in folds), drawn.alt
        fields = {node["field"] for node in nodes_of(whole) if "field" in node}
        own = [node["data"]["values"] for node in nodes_of(drawn.spec) if "data" in node]
        made |= {name for values in own for row in values for name in row}
        assert fields <= set(drawn.rows.columns) | made, drawn.alt
        assert "data" not in drawn.spec, drawn.alt
        assert drawn.alt


def nodes_of(node: Any) -> list[dict[str, Any]]:
    """All objects within a description."""
    if isinstance(node, list):
        return [found for part in node for found in nodes_of(part)]
    return [node, *nodes_of(list(node.values()))] if isinstance(node, dict) else []


def test_a_forecast_draws_each_part_of_its_rows_in_a_layer_of_its_own() -> None:
    forecast = every_drawing(None)[-1]
    *lines, threshold = forecast.spec["layer"]
    filters = [layer["transform"][0]["filter"] for layer in lines]
    assert filters == [f"datum.part == '{part}'" for part in ("hours", "past", "ahead")]
    assert forecast.rows["part"].value_counts().to_dict() == {"hours": 3, "past": 2, "ahead": 2}
    assert threshold["data"]["values"] == [{"value": 169.5}]
