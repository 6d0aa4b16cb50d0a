"""Births, last wills and silence in the compacted topic ``status``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from bridge.uplink import service
from load_tests.mqtt_flood import vehicle_id
from tests.integration.bridge_support import bridge, count, frames, metric, publish, read, topic_of
from tests.integration.downlink_support import now_ms
from tests.integration.test_bridge_slots import one_of_several, several, share
from tests.support import Lane, eventually

pytestmark = pytest.mark.integration

SOON_S = 90.0
VEHICLE = 7
OTHER = 8


def birth(vehicle: int, lane: Lane, state: str = "online") -> tuple[bytes, bytes]:
    topic = topic_of(lane, vehicle, "status")
    body = {
        "schema": 1, "vehicle_id": topic.split(b"/")[-2].decode(), "boot_id": 3, "seq": 0, "state": state,
        "at_ms": now_ms(), "model": "city", "powertrain": "petrol", "vehicle_class": "car",
    }  # fmt: skip
    return topic, orjson.dumps(body)


def words(lane: Lane) -> dict[str, list[dict[str, Any]]]:
    """All that was said of each vehicle, in the log's order."""
    found: dict[str, list[dict[str, Any]]] = {}
    for record in read(lane, "status"):
        body = orjson.loads(record.value)
        found.setdefault(body["vehicle_id"], []).append(body)
    return found


def states(lane: Lane, vehicle: int) -> list[str]:
    return [word["state"] for word in words(lane).get(vehicle_id(vehicle), [])]


def test_births_wills_and_silence_are_the_last_words_and_a_restart_says_none_of_them_again(
    lane: Lane,
) -> None:
    impatient = replace(lane, env=lane.env | {"ODOGRAPH_BRIDGE_SILENT_S": "2"})
    with bridge(impatient) as process:
        with lane.process("simulate", "-c", "3", "--connections", "per-vehicle", "--rate", "6") as fleet:
            eventually(lambda: count(lane, "telemetry") >= 3, SOON_S, "vehicles that report")
            publish(lane, [birth(VEHICLE, lane), *frames(lane, 1, 1)])
            fleet.kill()
        eventually(lambda: states(lane, VEHICLE) == ["online", "silent"], SOON_S, "called silent")
        wills = [said for vin, said in words(lane).items() if len(said) > 1 and said[-1]["boot_id"] != 3]
        assert [[word["state"] for word in said] for said in wills] == [["online", "offline"]] * 3
        eventually(lambda: metric(lane, "odograph_bridge_silent_vehicles") == 1, SOON_S, "it shows")
        publish(lane, [birth(OTHER, lane, "silent")])
        eventually(lambda: count(lane, "dead-letter") == 1, SOON_S, "no device calls itself silent")
        process.kill()
    before = count(lane, "status")
    with bridge(impatient):
        topic = topic_of(lane, VEHICLE)
        eventually(lambda: metric(lane, "odograph_bridge_silent_vehicles") == 1, SOON_S, "it is known")
        assert count(lane, "status") == before
        publish(lane, [(topic, frames(lane, VEHICLE + 1, 1)[-1][1])])
        eventually(lambda: states(lane, VEHICLE) == ["online", "silent", "online"], SOON_S, "it is back")
    first, silent, again = words(lane)[topic.split(b"/")[-2].decode()]
    assert again == first
    assert silent == first | {"state": "silent", "since_ms": silent["since_ms"]}


def test_vehicles_that_change_to_topics_with_a_slot_are_silent_only_when_they_send_nothing_there(
    lane: Lane,
) -> None:
    def by_old_topic(vehicle: int) -> tuple[bytes, bytes]:
        return f"{lane.settings.mqtt.root}/{vehicle_id(vehicle)}/status".encode(), birth(vehicle, lane)[1]

    def all_have(*wanted: str) -> bool:
        said = words(lane)
        all_said = [[word["state"] for word in said.get(vehicle_id(v), [])] for v in range(VEHICLE)]
        return all_said == [[*wanted]] * VEHICLE

    def keep_on() -> bool:
        publish(lane, frames(lane, VEHICLE, 1))
        return states(lane, OTHER)[-1:] == ["silent"]

    service.prepare(several(lane), lane.endpoints)
    impatient = replace(lane, env=lane.env | {"ODOGRAPH_BRIDGE_SILENT_S": "6"})
    with one_of_several(impatient, 1) as first, one_of_several(impatient, 2) as second:
        share(first, second)
        publish(lane, map(by_old_topic, range(VEHICLE)))
        eventually(lambda: all_have("online"), SOON_S, "they have come")
        publish(lane, [*(birth(v, lane) for v in range(VEHICLE)), by_old_topic(OTHER)])
        eventually(keep_on, SOON_S, "one that keeps to its old topic is called silent")
        assert all_have("online", "online")
        eventually(lambda: all_have("online", "online", "silent"), SOON_S, "they send no more")
