"""A crash record in parts, from the broker through the bridge and Kafka to its row in the database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from infra.contract.messages import crash_digest, split_crash
from infra.contract.topics import mqtt_topic
from tests.integration.bridge_support import bridge, publish
from tests.integration.events_support import (
    STORED_S,
    T0,
    VINS,
    change,
    count,
    produce,
    rows,
    topic_values,
    until_count,
    until_read,
)
from tests.support import Lane, eventually

pytestmark = pytest.mark.integration
GOLDEN = orjson.loads((Path(__file__).parents[1] / "golden" / "crash.json").read_bytes())
SETS = (
    "SELECT vehicle_id, parts, received, missing, assembled FROM serving.crash_part_set ORDER BY vehicle_id"
)


def record(vehicle: int) -> bytes:
    """The golden record, of another vehicle and an hour ago, sealed again."""
    body = GOLDEN | {"vehicle_id": VINS[vehicle], "event_ms": T0, "sent_ms": T0 + 250}
    return orjson.dumps(body | {"sha256": crash_digest(body)})


def parts(vehicle: int, chunk_bytes: int = 4096) -> list[bytes]:
    return split_crash(record(vehicle), chunk_bytes)


def crashes(lane: Lane) -> list[dict[str, Any]]:
    return rows(lane, "SELECT * FROM odograph.crash_record ORDER BY vehicle_id")


def test_parts_go_through_the_whole_chain_and_become_the_record_in_any_order(lane: Lane) -> None:
    topics = {v: mqtt_topic(lane.settings.mqtt.root, VINS[v], "crash").encode() for v in range(3)}
    first, second, third = parts(0)
    short = parts(2)[:2]
    sent = [(0, third), (0, first), (0, third), (1, record(1)), (2, short[1]), (2, short[0]), (0, second)]
    with bridge(lane), lane.process("jobs", "events"):
        publish(lane, [(topics[v], raw) for v, raw in [*sent, (0, first)]])
        until_count(lane, "crash_record", 2)
        until_count(lane, "crash_part", 5)
    assembled, whole = crashes(lane)
    assert assembled["record"] == orjson.loads(record(0))
    assert whole["record"] == orjson.loads(record(1))
    assert (assembled["hash_ok"], assembled["complete"]) == (True, True)
    assert (assembled["delta_v_max_kmh"], assembled["airbag_deployed"]) == (-40.0, True)
    assert rows(lane, SETS) == [
        {"vehicle_id": VINS[0], "parts": 3, "received": 3, "missing": None, "assembled": True},
        {"vehicle_id": VINS[2], "parts": 3, "received": 2, "missing": [2], "assembled": False},
    ]
    assert count(lane, "dead_letter") == 0


def test_reading_all_parts_again_changes_nothing(lane: Lane) -> None:
    produce(lane, "crash", [(VINS[0], raw) for raw in (*parts(0), *parts(0, 2048), *parts(1)[1:])], T0 + 400)
    total = len(parts(0)) + len(parts(0, 2048)) + 2
    with lane.process("jobs", "events"):
        until_read(lane, total)
    before = crashes(lane), rows(lane, "SELECT * FROM odograph.crash_part ORDER BY 1, 2, 3, 4, 5, 6")
    assert len(before[0]) == 1
    change(lane, "DELETE FROM odograph.consumer_offset")
    with lane.process("jobs", "events"):
        until_read(lane, total)
    assert (
        crashes(lane),
        rows(lane, "SELECT * FROM odograph.crash_part ORDER BY 1, 2, 3, 4, 5, 6"),
    ) == before


def test_parts_that_do_not_give_their_digest_are_dead_letters_and_a_good_set_is_still_taken(
    lane: Lane,
) -> None:
    good = parts(0)
    torn = orjson.dumps(orjson.loads(good[1]) | {"data": "torn"})
    with lane.process("jobs", "events"):
        produce(lane, "crash", [(VINS[0], raw) for raw in (good[0], torn, good[2])])
        until_count(lane, "dead_letter", 3)
        assert count(lane, "crash_part") == 0
        assert count(lane, "crash_record") == 0
        produce(lane, "crash", [(VINS[0], raw) for raw in good])
        until_count(lane, "crash_record", 1)
    dead = rows(lane, "SELECT DISTINCT reason, vehicle_id FROM odograph.dead_letter")
    assert dead == [{"reason": "bad_digest", "vehicle_id": VINS[0]}]
    kept = topic_values(lane, "dead-letter")
    assert kept == [orjson.loads(raw) for raw in (good[0], torn, good[2])]


def test_a_set_is_completed_by_a_store_that_was_killed_in_between(lane: Lane) -> None:
    first, second, third = parts(0)
    with lane.process("jobs", "events") as process:
        produce(lane, "crash", [(VINS[0], first), (VINS[0], third)])
        until_count(lane, "crash_part", 2)
        process.kill()
    with lane.process("jobs", "events"):
        produce(lane, "crash", [(VINS[0], second)])
        eventually(lambda: count(lane, "crash_record") == 1, STORED_S, "the record")
    assert crashes(lane)[0]["hash_ok"] is True
