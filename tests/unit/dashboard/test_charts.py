"""The charts by their specification."""

from __future__ import annotations

from typing import Any

import pandas as pd

from dashboard import charts

TIMES = pd.to_datetime(["2026-01-01 10:00", "2026-01-01 10:01", "2026-01-01 10:05"])


def spec(chart: Any) -> dict[str, Any]:
    drawn: dict[str, Any] = chart.to_dict()
    return drawn


def values(chart: Any) -> list[dict[str, Any]]:
    drawn = spec(chart)
    return list(next(iter(drawn["datasets"].values())))


def test_a_line_breaks_where_a_step_is_missing() -> None:
    frame = pd.DataFrame({"t": TIMES, "v": [1.0, 2.0, 3.0]})
    whole = charts.with_gaps(frame, "t", 60)
    assert list(whole["t"].dt.strftime("%H:%M")) == ["10:00", "10:01", "10:02", "10:05"]
    assert whole["v"].isna().tolist() == [False, False, True, False]


def test_an_empty_history_has_no_gaps() -> None:
    assert charts.with_gaps(pd.DataFrame({"t": [], "v": []}), "t", 60).empty


def test_only_what_a_vehicle_has_gets_a_panel() -> None:
    frame = pd.DataFrame(
        {"coolant_mean_c": [None, None], "soc_pct": [80.0, None], "cell_temp_max_c": [30.0, 31.0]}
    )
    assert [p.title for p in charts.present(frame)] == ["State of charge", "Cell temperature, highest"]


def test_a_panel_has_its_unit_on_the_axis_and_a_legend_for_several_lines() -> None:
    frame = pd.DataFrame(
        {"t": TIMES, "battery_mean_v": [13.8, 13.7, 13.6], "battery_min_v": [13.5, 13.4, 13.3]}
    )
    battery = next(p for p in charts.HEALTH if p.title == "12 V system")
    drawn = spec(charts.panel(frame, battery, "t"))
    assert drawn["encoding"]["y"]["title"] == "V"
    assert drawn["encoding"]["color"]["scale"]["domain"] == ["mean", "lowest"]
    assert drawn["encoding"]["color"]["legend"] is not None


def test_a_missing_value_stays_missing_in_the_chart() -> None:
    frame = pd.DataFrame({"t": TIMES, "soc_pct": [80.0, None, 79.0]})
    soc = next(p for p in charts.HEALTH if p.title == "State of charge")
    assert [row["value"] for row in values(charts.panel(frame, soc, "t"))] == [80.0, None, 79.0]


def test_a_panel_spans_the_chosen_time_not_only_the_data() -> None:
    frame = pd.DataFrame({"t": TIMES, "soc_pct": [80.0, 79.5, 79.0]})
    soc = next(p for p in charts.HEALTH if p.title == "State of charge")
    window = (pd.Timestamp("2026-01-01 09:00"), pd.Timestamp("2026-01-01 11:00"))
    scale = spec(charts.panel(frame, soc, "t", window))["encoding"]["x"]["scale"]
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
    drawn = spec(charts.speed(frame, "t"))
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
    assert len(spec(charts.speed(frame, "t"))["layer"]) == 1


def test_queries_are_told_apart_by_name() -> None:
    frame = pd.DataFrame({"query": ["windows", "archive"], "t": TIMES[:2], "batch_ms": [300, 600]})
    drawn = spec(charts.by_query(frame, "t", "batch_ms", "ms"))
    assert drawn["encoding"]["color"]["scale"]["domain"] == ["archive", "windows"]
    assert drawn["encoding"]["y"]["scale"] == {"domainMin": 0, "nice": True}


def test_counts_that_are_all_zero_lie_on_an_axis_with_whole_numbers() -> None:
    frame = pd.DataFrame({"query": ["windows", "archive"], "t": TIMES[:2], "lag_records": [0, 0]})
    axis = spec(charts.by_query(frame, "t", "lag_records", "records"))["encoding"]["y"]
    assert axis["scale"] == {"domainMax": 1, "domainMin": 0, "nice": True}
    assert (axis["axis"]["format"], axis["axis"]["tickMinStep"]) == (",.0f", 1)
