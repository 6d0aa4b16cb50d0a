"""Each query of the dashboard against a real TimescaleDB with known rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import psycopg
import pytest

from dashboard.db import Connection
from dashboard.report import queries as report_queries
from dashboard.screens.crashes import queries as crash_queries
from dashboard.screens.fleet import queries as fleet_queries
from dashboard.screens.operations import queries as operations_queries
from dashboard.screens.operations import tables
from dashboard.screens.vehicle import queries as vehicle_queries
from dashboard.shared import queries as shared_queries
from dashboard.shared import text
from tests import support_rows
from tests.integration.dashboard_support import minute_of_data, reading
from tests.rows.fleet import empty_window
from tests.rows.town import ROVER, ROVER_START, vehicle_id
from tests.support import Lane

pytestmark = [pytest.mark.integration, pytest.mark.tables]

PARTS = {"mosquitto", "bridge", "kafka", "jobs", "instant", "events", "downlink", "postgres", "dashboard"}


def test_the_fleet_in_figures(now: datetime, connection: Connection) -> None:
    figures = fleet_queries.fleet_figures(connection).iloc[0].to_dict()
    counted = ("vehicles", "reporting", "moving", "idling", "parked", "incidents", "unseen")
    assert [figures[name] for name in counted] == [41, 37, 24, 6, 6, 5, 5]
    assert [figures[name] for name in ("critical", "major", "minor", "warning")] == [1, 1, 1, 2]
    assert figures["speed_moving_kmh"] == pytest.approx(31.5)
    assert 0 < figures["frames_per_s"] <= 40


def test_freshness_counts_what_was_late_quarantined_and_dead(now: datetime, connection: Connection) -> None:
    fresh = shared_queries.freshness(connection).iloc[0]
    assert fresh["data_as_of"] == now - timedelta(seconds=1)
    assert fresh["watermark"] == now - timedelta(seconds=62)
    counts = [
        fresh[c] for c in ("late_frames", "late_open", "quarantined_frames", "dead_letters", "lag_records")
    ]
    assert counts == [5, 3, 4, 32, 12]  # dead: one kept, 30 that were not, an event of the service, one kept


def test_the_fleet_knows_who_is_silent(now: datetime, connection: Connection) -> None:
    fleet = fleet_queries.fleet_latest(connection)
    assert len(fleet) == 41
    silent = fleet[fleet["state"] == "silent"]
    assert sorted(silent["vehicle_id"]) == [*(vehicle_id(n) for n in (36, 37, 38)), ROVER]


def test_vehicles_with_alerts_have_their_count_and_the_worst_severity(
    now: datetime, connection: Connection
) -> None:
    fleet = fleet_queries.fleet_latest(connection)
    alerted = fleet[fleet["alerts"] > 0].sort_values("vehicle_id")
    assert list(zip(alerted["vehicle_id"], alerted["alerts"], alerted["severity"], strict=True)) == [
        (vehicle_id(0), 2, "MAJOR"),
        (vehicle_id(3), 1, "MINOR"),
        (vehicle_id(7), 1, "CRITICAL"),
        (vehicle_id(25), 1, "WARNING"),
    ]


def test_the_fleet_by_minute_leaves_out_the_minute_still_running(
    now: datetime, connection: Connection
) -> None:
    minutes = fleet_queries.fleet_hour(connection)
    this_minute = minute_of_data(now)
    assert minutes["minute"].max() == this_minute - timedelta(minutes=1)
    last = minutes.iloc[-1]
    assert (last["vehicles"], last["on_road"], last["frames"], last["frames_per_s"]) == (37, 30, 2220, 37.0)
    assert last["idle_share"] == pytest.approx(6 / 30)


def test_today_is_the_sum_of_its_minutes_since_midnight(now: datetime, connection: Connection) -> None:
    today = fleet_queries.fleet_today(connection).iloc[0]
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    assert (today["tz"], today["since"]) == ("UTC", midnight)
    summed = connection.execute(
        "SELECT sum(distance_m) / 1000, sum(fuel_l) FROM serving.vehicle_window WHERE window_start >= %s",
        (midnight,),
    ).fetchone()
    assert summed is not None
    assert today["distance_km"] == pytest.approx(summed[0], abs=0.01)
    assert today["fuel_l"] == pytest.approx(summed[1], abs=0.001)


def test_a_vehicle_is_found_by_a_part_of_its_id_or_model_and_the_whole_id_comes_first(
    connection: Connection,
) -> None:
    found = shared_queries.find_vehicles(connection, "actros")
    assert found["vehicle_id"].tolist()[:2] == [vehicle_id(3), vehicle_id(8)]
    assert set(found["model"]) == {"Actros 1845"}
    assert shared_queries.find_vehicles(connection, vehicle_id(4).lower())["vehicle_id"].tolist() == [
        vehicle_id(4)
    ]
    assert len(shared_queries.find_vehicles(connection, "TESTFLEET")) == 20
    assert shared_queries.find_vehicles(connection, "%").empty


def test_roads_have_a_version_and_an_extent(now: datetime, connection: Connection) -> None:
    network = shared_queries.road_networks(connection).iloc[0]
    assert network["version"] == "town-256-255"
    assert (round(network["south"], 3), round(network["north"], 3)) == (48.996, 49.018)
    edges = shared_queries.road_edges(connection)
    assert len(edges) == 256
    assert edges["path"].iloc[0] == [[8.38095, 48.99655], [8.384450, 48.996837]]


def test_traffic_is_judged_against_free_flow(now: datetime, connection: Connection) -> None:
    cells = fleet_queries.road_cells(connection)
    assert set(cells["congestion"]) == {"free", "slow", "severe", "unknown"}
    assert set(cells.loc[cells["congestion"] == "severe", "speed_kmh"]) == {10.0, 20.0}


def test_traffic_by_road_without_a_network_in_use_is_nothing(connection: Connection) -> None:
    assert fleet_queries.road_edge_traffic(connection).empty


def test_active_and_unacknowledged_alerts_come_first_then_the_worst(
    now: datetime, connection: Connection
) -> None:
    found = shared_queries.alerts(connection)
    assert list(zip(found["rule"], found["severity"], found["active"], strict=True)) == [
        ("crash_airbag", "CRITICAL", True),
        ("coolant_high", "MAJOR", True),
        ("speeding", "WARNING", True),
        ("battery_low", "WARNING", True),
        ("tyre_low.rear left", "MINOR", True),
        ("speeding", "WARNING", False),
        ("coolant_high", "MAJOR", False),
    ]
    assert found["duration_s"].iloc[0] == 595.0


def test_incidents_come_active_and_worst_first_and_can_be_asked_for(
    now: datetime, connection: Connection
) -> None:
    found = shared_queries.incidents(connection)
    assert list(zip(found["cause"], found["severity"], found["active"], strict=True)) == [
        ("crash", "CRITICAL", True),
        ("coolant_high", "MAJOR", True),
        ("tyre rear left", "MINOR", True),
        ("speeding", "WARNING", True),
        ("battery_low", "WARNING", True),
        ("coolant_high", "MAJOR", False),
        ("speeding", "WARNING", False),
    ]
    assert shared_queries.incidents(connection, vehicle_id(0), active=True)["alerts"].tolist() == [1, 1]
    assert len(shared_queries.incidents(connection, cause="speeding", assigned="nobody", seen=False)) == 2
    assert shared_queries.incidents(connection, cause="tyre")["cause"].tolist() == ["tyre rear left"]
    assert shared_queries.incidents(connection, cause="tyre front left").empty
    assert shared_queries.incidents(connection, seen=True).empty
    hour = timedelta(hours=1)
    open_within = {at: report_queries.incidents(connection, at, at + hour, None) for at in (now - hour, now)}
    assert [len(rows) for rows in open_within.values()] == [7, 5]  # two had ended before this hour
    assert report_queries.incidents(connection, now - 2 * hour, now - hour, None).empty


def test_alerts_can_be_asked_for_by_vehicle_severity_and_status(
    now: datetime, connection: Connection
) -> None:
    assert shared_queries.alerts(connection, vehicle_id(0))["rule"].tolist() == ["coolant_high", "speeding"]
    assert len(shared_queries.alerts(connection, severities=["MAJOR"])) == 2
    assert len(shared_queries.alerts(connection, severities=["MAJOR"], active=True)) == 1
    assert shared_queries.alerts(connection, active=False)["acknowledged_by"].tolist() == [None, "A. Costa"]


def test_one_vehicle_in_one_row(now: datetime, connection: Connection) -> None:
    newest = shared_queries.vehicle(connection, vehicle_id(2)).iloc[0]
    assert (newest["model"], newest["state"], newest["speed_kmh"], newest["soc_pct"]) == (
        "Leaf 24 kWh",
        "moving",
        22.0,
        42.0,
    )
    extent = vehicle_queries.vehicle_extent(connection, vehicle_id(0)).iloc[0]
    assert (extent["windows"], extent["frames"]) == (360, 3600)


def test_history_is_summed_by_step(now: datetime, connection: Connection) -> None:
    start, end = ROVER_START, ROVER_START + timedelta(minutes=2)
    history = vehicle_queries.history(60)(connection, ROVER, start, end, 60, "UTC")
    assert history["bucket"].tolist() == [start, start + timedelta(minutes=1)]
    assert history["samples"].tolist() == [600, 600]
    assert history["moving_s"].tolist() == [60.0, 60.0]
    assert history["soc_pct"].tolist() == pytest.approx([89.875, 89.575])
    assert history["coolant_mean_c"].isna().all()


def test_the_mean_speed_of_a_step_weighs_windows_by_their_samples(lane: Lane) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [
        empty_window(vehicle_id(0), start) | {"samples": 100, "speed_mean_kmh": 10.0},
        empty_window(vehicle_id(0), start + timedelta(seconds=10)) | {"samples": 300, "speed_mean_kmh": 50.0},
        empty_window(vehicle_id(0), start + timedelta(seconds=20)) | {"samples": 500},
    ]
    with psycopg.connect(lane.endpoints.db_ingest_url) as ingest:
        support_rows.insert(ingest, "vehicle_window", rows)
    end = start + timedelta(minutes=1)
    with reading(lane) as connection:
        history = vehicle_queries.history(60)(connection, vehicle_id(0), start, end, 60, "UTC")
    assert history["speed_mean_kmh"].tolist() == [40.0]
    assert history["samples"].tolist() == [900]


def test_a_trace_has_the_last_position_of_each_window(now: datetime, connection: Connection) -> None:
    start = ROVER_START
    trace = vehicle_queries.vehicle_trace(connection, ROVER, start, start + timedelta(hours=1))
    assert len(trace) == 180
    assert trace["step_s"].unique().tolist() == [10]
    assert (trace["lat_deg"].iloc[0], trace["lon_deg"].iloc[0]) == (33.985, -6.865)


def test_a_long_trace_is_thinned(lane: Lane) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [
        empty_window(vehicle_id(0), start + timedelta(seconds=10 * k)) | {"lat_deg": 1.0, "lon_deg": 2.0}
        for k in range(4000)
    ]
    with psycopg.connect(lane.endpoints.db_ingest_url) as ingest:
        support_rows.insert(ingest, "vehicle_window", rows)
    with reading(lane) as connection:
        trace = vehicle_queries.vehicle_trace(connection, vehicle_id(0), start, start + timedelta(days=1))
        old = vehicle_queries.vehicle_trace(connection, vehicle_id(0), start, start + timedelta(days=8))
    assert (len(trace), trace["step_s"].unique().tolist()) == (2000, [20])
    assert old.empty  # of a longer span the last seven days are read


def test_a_crash_record_comes_whole(now: datetime, connection: Connection) -> None:
    record = crash_queries.crash(connection, vehicle_id(7), 1, "c-1").iloc[0]
    assert (record["delta_v_max_kmh"], record["hash_ok"]) == (-27.0, True)
    assert record["record"]["pre_crash"]["speed_kmh"][-1] == 47.0


def test_the_last_batch_of_each_query(now: datetime, connection: Connection) -> None:
    batches = operations_queries.queries_now(connection)
    assert batches["query"].tolist() == ["archive", "routing", "telemetry"]
    assert batches["batch_id"].tolist() == [1000] * 3
    assert batches["batch_ms"].tolist() == [600, 220, 300]
    assert batches["lag_records"].tolist() == [12, 12, 12]
    assert batches["watermark"].iloc[2] == now - timedelta(seconds=62)


def test_batch_times_of_the_last_minutes(now: datetime, connection: Connection) -> None:
    history = operations_queries.queries_history(connection)
    assert set(history["query"]) == {"archive", "routing", "telemetry"}
    assert history.loc[history["query"] == "telemetry", "batch_ms"].max() == 840


def test_what_was_rejected_by_reason(now: datetime, connection: Connection) -> None:
    found = operations_queries.rejected(connection)
    assert list(zip(found["kind"], found["reason"], found["frames"], strict=True)) == [
        ("dead letter", "bad_json", 31),
        ("dead letter", "identity_mismatch", 1),
        ("dead letter", "bad_value", 0),
        ("quarantined", "clock_ahead", 3),
        ("quarantined", "clock_unset", 1),
    ]


def test_alert_latency_by_rule(now: datetime, connection: Connection) -> None:
    found = operations_queries.alert_latency(connection)
    assert found["rule"].tolist() == ["coolant_high", "speeding"]
    assert found["received_p50_ms"].tolist() == pytest.approx([14.0, 15.0])
    assert found["event_p50_ms"].tolist() == pytest.approx([1114.0, 1115.0])


def test_each_part_has_its_newest_sample_and_an_old_one_is_not_measured(connection: Connection) -> None:
    found = operations_queries.stages(connection).set_index("stage")
    assert set(found.index) == PARTS
    assert found.index[~found["measured"]].tolist() == ["downlink"]
    assert found.loc["events", ["ready", "reason", "errors"]].tolist() == [False, "database: waiting", 4]
    assert found.loc["jobs", ["rate_per_s", "lag", "cores"]].tolist() == [40.0, 12, 0.82]


def test_rates_are_of_the_last_minutes(connection: Connection) -> None:
    found = operations_queries.stage_rates(connection)
    assert set(found["stage"]) == PARTS - {"downlink"}
    assert 50 < (found["stage"] == "bridge").sum() <= 61  # of the 120 of half an hour


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
