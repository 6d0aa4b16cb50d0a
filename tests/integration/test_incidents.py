"""Incidents by the real event store: floods, causes, late findings, and what people do with them."""

from __future__ import annotations

from typing import Any

import pytest

from infra.contract.errors import ServiceError
from stream_jobs.alerts.store import alert_store
from tests.integration.events_support import (
    STORED_S,
    T0,
    VINS,
    alert,
    change,
    produce,
    rows,
    snapshot,
    topic_values,
    until_read,
)  # fmt: skip
from tests.support import Lane, eventually

pytestmark = pytest.mark.integration

FLEET = 400
OWN = """
SELECT incident_no, cause, severity, alerts, rules, active FROM serving.incident WHERE vehicle_id = %s
ORDER BY incident_no
"""
ALL = """
SELECT vehicle_id, vehicles, alerts, active, severity, cause FROM serving.incident ORDER BY opened_at
"""
UNLIKE = """
SELECT i.incident_no, l.*, i.active, i.severity, i.opened_at
FROM serving.incident_listed l JOIN serving.incident i USING (incident_no)
WHERE (l.active, l.severity, l.opened_at) IS DISTINCT FROM (i.active, i.severity, i.opened_at)
"""
"""Incidents that lists take for something else than they are."""
OLD = """
INSERT INTO odograph.alert (vehicle_id, rule, rule_version, severity, message, opened_at, last_at, cleared_at,
    findings, late, first_alert_id)
SELECT %s, 'coolant_hot', 1, 'WARNING', 'hot', at, at, at, 1, false, 'old' FROM to_timestamp(%s) AS at
"""


def silent(number: int, at_ms: int) -> tuple[str, bytes]:
    """A vehicle that fell silent."""
    vin = f"1HGCM82633A{number:06d}"
    about = {"vehicle_id": vin, "rule": "vehicle_silent", "severity": "MINOR", "message": "Nothing received"}
    _, value = alert(0, 0, alert_id=f"silent-{vin}-{at_ms}", event_ms=at_ms, received_ms=at_ms, **about)
    return vin, value


def found(vehicle: int, seconds: int, rule: str, severity: str = "WARNING") -> tuple[str, bytes]:
    """A finding of a rule."""
    return alert(vehicle, seconds, alert_id=f"{rule}-{vehicle}-{seconds}", rule=rule, severity=severity)


def incidents(lane: Lane) -> dict[str, list[dict[str, Any]]]:
    """All that is known of incidents, and which alerts are theirs."""
    queries = {
        "incident": "SELECT * FROM odograph.incident ORDER BY 1",
        "alert": "SELECT first_alert_id, incident_no, to_join FROM odograph.alert ORDER BY 1",
        "note": "SELECT * FROM odograph.incident_note ORDER BY 1",
    }
    return {name: rows(lane, query) for name, query in queries.items()}


def test_400_silent_vehicles_are_one_incident_also_in_batches_and_read_again(lane: Lane) -> None:
    produce(lane, "alerts", [silent(900, T0 - 7_200_000), *(silent(k, T0 + 250 * k) for k in range(60))], T0)
    with lane.process("jobs", "events") as process:
        until_read(lane, 61)
        process.kill()
    produce(lane, "alerts", [silent(k, T0 + 250 * k) for k in range(60, FLEET)], T0)
    with lane.process("jobs", "events"):
        until_read(lane, FLEET + 1)
        assert [tuple(row.values()) for row in rows(lane, ALL)] == [
            ("1HGCM82633A000900", 1, 1, True, "MINOR", "silence"),
            (None, FLEET, FLEET, True, "MINOR", "silence"),
        ]
        kinds = {row["kind"] for row in rows(lane, "SELECT kind FROM serving.incident_note")}
        assert "fleet" in kinds <= {"fleet", "joined"}
    told = {row["vehicle_id"]: row for row in topic_values(lane, "incidents") if "vehicle_id" in row}
    (name,) = {row["incident_id"] for vin, row in told.items() if vin != "1HGCM82633A000900"}
    assert (len(told), sum(row["fleet"] for row in told.values())) == (FLEET + 1, FLEET)
    assert (
        rows(lane, "SELECT incident_id FROM serving.incident WHERE vehicle_id IS NULL")[0]["incident_id"]
        == name
    )
    before = snapshot(lane), incidents(lane)
    change(lane, "DELETE FROM odograph.consumer_offset")
    with lane.process("jobs", "events"):
        until_read(lane, FLEET + 1)
    assert (snapshot(lane), incidents(lane)) == before
    assert rows(lane, UNLIKE) == []


