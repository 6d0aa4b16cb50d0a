"""The incident that an alert is told with: joined here, corrected by the event store's word."""

from __future__ import annotations

import math

from bridge.downlink.feed import Repeats
from bridge.downlink.incidents import Incident, Joining
from infra.contract.incidents import TABLE_KEY, Causes, Piece, Terms
from tests.support_alerts import alert

HOUR_MS = 3_600_000
TABLE = Causes(
    {"coolant_hot": "cooling", "coolant_over": "cooling", "vehicle_silent": "silence"},
    {"silence": Terms(HOUR_MS, vehicles=3, within_ms=300_000)},
)


def informed() -> Joining:
    joining = Joining()
    joining.told(TABLE_KEY, TABLE.encode())
    return joining


def test_alerts_of_one_cause_have_the_id_of_the_first_and_an_hour_of_rest_ends_it() -> None:
    joining = informed()
    (first,) = joining.of([alert(alert_id="a", event_ms=0)])
    again = joining.of([
        alert(alert_id="b", event_ms=HOUR_MS, rule="coolant_over"),
        alert(alert_id="c", event_ms=5, rule="other"),
        alert(alert_id="d", event_ms=2 * HOUR_MS + 1),
    ])  # fmt: skip
    assert first == Incident("a", "cooling")
    assert again == [Incident("a", "cooling"), Incident("c", "other"), Incident("d", "cooling")]


def test_an_end_keeps_its_incident_alive_until_then() -> None:
    joining = informed()
    joining.of([alert(alert_id="a", event_ms=0)])
    assert joining.of([alert(alert_id="e", event_ms=9 * HOUR_MS, ended=True)]) == [Incident("a", "cooling")]
    assert joining.of([alert(alert_id="b", event_ms=10 * HOUR_MS)]) == [Incident("a", "cooling")]


def test_after_a_restart_the_stores_word_goes_on() -> None:
    joining = informed()
    joining.told(*Piece(alert()["vehicle_id"], 0, HOUR_MS, "told").encode("cooling"))
    found = joining.of([alert(alert_id="b", event_ms=2 * HOUR_MS), alert(alert_id="c", event_ms=3 * HOUR_MS)])
    assert [each.incident_id for each in found] == ["told", "told"]
    assert joining.of([alert(alert_id="d", event_ms=5 * HOUR_MS)])[0].incident_id == "d"


def test_the_stores_word_replaces_what_was_joined_without_it() -> None:
    joining = informed()
    joining.of([alert(alert_id="mine", event_ms=HOUR_MS)])
    joining.told(*Piece(alert()["vehicle_id"], 0, 0, "older").encode("cooling"))
    assert joining.of([alert(alert_id="b", event_ms=HOUR_MS + 5)])[0].incident_id == "older"


def test_vehicles_silent_at_once_are_one_incident_which_is_told_once_more_when_it_becomes_the_fleets() -> (
    None
):
    joining, told = informed(), Repeats(math.inf, ("incident_id", "fleet"))
    delivered = []
    for k in range(6):
        body = alert(alert_id=f"s{k}", vehicle_id=f"V{k}", rule="vehicle_silent", event_ms=1000 * k)
        (incident,) = joining.of([body])
        whole = body | {"incident_id": incident.incident_id, "fleet": incident.fleet}
        if not told.is_one(whole):
            told.delivered(whole)
            delivered.append((body["alert_id"], incident.incident_id, incident.fleet, incident.vehicles))
    assert delivered == [("s0", "s0", False, 1), ("s1", "s1", False, 1), ("s2", "s0", True, 3)]


def test_an_incident_is_told_again_when_it_is_worse_and_only_then() -> None:
    told = Repeats(math.inf, ("incident_id", "fleet"))
    hot = alert(severity="MAJOR", incident_id="a", fleet=False)
    told.delivered(hot)
    assert told.is_one(hot | {"rule": "coolant_over", "received_ms": 2 * hot["received_ms"]})
    assert not told.is_one(hot | {"severity": "CRITICAL"})
