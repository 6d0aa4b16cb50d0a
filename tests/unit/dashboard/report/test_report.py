"""A day's report: what stands in it, from small frames whose answers are known."""

from __future__ import annotations

from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import pytest

from dashboard.db import Database
from dashboard.report import report
from infra.contract.errors import ConfigError

PARIS = ZoneInfo("Europe/Paris")
DAY = report.of_hours(datetime(2026, 11, 20, tzinfo=PARIS), datetime(2026, 11, 21, tzinfo=PARIS))
HOURS = pd.DataFrame(
    {
        "bucket": pd.to_datetime(["2026-11-20T07:00Z", "2026-11-20T08:00Z"]),
        "vehicles": [2, 1],
        "frames": [7200, 3600],
        "distance_km": [80.04, 20.0],
    }
)
DRIVEN = pd.DataFrame(
    {
        "vehicle_id": ["WDB1240001A000001", "WDB1240001A000002"],
        "model": [None, "Leaf"],
        "frames": [9000, 1800],
        "distance_km": [60.04, 40.0],
        "idle_s": [130.0, None],
        "score": [87.6, None],
    }
).assign(
    moving_s=3600.0, speeding_s=12.0, fuel_l=None, energy_kwh=6.5, trips=2, brake=3, accelerate=0, corner=1
)


def incident(**more: Any) -> dict[str, Any]:
    opened = datetime(2026, 11, 20, 8, 30, tzinfo=UTC)
    row = {"incident_no": 7, "vehicle_id": "WDB1240001A000001", "cause": "cooling", "severity": "MAJOR"}
    row |= {"message": "coolant 108 °C", "opened_at": opened, "closed_at": None, "alerts": 3, "vehicles": 1}
    return row | {"acknowledged_by": None, "assigned_to": None} | more


def test_a_day_has_a_bar_for_each_of_its_hours_and_none_where_nothing_is_known() -> None:
    found = report.bars(HOURS, "bucket", "distance_km", DAY, 1)
    assert len(found) == 24
    assert found[7:10] == [("07", "—", None), ("08", "80.0", 100.0), ("09", "20.0", 25.0)]
    delhi = ZoneInfo("Asia/Kolkata")  # whose hours begin in the middle of the roll-up's
    half = report.of_hours(datetime(2026, 11, 20, tzinfo=delhi), datetime(2026, 11, 21, tzinfo=delhi))
    shifted = report.bars(HOURS, "bucket", "distance_km", half, 1)
    assert shifted[12:14] == [("12", "80.0", 100.0), ("13", "20.0", 25.0)]
    changed = report.of_hours(datetime(2026, 10, 25, tzinfo=PARIS), datetime(2026, 10, 26, tzinfo=PARIS))
    assert [f"{hour:%H}" for hour in changed[:4]] == ["00", "01", "02", "02"]
    assert len(changed) == 25


def test_the_fleet_is_summed_over_its_vehicles_and_what_nobody_measured_is_a_dash() -> None:
    assert report.fleet(HOURS, DRIVEN, DAY).figures == {
        "Vehicles": "2",
        "Distance": "100.0 km",
        "Driven": "2 h 00 min",
        "Idled": "2 min",
        "Fuel": "—",
        "Traction energy": "13.0 kWh",
        "Frames": "10,800",
    }


def test_incidents_are_counted_by_severity_and_the_fleets_says_how_many_vehicles() -> None:
    silent = incident(vehicle_id=None, vehicles=400, severity="WARNING", acknowledged_by="Ada")
    found = report.incidents(pd.DataFrame([incident(), silent]), PARIS)
    assert found.figures == {"Incidents": "2", "◆ MAJOR": "1", "● WARNING": "1", "Not acknowledged": "1"}
    (listed,) = found.tables
    assert listed.rows[0] == [
        "◆ MAJOR", "7", "WDB1240001A000001", "cooling", "coolant 108 °C", "2026-11-20 09:30",
        "—", "3", "—", "—",
    ]  # fmt: skip
    assert listed.rows[1][2] == "fleet: 400 vehicles"


def test_a_long_table_is_cut_and_says_so() -> None:
    listed = report.table("The worst", pd.DataFrame([incident()] * 31), report.INCIDENTS, PARIS, "none")
    assert (listed.title, len(listed.rows)) == ("The worst (20 of 31)", 20)


def test_driving_is_by_vehicle_in_numbers_that_stand_on_the_right() -> None:
    (listed,) = report.driving(DRIVEN, PARIS).tables
    assert listed.rows == [
        ["WDB1240001A000001", "—", "2", "60.0", "60 min", "2 min", "12 s", "3", "0", "1", "88"],
        ["WDB1240001A000002", "Leaf", "2", "40.0", "60 min", "—", "12 s", "3", "0", "1", "—"],
    ]
    assert [head for head, right in zip(listed.heads, listed.right, strict=True) if right] == [
        "Trips", "km", "Braking", "Accelerating", "Cornering", "Score",
    ]  # fmt: skip


def test_what_there_is_none_of_is_said() -> None:
    nothing = pd.DataFrame()
    said = [
        report.incidents(nothing, PARIS),
        report.health(nothing, nothing, PARIS),
        report.routing(nothing, nothing, DAY, PARIS),
        report.quality({"hours": 0}, nothing, PARIS),
    ]
    assert [table.title for section in said for table in section.tables if not table.rows] == [
        "No incident was open on this day.",
        "No signal heads for its threshold.",
        "No trouble code was open on this day.",
        "No delay is known: free-flow speeds are still being learned, or all was free.",
        "The ledger has no hour of this day: nothing to note, or not audited yet.",
        "Nothing that was received on this day was late or refused.",
    ]


class Tags(HTMLParser):
    """The tags and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


def test_the_file_runs_and_fetches_nothing_whatever_a_vehicle_says() -> None:
    evil = incident(message="<script>alert(1)</script>", assigned_to='"><img src=http://a.example/>')
    sections = [
        report.fleet(HOURS, DRIVEN, DAY),
        report.incidents(pd.DataFrame([evil]), PARIS),
        report.driving(DRIVEN, PARIS),
    ]
    tags = Tags()
    tags.feed(report.rendered("Fleet", "Made", sections))
    assert not {tag for tag, _ in tags.seen} & {"script", "img", "link", "iframe", "a", "object"}
    assert not [given for _, given in tags.seen if {"src", "href", "style"} & set(given)]
    (policy,) = [
        given["content"]
        for tag, given in tags.seen
        if tag == "meta" and "content" in given and "http-equiv" in given
    ]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("2026-13-40", "the day '2026-13-40': a day such as 2026-11-20 is wanted"),
        ("9998-01-01", "has not begun"),
    ],
)
def test_what_is_no_day_that_has_begun_is_refused_before_anything_is_asked(asked: str, words: str) -> None:
    def unasked() -> str:
        raise AssertionError

    with pytest.raises(ConfigError, match=words):
        report.made(Database(unasked), asked, None, "UTC")
