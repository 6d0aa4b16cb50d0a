"""Values as people read them; the header line; tables; the span of a vehicle's page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import pytest

from dashboard.screens.vehicle import queries as spans
from dashboard.shared import live, text

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "unit", "digits", "shown"),
    [
        (1234.4, "km", 0, "1,234 km"),
        (0, "", 0, "0"),
        (None, "km", 0, "—"),
        (float("nan"), "", 1, "—"),
        (13.806, "V", 2, "13.81 V"),
    ],
)
def test_a_number_has_its_unit_and_no_data_is_not_zero(
    value: float | None, unit: str, digits: int, shown: str
) -> None:
    assert text.number(value, unit, digits) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(45, "45 s"), (720, "12 min"), (11_100, "3 h 05 min"), (187_200, "2 d 4 h"), (None, "—"), (-3, "0 s")],
)
def test_a_duration_is_short(seconds: float | None, shown: str) -> None:
    assert text.duration(seconds) == shown


def test_a_time_is_shown_in_the_readers_zone_with_its_day_only_when_it_is_another() -> None:
    assert text.clock(NOON, BERLIN, NOON) == "14:00:00 CEST"
    assert text.clock(NOON - timedelta(days=1), BERLIN, NOON) == "2026-06-30 14:00:00 CEST"
    assert text.clock(pd.NaT, BERLIN, NOON) == "—"


def test_charts_get_wall_clock_times() -> None:
    frame = text.local(pd.DataFrame({"t": [pd.Timestamp(NOON)]}), BERLIN, "t")
    assert frame["t"].tolist() == [pd.Timestamp("2026-07-01 14:00")]


def test_markdown_in_device_text_is_escaped() -> None:
    assert text.plain("![i](x)<b>") == r"\!\[i\]\(x\)\<b\>"


def fresh(**changes: object) -> dict[str, object]:
    return {
        "data_as_of": NOON - timedelta(seconds=3),
        "now": NOON,
        "watermark": NOON - timedelta(seconds=64),
        "late_open": 3,
        "late_frames": 1200,
    } | changes


def test_the_header_says_how_new_the_data_is() -> None:
    assert live.status_line(fresh(), BERLIN) == (
        "Data as of **13:59:57 CEST** (3 s ago) · watermark 64 s behind · late frames 1,200 in 24 h, "
        "3 not repaired · times in Europe/Berlin"
    )


def test_the_header_is_honest_about_nothing() -> None:
    assert live.status_line(None, BERLIN) == "How new the data is is not known yet"
    assert live.status_line(fresh(data_as_of=None), BERLIN) == "No data yet"
    assert "no watermark" in live.status_line(fresh(watermark=None), BERLIN)


def test_an_alert_says_its_severity_in_words_and_by_a_sign() -> None:
    assert [text.severity(s) for s in ("CRITICAL", "WARNING", None)] == ["▲ CRITICAL", "● WARNING", "—"]


def test_a_live_vehicle_is_shown_up_to_now() -> None:
    shown = spans.span("1 h", NOON - timedelta(days=3), NOON - timedelta(seconds=5), NOON, 10)
    assert shown == spans.Span(NOON - timedelta(hours=1), NOON, 10, past=False)


def test_a_silent_vehicle_is_shown_up_to_its_last_data() -> None:
    last = datetime(2021, 3, 29, 8, 30, tzinfo=UTC)
    shown = spans.span("15 min", last - timedelta(hours=2), last, NOON, 10)
    assert shown == spans.Span(last - timedelta(seconds=890), last + timedelta(seconds=10), 10, past=True)


def test_all_goes_back_to_the_first_data_in_longer_steps() -> None:
    shown = spans.span("all", NOON - timedelta(days=30), NOON, NOON, 10)
    assert (shown.start, shown.step_s) == (NOON - timedelta(days=30, seconds=10), 21_600)


def test_no_step_is_shorter_than_a_window() -> None:
    steps = [spans.span(length, NOON, NOON, NOON, 45).step_s for length in ("15 min", "1 h", "6 h")]
    assert steps == [45, 45, 60]


@pytest.mark.parametrize(
    ("length_s", "step_s"), [(900, 10), (3600, 10), (21_600, 60), (86_400, 300), (10**9, 2_851_200)]
)
def test_a_span_has_at_most_360_steps(length_s: float, step_s: int) -> None:
    assert spans.step_of(length_s) == step_s


@pytest.mark.parametrize(
    ("choice", "pace_s"), [("15 min", 10), ("1 h", 10), ("24 h", 60), ("30 d", 60), ("all", 60), ("own", 60)]
)
def test_a_span_is_drawn_anew_as_often_as_it_has_a_new_step(choice: str, pace_s: float) -> None:
    assert spans.pace_s(choice, 10, 60) == pace_s


def test_the_page_says_which_run_it_reads_and_when() -> None:
    since, until = (datetime(2026, 11, day, 23, tzinfo=UTC) for day in (19, 20))
    some: dict[str, Any] = {"run_id": "r1", "since": since, "until": until, "vehicles": ["A", "B"]}
    assert live.promoted_words([some], BERLIN) == "r1: 20 Nov 00:00 to 21 Nov 00:00, 2 vehicles"
    assert live.promoted_words([some | {"vehicles": None}], BERLIN) == "r1: 20 Nov 00:00 to 21 Nov 00:00"
