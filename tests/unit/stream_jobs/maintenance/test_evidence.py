"""Which frames are the evidence of which alert."""

from __future__ import annotations

from typing import Any

from stream_jobs.maintenance.evidence import chosen

T0 = 1_790_000_000_000


def frame(
    at_s: int, seq: int, vehicle: str = "V", received_s: int = 0, value: bytes = b'{"n": 1}'
) -> dict[str, Any]:
    t0_ms = T0 + 1000 * at_s
    times = {"t0_ms": t0_ms, "end_ms": t0_ms + 900, "received_ms": T0 + 1000 * received_s}
    place = {"log_generation": "", "kafka_topic": "t", "partition": 0, "log_offset": seq}
    return {"vehicle_id": vehicle, "boot_id": 1, "seq": seq, "verdict": "ok", "value": value} | times | place


def test_frames_within_half_a_minute_of_the_opening_are_taken_each_once() -> None:
    frames = [
        frame(-31, 1),
        frame(-30, 2),
        frame(0, 3),
        frame(0, 3, received_s=9),
        frame(30, 4),
        frame(31, 5),
    ]
    rows = chosen([(7, "V", T0, T0)], frames)
    assert sorted(row["seq"] for row in rows) == [2, 3, 4]
    assert [row["received_ms"] for row in rows if row["seq"] == 3] == [T0]
    assert {row["alert_no"] for row in rows} == {7}
    assert rows[0]["frame"] == {"n": 1}


def test_another_vehicles_frames_and_what_jsonb_cannot_hold_are_not() -> None:
    frames = [frame(0, 1, "W"), frame(0, 2, value=b'{"x": "\\u0000"}')]
    assert chosen([(7, "V", T0, T0)], frames) == []


def test_at_most_300_frames_are_kept_and_those_are_the_nearest() -> None:
    frames = [frame(0, 1000 + k) for k in range(299)] + [frame(5, 1), frame(20, 2)]
    rows = chosen([(7, "V", T0, T0)], frames)
    assert len(rows) == 300
    assert {1, 2} & {row["seq"] for row in rows} == {1}
