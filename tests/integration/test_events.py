"""The event store between a real Kafka and a real database."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import asdict

import orjson
import pytest

from infra.settings.settings import ENDPOINTS_FILE
from tests import forked
from tests.integration.events_support import (
    STORED_S,
    T0,
    VINS,
    alert,
    change,
    count,
    crash,
    health,
    ms,
    produce,
    rows,
    snapshot,
    status,
    topic_values,
    until_count,
    until_read,
    until_ready,
)
from tests.integration.stream_support import linked
from tests.support import Lane, LaneProcess, eventually

pytestmark = pytest.mark.integration


def events(lane: Lane) -> AbstractContextManager[LaneProcess]:
    return lane.process("jobs", "events")


def test_each_kind_of_event_becomes_its_row(lane: Lane) -> None:
    produce(lane, "alerts", [alert(0, 1, 117.0), alert(0, 2, 121.0), alert(0, 3, 118.0)], T0 + 3_400)
    produce(lane, "crash", [crash(1, 1, T0)], T0 + 300)
    produce(lane, "status", [status(2, "online", T0, "compact-1.8"), status(2, "offline", T0 + 10)], T0 + 20)
    produce(lane, "dead-letter", [(VINS[3], b"\xff not JSON")], T0 + 30)
    with events(lane) as process:
        until_read(lane, 7)
        until_ready(lane, "events")
        assert process.stop() == 0
    (found,) = rows(lane, "SELECT * FROM odograph.alert")
    assert (found["findings"], found["value"], found["worst_value"], found["cleared_at"]) == (
        3,
        118,
        121,
        None,
    )
    assert (ms(found["opened_at"]), ms(found["last_at"]), found["late"]) == (T0 + 1000, T0 + 3000, False)
    (first, *_) = rows(lane, "SELECT * FROM odograph.alert_event ORDER BY alert_id")
    assert (ms(first["received_at"]), ms(first["alerted_at"])) == (T0 + 1300, T0 + 3400)
    (record,) = rows(lane, "SELECT * FROM odograph.crash_record")
    assert (record["hash_ok"], record["crash_id"], ms(record["event_time"])) == (True, "5-1", T0)
    assert record["record"]["delta_v_kmh"] == [-4.0, -40.0]
    (vehicle,) = rows(lane, "SELECT * FROM odograph.vehicle")
    assert (vehicle["state"], vehicle["model"], ms(vehicle["state_at"])) == (
        "offline",
        "compact-1.8",
        T0 + 10,
    )
    (dead,) = rows(lane, "SELECT * FROM odograph.dead_letter")
    assert (dead["vehicle_id"], dead["bytes"], dead["reason"]) == (VINS[3], 10, "unknown")


def test_reading_everything_again_changes_nothing(lane: Lane) -> None:
    produce(lane, "alerts", [alert(0, seq) for seq in (1, 2, 1, 90, 91, 300)], T0)
    silence = (
        "INSERT INTO odograph.alert_silence (rule, until_at, by_whom, why) VALUES (%s, %s, 'me', 'known')"
    )
    change(lane, silence, "dtc_active", "infinity")
    code = {"rule": "dtc_active.P0217", "severity": "WARNING", "since_ms": T0 - 5000}
    over = code | {"ended": True, "message": "Coolant above 115 degC: nothing came for 168 h"}
    told = [alert(4, 1, **code), alert(4, 2, **code | {"severity": "MAJOR"}), alert(4, 9, **over)]
    produce(lane, "alerts", told, T0)
    produce(lane, "crash", [crash(1, 1, T0), crash(1, 1, T0)], T0)
    produce(lane, "status", [status(2, "online", T0), status(2, "offline", T0 + 5)], T0)
    produce(lane, "dead-letter", [("x", b"x")], T0)
    with events(lane):
        until_read(lane, 14)
    before = snapshot(lane)
    hot = [a for a in before["alert"] if a["rule"] == "coolant_critical"]
    assert [(a["findings"], ms(a["cleared_at"])) for a in hot] == [
        (2, T0 + 62_000),
        (1, None),
        (2, T0 + 151_000),
    ]
    (code_alert,) = rows(lane, "SELECT * FROM serving.alert_life WHERE rule = 'dtc_active.P0217'")
    assert (ms(code_alert["cleared_at"]), code_alert["duration_s"], code_alert["active"]) == (
        T0 + 9000,
        8,
        False,
    )
    assert (ms(code_alert["since_at"]), code_alert["event_to_received_ms"]) == (T0 - 5000, 300)
    history = "SELECT change, note FROM serving.alert_change WHERE alert_no = %s ORDER BY change"
    changes = {row["change"]: row["note"] for row in rows(lane, history, code_alert["alert_no"])}
    assert set(changes) <= {"opened", "escalated", "cleared", "silenced"}
    assert (changes["opened"], changes["cleared"]) == (None, over["message"])
    change(lane, "DELETE FROM odograph.consumer_offset")
    with events(lane):
        until_read(lane, 14)
    assert snapshot(lane) == before


def test_offsets_that_are_reset_under_a_running_store_are_followed(lane: Lane) -> None:
    produce(lane, "alerts", [alert(0, 1)], T0)
    with events(lane):
        until_read(lane, 1)
        change(lane, "DELETE FROM odograph.consumer_offset")
        produce(lane, "alerts", [alert(0, 2)], T0)
        until_read(lane, 2)
    (found,) = rows(lane, "SELECT findings FROM odograph.alert")
    assert found["findings"] == 2


def test_killed_again_and_again_the_store_holds_each_finding_once(lane: Lane) -> None:
    for kill in range(2):
        with events(lane) as process:
            produce(lane, "alerts", [alert(v, 100 * kill + s) for s in range(100) for v in range(8)], T0)
            eventually(
                lambda k=kill: count(lane, "alert_event") > 800 * k, STORED_S, "some rows of this round"
            )
            process.kill()
    with events(lane):
        until_count(lane, "alert_event", 1600)
    found = rows(lane, "SELECT vehicle_id, findings, cleared_at FROM odograph.alert ORDER BY vehicle_id")
    assert [(a["vehicle_id"], a["findings"], a["cleared_at"]) for a in found] == [
        (vin, 200, None) for vin in VINS
    ]


def test_two_stores_at_once_store_each_finding_once(lane: Lane) -> None:
    addresses = asdict(lane.endpoints)
    with events(lane) as first:
        until_ready(lane, "events")
        addresses["http_ports"]["events"] = 0
        (lane.home / ENDPOINTS_FILE).write_bytes(orjson.dumps(addresses))
        second = forked.spawn(lane.home / "run", "second", ("jobs", "events"), lane.home / "2.log", lane.env)
        produce(lane, "alerts", [alert(v, s) for s in range(50) for v in range(8)], T0)
        eventually(
            lambda: b"serving" in (lane.home / "2.log").read_bytes(), STORED_S, "the second one serves"
        )
        produce(lane, "alerts", [alert(v, s) for s in range(50, 100) for v in range(8)], T0)
        until_count(lane, "alert_event", 800)
        first.assert_running()
        assert second.poll() is None
        second.terminate()
        assert second.wait(STORED_S) == 0
    assert sum(a["findings"] for a in rows(lane, "SELECT findings FROM odograph.alert")) == 800


def test_an_alert_clears_when_its_vehicle_goes_on_without_a_finding(lane: Lane) -> None:
    latest = "INSERT INTO odograph.vehicle_latest (vehicle_id, event_time) VALUES (%s, to_timestamp(%s))"
    for vehicle, after_s in ((0, 61), (1, 60), (2, 61)):
        change(lane, latest, VINS[vehicle], T0 / 1000 + after_s)
    airbag = alert(2, 0, alert_id="crash", rule="crash_airbag", limit=None)
    with events(lane):
        produce(lane, "alerts", [alert(0, 0), alert(1, 0), airbag], T0)
        query = "SELECT vehicle_id, cleared_at FROM odograph.alert WHERE cleared_at IS NOT NULL"
        eventually(lambda: rows(lane, query), STORED_S, "a cleared alert")
        change(lane, "UPDATE odograph.vehicle_latest SET event_time = event_time + interval '1 s'")
        eventually(lambda: len(rows(lane, query)) == 2, STORED_S, "the second one clears too")
    cleared = {row["vehicle_id"]: ms(row["cleared_at"]) for row in rows(lane, query)}
    assert cleared == {VINS[0]: T0 + 60_000, VINS[1]: T0 + 60_000}


def test_an_alert_that_a_person_ended_and_a_finding_reopened_is_ended_by_its_rule(lane: Lane) -> None:
    latest = "INSERT INTO odograph.vehicle_latest (vehicle_id, event_time) VALUES (%s, to_timestamp(%s))"
    change(lane, latest, VINS[0], T0 / 1000)
    with events(lane):
        produce(lane, "alerts", [alert(0, 0)], T0)
        until_count(lane, "alert_event", 1)
        change(lane, "SELECT dispatch.clear(ARRAY(SELECT alert_no FROM odograph.alert), 'M. Weber', NULL)")
        produce(lane, "alerts", [alert(0, 1)], T0)
        until_count(lane, "alert_event", 2)
        change(lane, "UPDATE odograph.vehicle_latest SET event_time = event_time + interval '62 s'")
        query = "SELECT cleared_at, cleared_by FROM odograph.alert WHERE cleared_at IS NOT NULL"
        eventually(lambda: rows(lane, query), STORED_S, "the rule ends it")
    assert [(ms(row["cleared_at"]), row["cleared_by"]) for row in rows(lane, query)] == [(T0 + 61_000, None)]
    history = rows(lane, "SELECT change, by_whom FROM odograph.alert_change ORDER BY change_no")
    assert [(row["change"], row["by_whom"]) for row in history] == [
        ("opened", None),
        ("cleared", "M. Weber"),
        ("reopened", None),
        ("cleared", None),
    ]


def test_what_the_store_cannot_take_goes_to_the_dead_letters(lane: Lane) -> None:
    poison = [alert(0, 1), (VINS[0], b'{"not": "an alert"}'), alert(0, 2, value=float("1e308")), alert(0, 3)]
    broken = [alert(1, 1, message="a\0b")]
    with events(lane):
        produce(lane, "alerts", [*poison, *broken], T0)
        until_count(lane, "alert_event", 3)
        until_count(lane, "dead_letter", 2)
    found = rows(lane, "SELECT reason, detail FROM odograph.dead_letter ORDER BY reason")
    assert [row["reason"] for row in found] == ["bad_shape", "bad_value"]
    assert {"not": "an alert"} in topic_values(lane, "dead-letter")


def test_a_database_that_is_away_loses_nothing(lane: Lane) -> None:
    with linked(lane) as link, events(lane) as process:
        produce(lane, "alerts", [alert(0, seq) for seq in range(50)], T0)
        until_count(lane, "alert_event", 50)
        link.refuse()
        produce(lane, "alerts", [alert(0, seq) for seq in range(50, 150)], T0)
        eventually(lambda: "database" in (health(lane, "events") or {}), STORED_S, "not ready")
        produce(lane, "alerts", [alert(0, seq) for seq in range(150, 200)], T0)
        link.heal()
        until_count(lane, "alert_event", 200)
        until_ready(lane, "events")
        process.assert_running()
    (found,) = rows(lane, "SELECT findings FROM odograph.alert")
    assert found["findings"] == 200
