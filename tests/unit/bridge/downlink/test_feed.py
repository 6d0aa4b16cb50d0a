"""What is told, and what is not."""

from __future__ import annotations

import math
import threading
from pathlib import Path
from typing import Any

import orjson
import pytest

from bridge.downlink import feed as alerts
from bridge.downlink.feed import Destination, DownlinkMetrics, Process, Repeats
from infra.clients.leases import Lease, Term
from infra.contract import downlink
from infra.contract.downlink import Silence, Silences
from infra.contract.errors import ContractError, ServiceError
from infra.settings.settings import Endpoints, load
from tests.support_alerts import alert

MINUTE_MS = 60_000


def test_an_alert_is_late_when_it_was_found_more_than_a_quarter_of_an_hour_after_its_event() -> None:
    assert not alerts.late(alert(event_ms=0, received_ms=15 * MINUTE_MS))
    assert alerts.late(alert(event_ms=0, received_ms=15 * MINUTE_MS + 1))


def test_a_vehicle_is_told_for_a_quarter_of_an_hour_after_the_event() -> None:
    told = alert(event_ms=1_000_000)
    assert alerts.valid_s(told, 1_000_000) == 900
    assert alerts.valid_s(told, 1_000_000 + 14 * MINUTE_MS) == 60
    assert alerts.valid_s(told, 1_000_000 + 15 * MINUTE_MS) == 0


def test_severities_are_in_order() -> None:
    assert alerts.severe(alert(severity="CRITICAL"), "MAJOR")
    assert alerts.severe(alert(severity="MAJOR"), "MAJOR")
    assert not alerts.severe(alert(severity="MINOR"), "MAJOR")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"vehicle_id": "+/x"}, "bad_identity"),
        ({"severity": "BAD"}, "bad_value"),
        ({"event_ms": 1.5}, "bad_clock"),
        ({"value": "hot"}, "bad_value"),
        ({"alert_id": 7}, "bad_value"),
    ],
)
def test_what_is_no_alert_is_refused_with_its_reason(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(ContractError) as refused:
        alerts.read(orjson.dumps(alert() | change))
    assert refused.value.reason == reason


def test_a_repetition_is_told_again_after_its_time_or_when_it_is_more_severe() -> None:
    repeats = Repeats(60_000, ("vehicle_id", "rule"))
    first = alert(received_ms=1_000_000, severity="MAJOR")
    assert not repeats.is_one(first)
    repeats.delivered(first)
    assert repeats.is_one(alert(received_ms=1_059_999, severity="MAJOR"))
    assert repeats.is_one(alert(received_ms=1_059_999, severity="WARNING"))
    assert not repeats.is_one(alert(received_ms=1_001_000, severity="CRITICAL"))
    assert not repeats.is_one(alert(received_ms=1_001_000, rule="other"))
    assert not repeats.is_one(alert(received_ms=1_060_000, severity="MAJOR"))


def test_with_no_pause_wanted_nothing_is_a_repetition() -> None:
    repeats = Repeats(0, ("vehicle_id", "rule"))
    repeats.delivered(alert(received_ms=5))
    assert not repeats.is_one(alert(received_ms=5))


def test_what_a_vehicle_is_told_is_what_it_reads() -> None:
    body = alert(alert_id="a1", event_ms=5, severity="CRITICAL", incident_id="a0")
    told = downlink.decode_alert(downlink.encode_alert(body, sent_ms=9, expires_ms=10))
    assert {key: told[key] for key in downlink.DOWNLINK_ALERT_KEYS} == {
        key: body[key] for key in downlink.DOWNLINK_ALERT_KEYS
    }
    assert (told["schema"], told["sent_ms"], told["expires_ms"]) == (1, 9, 10)


def test_a_notice_is_read_as_it_was_written_and_a_wrong_one_is_not_written() -> None:
    raw = downlink.encode_notice("n1", "all", "MINOR", "Ice on the ring road", 7, 8)
    assert downlink.decode_notice(raw) == {
        "schema": 1, "sent_ms": 7, "expires_ms": 8, "notice_id": "n1", "to": "all", "severity": "MINOR",
        "text": "Ice on the ring road",
    }  # fmt: skip
    for wrong in (("n", "all", "MINOR", ""), ("n", "everyone", "MINOR", "x"), ("n", "all", "LOUD", "x")):
        with pytest.raises(ContractError):
            downlink.encode_notice(*wrong, 7, 8)


def test_the_end_of_an_alert_and_a_silenced_one_are_nobodys_news(tmp_path: Path) -> None:
    Silences.write(tmp_path, [Silence("dtc_active", None, 1000, 2000)])
    silences = Silences(tmp_path)
    assert alerts.suppressed(alert(ended=True), silences, 1500) == "ended"
    assert alerts.suppressed(alert(rule="dtc_active.P0217", cause="cooling"), silences, 1500) == "silenced"
    assert alerts.suppressed(alert(rule="dtc_active.P0217", cause="cooling"), silences, 2000) is None
    assert alerts.suppressed(alert(cause="cooling"), silences, 1500) is None
    Silences.write(tmp_path, [Silence(None, alert()["vehicle_id"], 1000, 2000, "cooling")])
    assert alerts.suppressed(alert(cause="cooling"), silences, 1500) == "silenced"
    assert alerts.suppressed(alert(cause="tyres"), silences, 1500) is None


def test_a_destination_begins_anew_after_trouble_until_its_end_is_asked_for() -> None:
    class Hesitant(Destination):
        begun = 0

        def serve(self) -> None:
            self.begun += 1
            if self.begun == 1:
                raise ServiceError("away")
            self.ready()
            self.stop.set()

    addresses = Endpoints("127.0.0.1", 1, "127.0.0.1:1", "", "", "")
    term = Term(Lease(load(), "", "downlink", threading.Event()), 1, math.inf)
    place = Hesitant("somewhere", Process(term, load(), addresses, DownlinkMetrics()))
    assert place.reason == "not connected yet"
    place.start()
    place.join(30)
    assert (place.begun, place.reason) == (2, None)
    assert (
        place.metrics.registry.get_sample_value("odograph_downlink_ready", {"destination": "somewhere"}) == 1
    )
