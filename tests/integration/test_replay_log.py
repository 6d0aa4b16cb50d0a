"""Replay and a real Kafka: a stretch of the log, and writing that a killed process left half done."""

from __future__ import annotations

import pyarrow as pa
import pytest

from infra.contract.errors import ConfigError
from infra.contract.topics import kafka_topic
from infra.contract.verdict import ClockLimits
from infra.stack import kafka
from stream_jobs.replay.feed import Writer, copy_crashes
from stream_jobs.replay.records import Bounds, Log, Span, Stored, stretch, take
from tests.integration.stream_support import base_ms, drive
from tests.support import Lane
from tests.support_frames import send

pytestmark = pytest.mark.integration

LIMITS = ClockLimits(0, 10_000, 30_000)
MINUTE_MS = 60_000
EVERYTHING = Bounds(10_000, 1 << 60)


def test_a_stretch_of_the_log_goes_into_a_runs_topic_as_it_came_and_a_killed_write_goes_on(
    lane: Lane,
) -> None:
    start_ms = base_ms()
    records = drive(range(1, 9), start_ms, 240, seed=1)
    send(lane, records)
    bootstrap, topic = lane.endpoints.kafka_bootstrap, kafka_topic(lane.settings.kafka.prefix, "telemetry")
    with Log(bootstrap) as log:
        begins = (
            {p: log.since(topic, p, start_ms + after_ms) for p in range(log.partitions(topic))}
            for after_ms in (0, 100_000)
        )
        whole, later = (stretch(log, topic, begin) for begin in begins)
        with pytest.raises(ConfigError, match="--from-offset 1:999999"):
            stretch(log, topic, {1: 999_999})
        some = stretch(log, topic, {0: 0})
    assert sum(end - begin for begin, end in whole.values()) == len(records)
    assert sum(end - begin for begin, end in later.values()) == sum(
        r >= start_ms + 100_000 for r, _ in records
    )

    folder = lane.home / "replays" / "r1"
    left = folder / "input" / "telemetry" / "date=2026-11-20" / "hour=00" / "0-000000.parquet"
    left.parent.mkdir(parents=True)
    left.write_text("half of a file, by one that was killed")
    source = take(bootstrap, topic, whole, folder / "input", LIMITS, MINUTE_MS)
    assert source.vehicles == ()
    assert source.received == Span(records[0][0], records[-1][0] + 1)
    assert source.event == Span(start_ms + MINUTE_MS, start_ms + 3 * MINUTE_MS)
    assert take(bootstrap, topic, some, folder / "some", LIMITS, MINUTE_MS).vehicles != ()

    stored = Stored(folder / "input", source.received, source.event, 0, (), 4)
    rows = [stored.read(part) for part in stored.plan(EVERYTHING)]
    assert len(rows) == 1
    assert (
        sorted(zip(rows[0]["received_ms"].to_pylist(), rows[0]["value"].to_pylist(), strict=True)) == records
    )

    run_topic = kafka_topic(lane.settings.kafka.prefix, "crash")  # two partitions, and nobody else's
    halves = rows[0].set_column(0, "partition", [[p % 2 for p in rows[0]["partition"].to_pylist()]])
    Writer(bootstrap, run_topic).rows(halves.slice(0, 700))
    with Log(bootstrap) as log:
        Writer(bootstrap, run_topic).rows(halves, skip=log.ends(run_topic))
        again = [
            (m.timestamp()[1], m.value())
            for p in (0, 1)
            for m in log.messages(run_topic, p, 0, log.ends(run_topic)[p])
        ]
    assert sorted(again) == records
    target = kafka_topic(lane.settings.kafka.prefix, "alerts")
    begin_ms, end_ms = start_ms + 100_000, start_ms + 110_000
    wanted = [record for record in records if begin_ms <= record[0] < end_ms]
    assert copy_crashes(bootstrap, run_topic, target, begin_ms, end_ms, ["another"]) == 0
    first = copy_crashes(
        bootstrap, run_topic, target, begin_ms, end_ms - 4_000, ()
    )  # and it was killed there
    assert 0 < first < len(wanted)
    assert copy_crashes(bootstrap, run_topic, target, begin_ms, end_ms, ()) == len(wanted) - first
    assert copy_crashes(bootstrap, run_topic, target, begin_ms, end_ms, ()) == 0  # they are there


def test_a_runs_topics_take_records_of_any_time_and_live_ones_say_when_they_first_came(lane: Lane) -> None:
    bootstrap, prefix = lane.endpoints.kafka_bootstrap, f"{lane.settings.kafka.prefix}run-r1."
    kafka.create_topics(bootstrap, prefix, for_ever=True)
    topic = kafka_topic(prefix, "telemetry")
    next_year_ms = base_ms() + 400 * 24 * 3_600_000
    row = pa.table({"partition": [2], "key": [b"k"], "received_ms": [next_year_ms], "value": [b"v"]})
    Writer(bootstrap, topic).rows(row)
    Writer(bootstrap, topic).rows(row, now_ms=base_ms())
    with Log(bootstrap) as log:
        first, again = log.messages(topic, 2, 0, 2)
        assert (first.key(), first.value(), first.timestamp()[1]) == (b"k", b"v", next_year_ms)
        assert again.timestamp()[1] == base_ms()
        assert dict(again.headers() or [])["first_received_ms"] == str(next_year_ms).encode()
    kafka.delete_topics(bootstrap, prefix)
    kafka.delete_topics(bootstrap, prefix)  # twice is fine
