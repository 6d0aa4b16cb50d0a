"""The page Operations over known samples, and the watch that takes them."""

from __future__ import annotations

import psycopg
import pytest
from playwright.sync_api import expect

from dashboard.screens.operations import queries as operations_queries
from dashboard.screens.operations import tables
from infra.clients.kafka import producer
from infra.contract.topics import kafka_topic, partition_of
from infra.stack.probes import metrics, readiness, readyz
from infra.stack.stack import Stack
from tests.integration.browser_support import Visit, charts_drawn
from tests.integration.dashboard_support import START_S, Site, batches_until_now
from tests.rows.town import vehicle_id
from tests.support import Lane, eventually, open_lane

pytestmark = pytest.mark.integration


def test_the_page_says_which_part_does_not_work_and_what_is_not_known_or_measured_any_more(
    reader: Visit, site: Site
) -> None:
    batches_until_now(site)
    reader.open("/operations")
    expect(reader.page.get_by_text("1 of 9 parts do not work: Event store")).to_be_visible()
    expect(reader.page.get_by_text("✕ Event store: database: waiting")).to_be_visible()
    expect(reader.page.get_by_text("? Downlink: not measured for")).to_be_visible()
    expect(reader.page.get_by_text("99.986 % of 36,000 frames came within the delay")).to_be_visible()
    expect(reader.page.get_by_text("would stand 10.0 years ahead")).to_be_visible()
    expect(reader.page.get_by_text("20.0 GiB free on the disk")).to_be_visible()
    charts_drawn(reader, 2)
    assert reader.complaints == []
    site.execute("UPDATE odograph.stage_sample SET good_until = good_until - INTERVAL '1 hour'")
    try:
        expect(reader.page.get_by_text("9 of 9 parts were not measured just now")).to_be_visible()
    finally:
        site.execute("UPDATE odograph.stage_sample SET good_until = good_until + INTERVAL '1 hour'")


def test_the_watch_measures_what_runs_and_says_what_does_not(lane: Lane) -> None:
    with lane.process("watch") as process, psycopg.connect(lane.endpoints.db_dashboard_url) as reader:
        port = lane.endpoints.http_ports["watch"]
        eventually(lambda: process.assert_running() or readyz(port) is None, START_S, "ready")
        judged = tables.judged(operations_queries.stages(reader), 0.8)
    states = dict(zip(judged["stage"], judged["state"], strict=True))
    assert {name for name, state in states.items() if state == "works"} == {"mosquitto", "kafka", "postgres"}
    assert states["bridge"] == "does not work"
    assert judged.set_index("stage").loc["bridge", "reason"].startswith("no answer on 127.0.0.1:")


def test_a_hot_partition_is_an_alarm_and_the_keys_that_send_most_are_named(stack: Stack) -> None:
    one, other = (
        vehicle_id(1),
        next(v for n in range(2, 99) if place(v := vehicle_id(n)) == place(vehicle_id(1))),
    )
    with open_lane(stack, watch={"hot_records": 20, "interval_s": 0.5}) as lane:
        bootstrap, prefix = lane.endpoints.kafka_bootstrap, lane.settings.kafka.prefix
        writer = producer(bootstrap)
        for topic, keys in {"alerts": [one] * 50, "telemetry": [one] * 30 + [other] * 10}.items():
            for key in keys:
                writer.produce(kafka_topic(prefix, topic), b"{}", key)
        assert writer.flush(10) == 0
        with psycopg.connect(lane.endpoints.db_ingest_url) as ingest:
            ingest.execute("INSERT INTO odograph.consumer_offset VALUES ('events', 'alerts', 0, 0)")
        with lane.process("watch") as watch, psycopg.connect(lane.endpoints.db_dashboard_url) as reader:
            port = lane.endpoints.http_ports["watch"]

            def hot() -> str:
                watch.assert_running()
                return readiness(port)[1] or ""

            said = eventually(hot, START_S, "the partition is hot")
            number = partition_of(one.encode(), 2)
            assert f"events is 50 records behind in partition {number} of alerts, 50.0 times" in said
            assert metrics(port).count('partition_skew{reader="events",topic="alerts"} 50.0') == 1
            assert one not in metrics(port)
            found = operations_queries.top_keys(reader)
            shown = list(zip(found["vehicle_id"], found["share"], strict=True))
            assert shown == [(one, 0.75), (other, 0.25)]
            told = lane.run("status").stdout
            assert f"top keys of telemetry: {one} 75.0 % (partition {place(one)})" in told
            assert "hot: events is 50 records behind" in told


def place(vehicle: str) -> int:
    return partition_of(vehicle.encode(), 4)
