"""What the fleet listens to, and what it does on hearing it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edge_simulator.sending.publishing import Incoming
from edge_simulator.sending.reactions import Reactions, filters
from infra.contract import downlink
from tests.support_alerts import alert

VINS = ["WDDWF4KB0FR000001", "WDDWF4KB0FR000002"]


def heard(*messages: Incoming) -> tuple[dict[str, int], list[tuple[int, str]]]:
    """The counts that are not 0, and who is to limp because of which alert."""
    limping: list[tuple[int, str]] = []

    def limp(vehicle: int, why: Mapping[str, Any]) -> None:
        limping.append((vehicle, why["alert_id"]))

    reactions = Reactions("r", VINS, limp)
    reactions.hear(messages)
    return {name: count for name, count in reactions.counts.items() if count}, limping


def told(vehicle: str, **changes: Any) -> Incoming:
    body = downlink.encode_alert(alert(vehicle_id=vehicle, **changes), 5)
    return Incoming(f"r/{vehicle}/alert", body)


def test_a_critical_alert_makes_its_vehicle_limp_once_however_often_it_comes() -> None:
    critical = told(VINS[1], alert_id="a", severity="CRITICAL")
    assert heard(critical, critical) == ({"alerts_received": 1, "downlink_repeats": 1}, [(1, "a")])


def test_a_lesser_alert_is_received_and_nothing_more() -> None:
    assert heard(told(VINS[0], severity="MAJOR")) == ({"alerts_received": 1}, [])


def test_other_fleets_vehicles_are_none_of_ours() -> None:
    assert heard(told("WDDWF4KB0FR000009", severity="CRITICAL")) == ({}, [])


def test_a_notice_to_all_and_one_to_a_vehicle_are_counted_each_once() -> None:
    everyone = Incoming("r/all/notice", downlink.encode_notice("n", "all", "MINOR", "Ice", 5))
    one = Incoming(f"r/{VINS[0]}/notice", downlink.encode_notice("n", VINS[0], "MINOR", "Ice", 5))
    assert heard(everyone, one, everyone) == ({"notices": 2, "downlink_repeats": 1}, [])


def test_what_cannot_be_read_is_counted_and_harms_nobody() -> None:
    assert heard(Incoming(f"r/{VINS[0]}/alert", b"{}"), told(VINS[0])) == (
        {"downlink_broken": 1, "alerts_received": 1},
        [],
    )


def test_few_vehicles_are_named_each_on_its_connection() -> None:
    assert filters("r", ["A", "B", "C"], 2) == {
        0: ["r/all/notice", "r/A/alert", "r/A/notice", "r/C/alert", "r/C/notice"],
        1: ["r/all/notice", "r/B/alert", "r/B/notice"],
    }


def test_of_many_vehicles_one_connection_hears_for_all() -> None:
    assert filters("r", [str(k) for k in range(21)], 2) == {0: ["r/+/alert", "r/+/notice"]}
