"""The page Operations over known samples, and the watch that takes them."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import psycopg
import pytest
from playwright.sync_api import expect

from dashboard.db import Connection
from dashboard.screens.operations import queries as operations_queries
from dashboard.screens.operations import tables
from dashboard.shared import text
from infra.clients.kafka import producer
from infra.contract.topics import kafka_topic, partition_of
from infra.stack.probes import metrics, readiness, readyz
from infra.stack.stack import Stack
from tests.integration.browser_support import Visit, charts_drawn
from tests.integration.dashboard_support import START_S, Site, batches_until_now
from tests.rows.town import vehicle_id
from tests.support import Lane, eventually, open_lane

pytestmark = pytest.mark.integration

KNOWN = {"mosquitto", "bridge", "kafka", "jobs", "instant", "events", "downlink", "postgres", "dashboard"}


def test_each_part_has_its_newest_sample_and_an_old_one_is_not_measured(connection: Connection) -> None:
    found = operations_queries.stages(connection).set_index("stage")
    assert set(found.index) == KNOWN
    assert found.index[~found["measured"]].tolist() == ["downlink"]
    assert found.loc["events", ["ready", "reason", "errors"]].tolist() == [False, "database: waiting", 4]
    assert found.loc["jobs", ["rate_per_s", "lag", "cores"]].tolist() == [40.0, 12, 0.82]


def test_rates_are_of_the_last_minutes(connection: Connection) -> None:
    found = operations_queries.stage_rates(connection)
    assert set(found["stage"]) == KNOWN - {"downlink"}
    assert (found["stage"] == "bridge").sum() in (59, 60, 61)


def test_records_waiting_are_told_by_partition(connection: Connection) -> None:
    found = operations_queries.partition_lag(connection)
    archive = found[found["reader"] == "archive"]
    assert dict(zip(archive["partition"], archive["lag"], strict=True)) == {0: 40, 1: 30, 2: 30, 3: 500}


def test_a_task_that_fails_stands_before_those_that_work_with_its_error(connection: Connection) -> None:
    found = operations_queries.tasks(connection)
    shown = text.table(found, tables.TASKS, ZoneInfo("UTC"))
    assert shown[["Task", "Process", "State", "Failures", "Error"]].to_numpy().tolist() == [
        ["trends", "maintenance", "✕ does not work", 7, "UndefinedTable: no vehicle_baseline"],
        ["repair", "jobs", "✓ works", 0, text.NONE],
        ["rollups", "maintenance", "✓ works", 0, text.NONE],
    ]


def test_the_last_batch_of_each_query_is_found(connection: Connection) -> None:
    found = operations_queries.queries_now(connection)
    assert list(zip(found["query"], found["batch_id"], found["batch_ms"], strict=True)) == [
        ("archive", 1000, 600),
        ("routing", 1000, 220),
        ("telemetry", 1000, 300),
    ]


def test_the_defence_counts_what_was_off_time(connection: Connection) -> None:
    (told,) = operations_queries.watermark_defence(connection).to_dict("records")
    assert (told["frames"], told["late"], told["quarantined"]) == (36_000, 5, 4)
    assert told["late_worst_s"] == pytest.approx(300, abs=0.01)
    assert told["ahead_worst_s"] == pytest.approx(315_576_120, abs=0.01)  # received two minutes ago
    assert told["needed_s"] is None  # 5 of 36,000 are fewer than one in a thousand


def test_late_and_quarantined_frames_are_told_by_vehicle(connection: Connection) -> None:
    found = operations_queries.off_time_vehicles(connection).set_index("vehicle_id")
    assert found[["late", "late_open", "quarantined"]].to_dict("index") == {
        vehicle_id(0): {"late": 5, "late_open": 3, "quarantined": 0},
        vehicle_id(5): {"late": 0, "late_open": 0, "quarantined": 3},
        vehicle_id(6): {"late": 0, "late_open": 0, "quarantined": 1},
    }
    assert found["unset"].tolist() == [False, False, True]


def test_folders_tell_their_growth(connection: Connection) -> None:
    found = operations_queries.storage(connection).set_index("place")
    assert found.loc["archive", "bytes"] == 1000 << 20
    assert found.loc["archive", "growth_per_day"] == pytest.approx(240 * 24 / 23 * 2**20)


@pytest.mark.tables
def test_a_delay_is_needed_where_more_than_one_in_a_thousand_comes_late(lane: Lane) -> None:
    with psycopg.connect(lane.endpoints.db_ingest_url) as ingest:
        ingest.execute(
            "INSERT INTO odograph.query_progress (query, at, query_id, batch_id, input_rows) VALUES "
            "('telemetry', now(), '00000000-0000-4000-8000-000000000000', 1, 2000)"
        )
        ingest.execute(
            "INSERT INTO odograph.late_frame (topic, partition, log_offset, vehicle_id, boot_id, seq, t0_ms,"
            " span_ms, received_at) SELECT 'telemetry', 0, n, 'V', 1, n,"
            " (extract(epoch FROM now()) - 100 * n) * 1000, 900, now() FROM generate_series(1, 5) n"
        )
    with psycopg.connect(lane.endpoints.db_dashboard_url) as reader:
        (told,) = operations_queries.watermark_defence(reader).to_dict("records")
    assert told["needed_s"] == pytest.approx(300, abs=0.01)  # 500 and 400 may stay late: two of 2,000


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
