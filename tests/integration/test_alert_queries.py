"""The questions of the pages of alerts and crash records against known rows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from dashboard.db import Connection
from dashboard.screens.alerts import queries as alert_queries
from dashboard.screens.crashes import queries as crash_queries
from dashboard.shared import queries as shared_queries
from infra.stack.stack import Stack
from stream_jobs.alerts import store
from tests import support_rows
from tests.integration.dashboard_support import reading
from tests.rows.town import vehicle_id
from tests.support import Lane, open_lane

pytestmark = pytest.mark.integration

CRASH = (vehicle_id(7), 1, "c-1")
NOW = datetime(2026, 3, 29, 10, 30, tzinfo=UTC)
"""The morning after a night of 23 hours in Berlin; alerts opened up to 55 min before."""


@pytest.fixture(scope="module")
def lane(stack: Stack) -> Iterator[Lane]:
    with open_lane(stack, topics=False) as opened:
        yield opened


@pytest.fixture(scope="module")
def connection(lane: Lane) -> Iterator[Connection]:
    with psycopg.connect(lane.endpoints.db_ingest_url) as ingest:
        support_rows.fill(ingest, NOW)
    with reading(lane) as opened:
        yield opened


def test_one_alert_is_all_that_is_known_of_it_with_the_crash_record_behind_it(connection: Connection) -> None:
    crash = alert_queries.alert(connection, 2).iloc[0]
    assert (crash["rule"], crash["verdict"], crash["crash_id"]) == ("crash_airbag", "unverified", "c-1")
    assert crash["crash_boot_id"] == 1
    assert alert_queries.alert(connection, 1).iloc[0]["crash_id"] is None
    assert alert_queries.alert(connection, 99).empty


def test_alerts_are_found_by_rule_also_by_the_part_before_its_point(connection: Connection) -> None:
    assert shared_queries.alerts(connection, rule="speeding")["alert_no"].tolist() == [5, 6]
    assert shared_queries.alerts(connection, rule="crash").empty
    assert sorted(shared_queries.alerts(connection, numbers=[6, 1, 99])["alert_no"]) == [1, 6]


def test_the_evidence_is_in_the_order_of_time(connection: Connection) -> None:
    frames = alert_queries.alert_evidence(connection, 1)
    assert len(frames) == 60
    assert frames["t0"].iloc[0] == NOW - timedelta(seconds=450)
    assert [f["coolant_temp_c"] for f in frames["frame"].iloc[[0, 59]]] == [98.0, 112.75]
    assert alert_queries.alert_evidence(connection, 2).empty


def test_the_history_is_in_the_order_of_its_time(connection: Connection) -> None:
    assert alert_queries.alert_changes(connection, 7)["change"].tolist() == [
        "opened",
        "acknowledged",
        "cleared",
    ]


def test_rules_are_counted_by_the_readers_days(connection: Connection) -> None:
    start, end = datetime(2026, 3, 28, 23, tzinfo=UTC), datetime(2026, 3, 29, 22, tzinfo=UTC)
    days = alert_queries.rule_days(connection, start, end, "Europe/Berlin").set_index("rule")
    assert days["alerts"].to_dict() == {
        "battery_low": 1, "coolant_high": 2, "crash_airbag": 1, "speeding": 2, "tyre_low": 1,
    }  # fmt: skip
    assert {str(day) for day in days["day"]} == {"2026-03-29"}
    assert days.loc["coolant_high", ["active", "unseen", "worst"]].tolist() == [1, 1, 2]
    later = alert_queries.rule_days(connection, NOW - timedelta(seconds=300), NOW, "UTC")
    assert later[["rule", "alerts"]].to_numpy().tolist() == [["speeding", 1]]


def test_rules_and_silences_are_listed_those_that_are_over_too(connection: Connection) -> None:
    rules = shared_queries.rules(connection).set_index("rule")["in_force"].to_dict()
    assert rules == {"belt_off": False, "coolant_high": True, "speeding": True, "vehicle_silent": True}
    silences = alert_queries.silences(connection)
    assert silences[["rule", "in_force", "why"]].to_numpy().tolist() == [
        ["vehicle_silent", False, "ferry crossing"]
    ]


def test_a_crash_record_with_its_integrity_curves_and_custody(connection: Connection) -> None:
    found = crash_queries.crash_list(connection, None, None)
    assert found[["crash_id", "verdict", "defects"]].to_numpy().tolist() == [["c-1", "unverified", None]]
    assert crash_queries.crash_list(connection, None, "confirmed").empty
    record = crash_queries.crash(connection, *CRASH).iloc[0]
    assert (record["unchanged"], record["raw_kept"], record["hash_ok"]) == (True, False, True)
    curve = crash_queries.delta_v(connection, *CRASH)
    assert (len(curve), curve["t_ms"].iloc[-1], curve["delta_v_kmh"].iloc[-1]) == (26, 250.0, -27.0)
    before = crash_queries.pre_crash(connection, *CRASH)
    assert (len(before), before["t_ms"].iloc[0], before["t_ms"].iloc[-1]) == (201, -20_000.0, 0.0)
    custody = crash_queries.custody(connection, *CRASH)
    assert custody[["action", "holds"]].to_numpy().tolist() == [["received", True], ["locked", True]]
    assert crash_queries.crash(connection, vehicle_id(7), 2, "c-1").empty


def test_a_record_changed_behind_the_logs_back_and_a_changed_entry_show(
    lane: Lane, connection: Connection
) -> None:
    with psycopg.connect(lane.endpoints.db_owner_url) as owner:
        for table, trigger in (("crash_record", "guard"), ("custody", "append_only")):
            owner.execute(f"ALTER TABLE odograph.{table} DISABLE TRIGGER {trigger}".encode())
        owner.execute("UPDATE odograph.crash_record SET record = record || '{\"belt_on\": false}'")
        owner.execute("UPDATE odograph.custody SET actor = 'nobody' WHERE entry = 1")
    assert not crash_queries.crash(connection, *CRASH).iloc[0]["unchanged"]
    assert crash_queries.custody(connection, *CRASH)["holds"].tolist() == [False, True]


MANY = """
WITH made AS (
    INSERT INTO odograph.incident (incident_id, vehicle_id, cause)
    SELECT 'i' || n, 'V' || n, 'cooling' FROM generate_series(1, 5000) n RETURNING incident_no, vehicle_id)
