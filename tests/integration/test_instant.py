"""The real-time query and the event store, from Kafka to the database."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from tests.integration.events_support import (
    STORED_S,
    VINS,
    count,
    crash,
    frame,
    produce,
    rows,
    topic_values,
    until_ready,
)
from tests.support import Lane, eventually

pytestmark = pytest.mark.integration

YEAR_2036 = 2_085_978_496_000
ALERTS = "SELECT vehicle_id, rule, findings, late FROM odograph.alert"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def hot(vehicle: int, seq: int, t0_ms: int) -> tuple[str, bytes]:
    return frame(vehicle, seq, t0_ms, coolant_c=118.5)


def until_stored(lane: Lane, findings: int) -> None:
    """Wait until the database holds so many findings."""

    def reached() -> bool:
        found = count(lane, "alert_event")
        assert found >= findings, f"{found} findings so far"
        return True

    eventually(reached, STORED_S, f"{findings} findings")


def test_every_crash_and_hot_frame_is_one_alert_and_nothing_else_is_though_the_event_store_is_killed(
    lane: Lane,
) -> None:
    """That a killed query goes on with each finding once is shown end to end (tests/e2e, F9)."""
    lane = replace(
        lane, env=lane.env | {"ODOGRAPH_JOBS_INSTANT_TRIGGER_S": "15", "ODOGRAPH_JOBS_CRASH_TRIGGER_S": "15"}
    )
    with lane.process("jobs", "instant") as instant:
        with lane.process("jobs", "events") as events:
            until_ready(lane, "instant")
            start = now_ms()
            healthy = [frame(3, seq, start - 1000 * seq) for seq in range(50)]
            clocks = [hot(4, 0, YEAR_2036), hot(4, 1, 0), hot(4, 2, start + 3_600_000)]
            produce(lane, "telemetry", [*healthy, *clocks, hot(0, 0, start), hot(1, 0, start - 3_600_000)])
            produce(lane, "crash", [crash(2, 7, start - 500)])
            until_stored(lane, 3)
            produce(lane, "telemetry", [hot(0, seq, start + 1000 * seq) for seq in range(1, 5)])
            until_stored(lane, 7)
            events.kill()
        produce(lane, "telemetry", [hot(0, seq, start + 1000 * seq) for seq in range(5, 9)])
        with lane.process("jobs", "events"):
            produce(lane, "crash", [crash(5, 8, YEAR_2036)])
            until_stored(lane, 12)
            produce(lane, "telemetry", [*healthy, hot(0, 9, start + 9000)])
            until_stored(lane, 13)
            instant.assert_running()
            assert instant.stop() == 0
    assert count(lane, "alert_event") == 13
    found = {(a["vehicle_id"], a["rule"]): (a["findings"], a["late"]) for a in rows(lane, ALERTS)}
    assert found == {
        (VINS[0], "coolant_critical"): (10, False),
        (VINS[1], "coolant_critical"): (1, True),
        (VINS[2], "crash_airbag"): (1, False),
        (VINS[5], "crash_airbag"): (1, False),
    }
    assert len({alert["alert_id"] for alert in topic_values(lane, "alerts", 2)}) == 13
    records = rows(lane, "SELECT vehicle_id, hash_ok FROM odograph.crash_record ORDER BY vehicle_id")
    assert records == [{"vehicle_id": VINS[k], "hash_ok": True} for k in (2, 5)]


def test_a_wrong_rules_file_ends_the_process_with_its_place(lane: Lane) -> None:
    path = lane.home / "mine.yaml"
    path.write_text(
        "rules:\n  - {id: hot, version: 1, severity: HIGH, source: frame, value: x, message: Hot}\n"
    )
    wrong = replace(lane, env=lane.env | {"ODOGRAPH_JOBS_RULES": str(path)})
    for command in ("instant", "events"):
        result = wrong.run("jobs", command)
        assert result.returncode == 2
        assert "mine.yaml, rule hot: `severity` 'HIGH': 'WARNING', 'MINOR'" in result.stderr