def test_alerts_of_one_cause_are_joined_and_people_have_them_by_incident(lane: Lane) -> None:
    # An alert of the time before there were incidents gets its own, by the same way.
    change(lane, OLD, VINS[0], T0 / 1000 - 7000)
    produce(lane, "alerts", [
        found(0, 1, "coolant_critical", "CRITICAL"), found(0, 2, "dtc_active.P0217"),
        found(0, 3, "dtc_active.U0121"), found(0, 4, "tyre_slow_leak.front left"), found(1, 5, "coolant_hot"),
    ], T0)  # fmt: skip
    with lane.process("jobs", "events"):
        until_read(lane, 5)
        eventually(lambda: not rows(lane, "SELECT FROM odograph.alert WHERE to_join"), STORED_S, "all joined")
        mine = [tuple(row.values())[1:] for row in rows(lane, OWN, VINS[0])]
        assert mine == [
            ("cooling", "WARNING", 1, ["coolant_hot"], False),
            ("cooling", "CRITICAL", 2, ["coolant_critical", "dtc_active.P0217"], True),
            ("trouble_code", "WARNING", 1, ["dtc_active.U0121"], True),
            ("tyre front left", "WARNING", 1, ["tyre_slow_leak.front left"], True),
        ]
        old, hot, _, tyre = (row["incident_no"] for row in rows(lane, OWN, VINS[0]))
        with alert_store(lane.endpoints.db_dispatch_url) as people:
            assert people.do("incident_acknowledge", [hot, tyre, 99], "A. Okafor", "called") == [
                hot,
                tyre,
            ]
            assert people.do("incident_acknowledge", [hot], "A. Okafor", None) == []
            assert people.do("incident_assign", [hot], "A. Okafor", "M. Weber") == [hot]
            assert people.do("incident_comment", [hot], "M. Weber", "tow truck is on its way") == [hot]
            (silenced,) = people.silence_incidents([hot], 600, "M. Weber", "known")
            assert [(s.cause, s.vehicle_id, s.rule) for s in people.in_force()] == [
                ("cooling", VINS[0], None)
            ]
        # A finding between both cooling incidents: one, under the older number, with all that was said.
        produce(lane, "alerts", [found(0, -3500, "coolant_hot")], T0)
        until_read(lane, 6)
        with alert_store(lane.endpoints.db_ingest_url) as jobs:
            whole = jobs.incident(old)
            with pytest.raises(ServiceError, match=f"there is no incident {hot}; see"):
                jobs.incident(hot)
        assert (whole["alerts"], whole["assigned_to"], whole["incident_id"]) == (4, "M. Weber", "old")
        assert [note["kind"] for note in whole["notes"]] == [
            "acknowledged", "assigned", "comment", "silenced", "joined",
        ]  # fmt: skip
        seen = {a["rule"]: (a["acknowledged_by"], a["silenced_until"] is not None) for a in whole["timeline"]}
        assert seen["coolant_critical"] == ("A. Okafor", True)
        assert whole["silenced_until"] == silenced["until_at"]
        assert rows(lane, UNLIKE) == []
        listed = lane.run("incidents", "list", "--cause", "cooling")
        assert (listed.returncode, listed.stdout.count("cooling")) == (0, 2)
        closed = lane.run("incidents", "close", str(old), str(tyre), "--by", "M. Weber", "--note", "repaired")
        assert closed.stdout == f"closed: {old}, {tyre}\n"
        shown = lane.run("incidents", "show", str(old)).stdout
        assert "over, silenced" in shown
        assert "closed        M. Weber   repaired" in shown
        assert rows(lane, UNLIKE) == []
        active = [line.split()[0] for line in lane.run("incidents", "list").stdout.splitlines()[1:]]
        assert not {str(old), str(tyre)} & set(active)
