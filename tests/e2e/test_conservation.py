"""From the edge to the views: nothing lost, nothing doubled, every figure as an oracle has it."""

from __future__ import annotations

import subprocess
from collections import defaultdict

import orjson
import pytest

from infra.stack.downloads import cache
from load_tests.oracle import expect
from stream_jobs.audit.collect import collect
from stream_jobs.audit.ledger import WHOLE, Ledger, Scope
from stream_jobs.audit.run import audit
from tests.e2e.support import LIMITS, Drive, rows, whole_topic
from tests.support import Lane

pytestmark = pytest.mark.e2e

WRITER = ("batch_id", "revision", "restated_at")


def test_f7_after_kills_of_bridge_and_spark_every_frame_is_accounted_for(drive: Drive) -> None:
    ledger: Ledger = drive.ledger
    assert drive.summary["generated"] == 40 * 30
    assert (ledger.generated, ledger.poison) == (1200, drive.summary["poison"])
    assert ledger.residual == 0
    assert ledger.acked == ledger.sent
    assert min(ledger.late, ledger.quarantined, ledger.duplicate, ledger.dead_distinct) > 0
    assert (ledger.repaired > 0, ledger.late_open) == (True, 0)


def test_the_account_of_each_vehicle_balances_with_the_simulators_word_and_without(
    pipeline: Lane, drive: Drive
) -> None:
    sums, by_seq = (drive.ledger, audit(pipeline.settings, pipeline.endpoints, WHOLE, wait_s=0.0))
    total = by_seq.account.total
    assert (by_seq.residual, len(by_seq.account.vehicles), total.generated) == (0, 40, 1200)
    assert total.counted + total.late + total.quarantined + total.dead == 1200
    assert (total.counted, total.late_records, total.quarantined_records) == (
        sums.counted, sums.late, sums.quarantined,
    )  # fmt: skip
    for vehicle_id, figures in by_seq.account.vehicles.items():
        assert (figures.generated, figures.residual) == (30, 0), vehicle_id
    begin_ms = int(drive.summary["start_ms"]) // 10_000 * 10_000
    part = Scope(begin_ms + 10_000, begin_ms + 30_000)
    where = pipeline.settings, pipeline.endpoints
    known, unknown = collect(*where, part), collect(*where, part, runs={})
    assert (known.residual, unknown.residual, known.total) == (0, 0, unknown.total)
    assert 40 * 18 <= known.total.generated <= 40 * 22


def test_the_log_holds_what_the_simulator_wrote_under_the_vehicles_key(pipeline: Lane, drive: Drive) -> None:
    written = {
        (f["payload"]["vehicle_id"], f["payload"]["seq"]): f["payload"]
        for f in drive.lines("frames.jsonl")
        if f["channel"] == "telemetry" and f["flag"] != "poison"
    }
    logged = {}
    for message in whole_topic(pipeline, "telemetry"):
        frame = orjson.loads(message.value() or b"")
        if frame["boot_id"] == drive.summary["boot_id"]:
            assert message.key() == frame["vehicle_id"].encode()
            logged[frame["vehicle_id"], frame["seq"]] = frame
    assert logged == written


def test_windows_by_vehicle_and_road_cell_equal_the_oracle(pipeline: Lane, drive: Drive) -> None:
    boot_id = drive.summary["boot_id"]
    records = [
        (message.timestamp()[1], message.value() or b"")
        for message in whole_topic(pipeline, "telemetry")
        if orjson.loads(message.value() or b"")["boot_id"] == boot_id
    ]
    expected = expect(records, LIMITS)
    ids = sorted({vehicle for vehicle, _ in expected.vehicle})
    found = {
        (row.pop("vehicle_id"), row.pop("window_start")): row
        for row in rows(pipeline, "SELECT * FROM odograph.vehicle_window WHERE vehicle_id = ANY(%s)", ids)
    }
    assert found.keys() == expected.vehicle.keys()
    for key, wanted in expected.vehicle.items():
        assert {k: v for k, v in found[key].items() if k not in WRITER} == wanted, key
    times = sorted({start for _, _, start in expected.road})
    span = "SELECT * FROM odograph.road_cell_window WHERE window_start BETWEEN %s AND %s"
    roads = {
        (row.pop("cell"), row.pop("heading_sector"), row.pop("window_start")): row
        for row in rows(pipeline, span, times[0], times[-1])
    }
    assert roads.keys() == expected.road.keys()
    for road_key, wanted in expected.road.items():
        assert {k: v for k, v in roads[road_key].items() if k not in WRITER} == wanted, road_key


def test_latest_is_the_newest_by_event_time_not_by_arrival(pipeline: Lane, drive: Drive) -> None:
    boot_id = drive.summary["boot_id"]
    newest: dict[str, int] = defaultdict(int)
    for message in whole_topic(pipeline, "telemetry"):
        frame = orjson.loads(message.value() or b"")
        last_ms = frame["t0_ms"] + (frame["n"] - 1) * frame["dt_ms"]
        ahead = last_ms > message.timestamp()[1] + LIMITS.ahead_ms
        if frame["boot_id"] == boot_id and frame["t0_ms"] > LIMITS.floor_ms and not ahead:
            newest[frame["vehicle_id"]] = max(newest[frame["vehicle_id"]], last_ms)
    sql = "SELECT vehicle_id, event_time FROM odograph.vehicle_latest WHERE vehicle_id = ANY(%s)"
    found = {
        r["vehicle_id"]: round(r["event_time"].timestamp() * 1000) for r in rows(pipeline, sql, list(newest))
    }
    assert found == newest


def test_each_crash_is_one_record_with_its_hash_and_one_alert_on_the_right_vehicle(
    pipeline: Lane, drive: Drive
) -> None:
    crashed = sorted(row["vehicle_id"] for row in drive.lines("truth.jsonl") if row.get("fault") == "crash")
    assert len(crashed) == 2
    sql = "SELECT vehicle_id, hash_ok, complete, record FROM serving.crash_record ORDER BY vehicle_id"
    records = rows(pipeline, sql)
    assert [(r["vehicle_id"], r["hash_ok"]) for r in records] == [(vehicle, True) for vehicle in crashed]
    for found in records:  # a vehicle that had just set off has not 20 s to tell of
        assert found["complete"] is (None not in found["record"]["pre_crash"]["speed_kmh"])
    sql = "SELECT vehicle_id, rule, count(*) AS n FROM serving.alert WHERE rule LIKE 'crash%' GROUP BY 1, 2"
    alerts = rows(pipeline, sql)
    assert {a["vehicle_id"] for a in alerts} == set(crashed)
    assert {a["n"] for a in alerts} == {1}


def test_a_strange_client_reads_along_on_mqtt_and_kafka(pipeline: Lane, drive: Drive) -> None:
    subscribed = _mosquitto_sub(pipeline)
    assert subscribed["state"] in {"online", "offline"}
    frame = orjson.loads(whole_topic(pipeline, "telemetry")[0].value() or b"")
    assert (frame["schema"], frame["n"], len(frame["speed_kmh"])) == (1, 10, 10)


def _mosquitto_sub(lane: Lane) -> dict[str, object]:
    root = str(cache.rootfs(lane.settings.paths.cache))
    where = ("-h", lane.endpoints.mqtt_host, "-p", str(lane.endpoints.mqtt_port))
    what = ("-t", f"{lane.settings.mqtt.root}/s/+/+/status", "-C", "1", "-W", "10")
    command = ["chroot", root, "mosquitto_sub", *where, *what]
    output = subprocess.run(command, capture_output=True, check=True, timeout=120).stdout
    return dict(orjson.loads(output.splitlines()[0]))
