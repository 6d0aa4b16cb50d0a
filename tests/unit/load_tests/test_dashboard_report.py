"""The judgement of a measurement of the pages."""

from __future__ import annotations

from load_tests.dashboard import month
from load_tests.dashboard.month import Plan
from load_tests.dashboard.paint import Paint
from load_tests.dashboard.reader import PAGE, Run
from load_tests.dashboard.report import Report, refresh_s, slope, text

FLAT = [(60.0 * k, 300.0 + k % 2, 40.0) for k in range(30)]
GROWING = [(60.0 * k, 300.0 + k, 40.0) for k in range(30)]
FILLING = [(60.0 * k, 300.0 + min(k, 10) * 5, 40.0) for k in range(30)]


def test_a_refresh_is_every_live_part_once() -> None:
    runs = [Run("/", "a", s, 1) for s in (0.1, 0.2, 0.3)] + [Run("/", "b", s, 1) for s in (0.05, 0.05, 5.0)]
    assert refresh_s(runs) == 0.25


def test_memory_that_grows_by_a_mebibyte_a_minute_grows_by_sixty_an_hour() -> None:
    assert (round(slope(GROWING, 1)), round(slope(FILLING, 1))) == (60, 0)
    assert abs(slope(FLAT, 1)) < 10


def test_a_short_run_says_nothing_about_growth() -> None:
    short, long = Report(10, 20, memory=GROWING[:8]), Report(10, 20, memory=GROWING)
    assert (short.missed(), len(long.missed())) == ([], 1)
    assert "MiB/h" not in text(short)
    assert "server: 300 -> 329 MiB in 29 min, 312 to 329 MiB and +60.0 MiB/h once settled" in text(long)


def test_aims_that_are_missed_are_named() -> None:
    paints = [Paint("/", True, 1.0, 9.0, 9.5), Paint("/", False, 0.2, 2.5, 3.0)]
    found = Report(10, 20, paints, [Run("/", PAGE, 9.0, 1), Run("/", "a", 0.6, 1)], [], GROWING)
    assert found.missed() == [
        "/: header after 2.50 s",
        "/: a refresh takes 600 ms",
        "the server grew by 60.0 MiB/h",
    ]
    assert "MISSED  /: a refresh takes 600 ms" in text(found)


def test_a_run_within_its_aims_says_so() -> None:
    paints = [Paint("/", True, 1.0, 9.0, 9.5), Paint("/", False, 0.2, 0.9, 1.2)]
    found = Report(10, 20, paints, [Run("/", "a", 0.1, 1)], [], FLAT)
    assert found.missed() == []
    assert text(found).endswith("all aims met")


def test_columns_that_a_plan_does_not_name_have_a_value_by_their_type() -> None:
    known = [("vehicle_id", "text", False), ("speed_kmh", "double precision", True), ("note", "text", True)]
    made = month.statement(
        Plan("vehicle", "generate_series(0, 1) v", {"vehicle_id": "'V'"}, timed=False), known
    )
    words = made.as_string()
    assert words.startswith('INSERT INTO odograph."vehicle" ("vehicle_id", "speed_kmh") SELECT \'V\', 10 + k')


def test_each_vehicle_has_an_incident_before_the_alert_that_is_of_it() -> None:
    plans = {plan.table: plan for plan in month.plans(10, 1)}
    tables = list(plans)
    assert tables.index("incident") < tables.index("alert")
    assert plans["incident"].given["incident_id"] == plans["alert"].given["first_alert_id"]
    columns = [("first_alert_id", "text", True), ("incident_no", "bigint", True)]
    words = month.statement(plans["alert"], columns).as_string()
    own = "(SELECT incident_no FROM odograph.incident WHERE incident_id = 'finding-' || v)"
    assert f"SELECT 'finding-' || v, {own} FROM" in words
