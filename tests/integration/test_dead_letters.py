"""A message that Kafka refused, from the dead-letter topic back into its own, on the real services."""

from __future__ import annotations

import random

import orjson
import psycopg
import pytest

from bridge.dead_letters.letters import tally
from bridge.dead_letters.work import DeadLetters
from infra.clients.db import asked
from load_tests.mqtt_flood import vehicle_id
from tests.integration.bridge_support import (
    all_in_order,
    bridge,
    configure_topic,
    frames,
    publish,
    read,
    sequences,
    topic_of,
    wait_stored,
)
from tests.integration.events_support import until_count
from tests.support import Lane

pytestmark = pytest.mark.integration
UNSTORABLE = "unstorable"


def test_what_kafka_refused_goes_in_again_once_it_may_and_twice_changes_no_result(lane: Lane) -> None:
    configure_topic(lane, "telemetry", "max.message.bytes", "30000")
    sent = frames(lane, vehicles=1, count=3)
    large = orjson.dumps(orjson.loads(sent[1][1]) | {"noise": random.Random(7).randbytes(25_000).hex()})
    broken = b'{"schema": NaN}'
    with bridge(lane), lane.process("jobs", "events"):
        # The second one by itself: in flight beside a refused record it may be stored twice.
        publish(lane, [sent[0], (sent[1][0], large)])
        wait_stored(lane, "dead-letter", 1)
        publish(lane, [(topic_of(lane, 0), broken), sent[2]])
        wait_stored(lane, "dead-letter", 2)
        until_count(lane, "dead_letter", 2)
    letters = DeadLetters(lane.settings, lane.endpoints)
    newest, by_reason = tally(letters.select(), 10)
    offset = next(x.offset for x in newest if x.reason == "unstorable")
    assert dict(by_reason) == {"unstorable": 1, "bad_json": 1}
    refused = letters.reinject(letters.select(UNSTORABLE), dry_run=False, again=False)
    assert [(x.offset, x.reason) for x in refused.stays] == [(offset, "unstorable")]
    assert letters.marked() == set(), "asked for, not stored"

    configure_topic(lane, "telemetry", "max.message.bytes", "1000000")
    assert letters.reinject(letters.select(UNSTORABLE), dry_run=True, again=False).went == {
        offset: "telemetry"
    }
    done = lane.run("dead-letters", "reinject", "0", "1", "--json")
    assert done.returncode == 1, done.stderr
    said = orjson.loads(done.stdout)
    assert said["went"] == {str(offset): "telemetry"}
    assert [(x["offset"], x["reason"]) for x in said["stays"]] == [(1 - offset, "bad_json")]
    record = next(r for r in read(lane, "telemetry") if r.value == large)
    assert record.headers["reinjected_from"] == b"%d" % offset
    assert record.timestamp_ms == int(record.headers["received_ms"])
    assert record.timestamp_ms > int(record.headers["first_received_ms"])
    assert letters.reinject(letters.find([offset]), dry_run=False, again=False).before == [offset]

    with psycopg.connect(
        lane.endpoints.db_ingest_url
    ) as database:  # as a kill before the last note leaves it
        database.execute("UPDATE odograph.reinjection SET reinjected_at = NULL")
    assert letters.reinject(letters.select(UNSTORABLE), dry_run=False, again=False).went
    records = read(lane, "telemetry")
    assert len(records) == 4
    assert {vehicle: sorted(seqs) for vehicle, seqs in sequences(records).items()} == all_in_order(1, 3)
    known = "SELECT vehicle_id, boot_id, seq FROM serving.dead_frame"
    assert asked(lane.endpoints.db_ingest_url, known) == [(vehicle_id(0), 1, 1)]
