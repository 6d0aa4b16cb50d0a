"""What the fleet listens to, and what it does on hearing it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from edge_simulator.sending.mqtt_packets import Incoming
from edge_simulator.sending.run import Reactions, filters
from infra.contract import downlink
from infra.contract.downlink import Signer, Verifier
from tests.support_alerts import alert

VINS = ["WDDWF4KB0FR000001", "WDDWF4KB0FR000002"]
NOW_MS, LATER_MS = 1_700_000_000_000, 1_700_000_900_000


def keys() -> tuple[Signer, Verifier]:
    """A service's key and what its vehicles check with."""
    key = Ed25519PrivateKey.generate()
    return Signer(key), Verifier(key.public_key())


SERVICE, CHECK = keys()
STRANGER, _ = keys()


def heard(*messages: Incoming) -> tuple[dict[str, int], list[tuple[int, str]]]:
    """The counts that are not 0, and who is to limp because of which alert."""
    limping: list[tuple[int, str]] = []

    def limp(vehicle: int, why: Mapping[str, Any]) -> None:
        limping.append((vehicle, why["alert_id"]))

    reactions = Reactions("r", VINS, limp, CHECK, lambda: NOW_MS)
    reactions.hear(messages)
    return {name: count for name, count in reactions.counts.items() if count}, limping


def alerted(
    vehicle: str, signer: Signer = SERVICE, expires_ms: int = LATER_MS, kind: str = "alert", **changes: Any
) -> Incoming:
    body = downlink.encode_alert(alert(vehicle_id=vehicle, **changes), 5, expires_ms)
    return Incoming(f"r/{vehicle}/alert", signer.sealed(kind, body))


def noted(to: str) -> Incoming:
    body = downlink.encode_notice("n", to, "MINOR", "Ice", 5, LATER_MS)
    return Incoming(f"r/{to}/notice", SERVICE.sealed("notice", body))


def test_a_critical_alert_makes_its_vehicle_limp_once_however_often_it_comes() -> None:
    critical = alerted(VINS[1], alert_id="a", severity="CRITICAL")
    assert heard(critical, critical) == ({"alerts_received": 1, "downlink_repeats": 1}, [(1, "a")])


def test_a_lesser_alert_is_received_and_nothing_more() -> None:
    assert heard(alerted(VINS[0], severity="MAJOR")) == ({"alerts_received": 1}, [])


def test_other_fleets_vehicles_are_none_of_ours() -> None:
    assert heard(alerted("WDDWF4KB0FR000009", severity="CRITICAL")) == ({}, [])


def test_a_notice_to_all_and_one_to_a_vehicle_are_counted_each_once() -> None:
    assert heard(noted("all"), noted(VINS[0]), noted("all")) == ({"notices": 2, "downlink_repeats": 1}, [])


def test_what_cannot_be_read_is_counted_and_harms_nobody() -> None:
    broken = Incoming(f"r/{VINS[0]}/alert", SERVICE.sealed("alert", b'{"schema":9}'))
    assert heard(broken, alerted(VINS[0])) == ({"downlink_broken": 1, "alerts_received": 1}, [])


def test_an_alert_that_the_service_did_not_sign_is_counted_and_ignored() -> None:
    critical = alerted(VINS[0], severity="CRITICAL")
    unsigned = downlink.encode_alert(alert(vehicle_id=VINS[0], severity="CRITICAL"), 5, LATER_MS)
    for payload in (
        unsigned,
        alerted(VINS[0], STRANGER, severity="CRITICAL").payload,
        alerted(VINS[0], kind="notice", severity="CRITICAL").payload,
        critical.payload.replace(b"Coolant", b"coolant"),
        critical.payload[:-1] + b',"severity":"CRITICAL"}',
        critical.payload + b" ",
        b"",
        b"\xff" * 100,
    ):
        assert heard(Incoming(critical.topic, payload)) == ({"downlink_unsigned": 1}, [])


def test_a_signed_alert_played_again_later_or_to_another_vehicle_is_counted_and_ignored() -> None:
    old = alerted(VINS[0], expires_ms=NOW_MS - 1, severity="CRITICAL")
    assert heard(old) == ({"downlink_expired": 1}, [])
    other = alerted(VINS[0], severity="CRITICAL")._replace(topic=f"r/{VINS[1]}/alert")
    assert heard(other) == ({"downlink_misdirected": 1}, [])
    assert heard(noted("all")._replace(topic=f"r/{VINS[1]}/notice")) == ({"downlink_misdirected": 1}, [])


def test_few_vehicles_are_named_each_on_its_connection() -> None:
    assert filters("r", ["A", "B", "C"], 2) == {
        0: ["r/all/notice", "r/A/alert", "r/A/notice", "r/C/alert", "r/C/notice"],
        1: ["r/all/notice", "r/B/alert", "r/B/notice"],
    }


def test_of_many_vehicles_one_connection_hears_for_all() -> None:
    assert filters("r", [str(k) for k in range(21)], 2) == {0: ["r/+/alert", "r/+/notice"]}
