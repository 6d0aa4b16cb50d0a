"""Trends, trips and codes as they are shown; queries and the level of history that they read."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pandas as pd

from dashboard.screens.vehicle import charts, queries
from dashboard.shared import text
from infra.clients.db import sql_of
from infra.sql import migrate

AT = pd.Timestamp("2026-03-01 12:00", tz="UTC")
BERLIN = ZoneInfo("Europe/Berlin")


def trend(days: float | None, slope: float = -9.6) -> dict[str, object]:
    return {
        "metric": "tyre_rl", "unit": "kPa", "heads": "down", "as_of": AT, "value": 172.0, "points": 40,
        "slope_per_day": slope, "slope_low_per_day": slope - 0.1, "slope_high_per_day": slope + 0.1,
        "span_days": 6.5, "threshold": 169.5, "days_to_threshold": days,
        "threshold_at": None if days is None else AT + pd.Timedelta(days=days),
    }  # fmt: skip


def test_a_trend_says_when_its_threshold_is_met_or_that_it_does_not_head_there() -> None:
    table = text.table(pd.DataFrame([trend(0.26), trend(0.0), trend(None)]), charts.TRENDS, BERLIN)
    assert table["Threshold"].tolist() == [
        "threshold in 6 h 14 min",
        "beyond its threshold",
        "not heading there",
    ]
    first = table.iloc[0]
    assert (first["Signal"], first["Now"], first["A day"]) == ("Tyre, rear left", "172.0 kPa", "-9.60 kPa")
    assert (first["90 % sure"], first["Limit"], first["Met on"]) == (
        "-9.70 to -9.50",
        "▼ 169.5 kPa",
        "2026-03-01 19:14",
    )


def test_the_line_goes_back_over_its_hours_and_ahead_to_the_threshold() -> None:
    line = charts.line_of(trend(0.25))
    assert line["part"].tolist() == ["past", "past", "ahead", "ahead"]
    assert line["value"].round(1).tolist() == [234.4, 172.0, 172.0, 169.6]
    assert line["time"].iloc[0] == AT - pd.Timedelta(days=6.5)
    assert charts.line_of(trend(None))["part"].tolist() == ["past", "past"]
    assert charts.line_of(trend(200.0))["time"].iloc[-1] == AT + pd.Timedelta(days=30)


def test_a_forecast_has_its_axis_in_the_unit_and_a_dashed_way_ahead() -> None:
    hours = pd.DataFrame({"bucket": [AT.tz_localize(None)], "value": [180.0]})
    drawn = charts.forecast(hours, trend(0.25) | {"as_of": AT.tz_localize(None)}).spec
    assert drawn["layer"][0]["encoding"]["y"]["title"] == "kPa"
    assert drawn["layer"][2]["mark"]["strokeDash"] == [4, 4]


def test_codes_are_told_with_their_status() -> None:
    row = {
        "code": "P0301", "rule": "dtc_intermittent", "severity": "MINOR", "active": True, "opened_at": AT,
        "last_at": AT, "findings": 3,
    }  # fmt: skip
    told = text.table(pd.DataFrame([row]), charts.CODES, BERLIN, AT).iloc[0]
    assert told.tolist()[:4] == ["P0301", "comes and goes", "■ MINOR", "active"]


def test_a_span_of_the_readers_own_has_its_ends_in_order() -> None:
    start, end = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 3, tzinfo=UTC)
    assert queries.between(end, start, 10) == queries.Span(start, end, 600, past=False)
    assert queries.between(start, start, 10).end == start + timedelta(minutes=1)


def test_a_span_in_steps_of_days_has_the_whole_of_its_first_day_where_the_reader_is() -> None:
    start, end = (pd.Timestamp(2026, month, 20, 10, tz=UTC) for month in (3, 11))
    shown = queries.between(start, end, 10)
    assert shown.step_s == 86_400
    assert shown.whole(BERLIN) == (
        datetime(2026, 3, 19, 23, tzinfo=UTC), datetime(2026, 11, 20, 23, tzinfo=UTC)
    )  # fmt: skip
    assert shown.whole(ZoneInfo("America/New_York"))[0] == datetime(2026, 3, 20, 4, tzinfo=UTC)


def test_a_span_that_ends_in_the_hour_that_clocks_repeat_goes_up_to_its_end() -> None:
    end = datetime(2026, 10, 25, 1, 17, tzinfo=UTC)  # 02:17 in Berlin for the second time
    begin, until = queries.between(end - timedelta(hours=1), end, 10).whole(BERLIN)
    assert (begin, until) == (end - timedelta(hours=1), end + timedelta(seconds=10))


def test_each_metric_that_ships_has_its_words_and_its_column_of_the_hours() -> None:
    (sql,) = (sql for head, sql in sql_of(queries.__file__).items() if head.startswith("trend_hours"))
    shipped = (Path(migrate.__file__).parent / "013_trends.sql").read_text()
    columns = dict(re.findall(r"^ +\('(\w+)', '(\w+)', '", shipped, re.MULTILINE))
    assert dict(re.findall(r"WHEN '(\w+)' THEN (\w+)", sql)) == columns
    assert set(queries.METRICS) == set(columns)


def test_long_steps_are_read_from_roll_ups() -> None:
    steps = (10, 300, 600, 1800, 3600, 21_600, 86_400, 864_000)
    levels = [queries.history(step).__name__.removeprefix("history_") for step in steps]
    assert levels == ["windows", "windows", "minutes", "minutes", "hours", "hours", "days", "days"]
