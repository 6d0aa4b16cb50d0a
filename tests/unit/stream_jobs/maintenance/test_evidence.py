"""Which frames are the evidence of which alert."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import orjson
import pyarrow as pa

from infra.clients.duck import connected
from infra.settings.sections import Retention
from stream_jobs.maintenance.evidence import frames_of
from stream_jobs.maintenance.process import drop_expired

T0 = 1_790_000_000_000


def frame(
    at_s: int, seq: int, vehicle: str = "V", received_s: int = 0, value: bytes = b'{"n": 1}'
) -> dict[str, Any]:
    times = {"t0_ms": T0 + 1000 * at_s, "span_ms": 900, "received_ms": T0 + 1000 * received_s}
    place = {"topic": "t", "partition": 0, "log_offset": seq, "log": ""}
    return {"vehicle_id": vehicle, "boot_id": 1, "seq": seq, "verdict": "ok", "value": value} | times | place


def chosen(frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The evidence of alert 7, of V at T0."""
    with connected() as connection:
        connection.register("stored", pa.Table.from_pylist(frames))
        return frames_of(connection, [(7, "V", T0, T0)], "stored")


def test_frames_within_half_a_minute_of_the_opening_are_taken_each_once() -> None:
    frames = [
        frame(-31, 1),
        frame(-30, 2),
        frame(0, 3),
        frame(0, 3, received_s=9),
        frame(30, 4),
        frame(31, 5),
    ]
    rows = chosen(frames)
    assert sorted(row["seq"] for row in rows) == [2, 3, 4]
    assert [row["received_ms"] for row in rows if row["seq"] == 3] == [T0]
    assert {row["alert_no"] for row in rows} == {7}
    assert orjson.dumps(rows[0]["frame"]) == b'{"n": 1}'


def test_another_vehicles_frames_and_what_jsonb_cannot_hold_are_not() -> None:
    assert chosen([frame(0, 1, "W"), frame(0, 2, value=b'{"x": "\\u0000"}')]) == []


def test_at_most_300_frames_are_kept_and_those_are_the_nearest() -> None:
    rows = chosen([frame(0, 1000 + k) for k in range(299)] + [frame(5, 1), frame(20, 2)])
    assert len(rows) == 300
    assert {1, 2} & {row["seq"] for row in rows} == {1}


def test_evidence_that_was_kept_long_enough_goes_with_all_that_expires_new_alerts_or_none() -> None:
    connection = Mock()
    connection.execute.return_value.fetchall.return_value = [(0,)]
    database = SimpleNamespace(run=lambda work: work(connection))
    drop_expired(database, Retention(), 30)  # type: ignore[arg-type]
    calls = [call.args for call in connection.execute.call_args_list]
    done = [statement.split()[:3] for statement, given in calls if given == {"days": 30}]
    assert done == [["DELETE", "FROM", "odograph.alert_evidence"]]