INSERT INTO odograph.alert (vehicle_id, rule, rule_version, severity, message, opened_at, last_at, cleared_at,
    findings, late, first_alert_id, incident_no, to_join)
SELECT vehicle_id, 'coolant_hot', 1, (ARRAY['WARNING', 'MAJOR', 'CRITICAL'])[1 + incident_no % 3], 'hot',
       at, at, CASE WHEN incident_no > 10 THEN at END, 1, false, 'a' || incident_no, incident_no, false
FROM made, LATERAL (SELECT now() - incident_no * INTERVAL '1 s' AS at) t
"""


def scanned(plan: dict[str, Any]) -> float:
    """Rows that a plan's scans of tables gave or left out."""
    rows = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)
    own = rows * plan["Actual Loops"] if "Relation Name" in plan else 0.0
    return own + sum(scanned(part) for part in plan.get("Plans", ()))


def test_a_page_of_a_long_list_reads_what_it_shows_the_worst_first(stack: Stack) -> None:
    with open_lane(stack, topics=False) as lane:
        with psycopg.connect(lane.endpoints.db_owner_url, autocommit=True) as owner:
            owner.execute(MANY)
            owner.execute("ANALYZE odograph.incident, odograph.alert")
        every = {"every": True, "cause": None, "rule": None, "limit": 20}
        with psycopg.connect(lane.endpoints.db_ingest_url) as jobs:
            for name, vehicle in (("incidents", None), ("list", None), ("incidents", "V7"), ("list", "V7")):
                ask = f"EXPLAIN (ANALYZE, FORMAT JSON) {store.SQL[name]}".encode()
                ((found,),) = jobs.execute(ask, every | {"vehicle": vehicle}).fetchall()
                assert scanned(found[0]["Plan"]) < 200, name
        with reading(lane) as connection:
            shown = shared_queries.incidents(connection, most=100)
            assert (shown["active"].sum(), shown["severity"][10:].unique().tolist()) == (10, ["CRITICAL"])
            closed = shared_queries.incidents(connection, active=False, severities=["MAJOR"], most=30)
            assert closed["opened_at"].is_monotonic_decreasing
            assert closed[["severity", "active"]].drop_duplicates().values.tolist() == [["MAJOR", False]]
