"""One frame followed through the pipeline after a dirty drive: `odograph trace`."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from infra.clients.kafka import identity
from infra.trace.follow import Trace, Wanted, follow
from tests.e2e.support import Drive
from tests.support import Lane

pytestmark = pytest.mark.e2e


def traced(pipeline: Lane, vehicle_id: str, seq: int, boot_id: int | None = None) -> Trace:
    wanted, look_back_ms = Wanted(vehicle_id, seq, boot_id), 3 * 3_600_000
    return follow(pipeline.settings, pipeline.endpoints, wanted, look_back_ms, print)


def first(drive: Drive, flag: str, copy: bool = False) -> dict[str, Any]:
    """The payload of the first telemetry message of a kind, of a frame that nothing else befell."""
    lines = [f for f in drive.lines("frames.jsonl") if f["channel"] == "telemetry" and "payload" in f]
    return next(f["payload"] for f in lines if f["flag"] == flag and bool(f["copy"]) == copy)


def stations(trace: Trace) -> dict[str, str]:
    return {hop.name: hop.state for hop in trace.hops}


def test_a_frame_is_found_at_every_station_with_its_copies(pipeline: Lane, drive: Drive) -> None:
    payload = first(drive, "duplicate", copy=True)
    trace = traced(pipeline, payload["vehicle_id"], payload["seq"])
    assert (trace.boot_id, trace.verdict, trace.found) == (drive.summary["boot_id"], "ok", True)
    assert trace.copies >= 2
    assert {state for name, state in stations(trace).items()} == {"done"}
    assert {"sent", "received", "stored", "received (copy 2)", "archived", "on the map"} <= {*stations(trace)}
    assert {"query telemetry", "query archive"} <= {*stations(trace)}
    times = {hop.name: hop.at_ms for hop in trace.hops if hop.at_ms is not None}
    assert times["sent"] == payload["sent_ms"]
    assert times["first sample"] == payload["t0_ms"]
    assert times["sent"] <= times["received"] <= times["received (copy 2)"]


def test_a_frame_that_came_too_late_is_listed_and_repaired(pipeline: Lane, drive: Drive) -> None:
    payload = first(drive, "late_beyond")
    trace = traced(pipeline, payload["vehicle_id"], payload["seq"], drive.summary["boot_id"])
    assert trace.verdict == "late"
    assert {"listed as late": "done", "repaired": "done"}.items() <= stations(trace).items()


def test_a_frame_of_an_impossible_clock_is_quarantined_and_in_no_window(pipeline: Lane, drive: Drive) -> None:
    payload = first(drive, "clock_ahead")
    trace = traced(pipeline, payload["vehicle_id"], payload["seq"])
    assert trace.verdict == "clock_ahead"
    assert stations(trace)["quarantined"] == "done"
    assert not any(name.startswith("window ") for name in stations(trace))


def test_a_poisoned_copy_is_found_in_dead_letter_with_its_reason(pipeline: Lane, drive: Drive) -> None:
    poison = [f for f in drive.lines("frames.jsonl") if f["flag"] == "poison"]
    raw = next(
        r for f in poison if (r := base64.b64decode(f["payload_b64"])).startswith(b"{") and identity(r)
    )
    boot_and_seq = identity(raw)
    assert boot_and_seq is not None
    vehicle_id = raw.partition(b'"vehicle_id":"')[2][:17].decode()
    trace = traced(pipeline, vehicle_id, boot_and_seq[1], drive.summary["boot_id"])
    assert trace.dead >= 1
    assert stations(trace)["dead letter"] == "done"
    assert any("dead-letter@" in hop.detail for hop in trace.hops)


def test_no_process_writes_a_line_for_each_message(pipeline: Lane, drive: Drive) -> None:
    logs = {path.stem: path.read_text().count("\n") for path in (pipeline.home / "logs").glob("*.log")}
    logs.pop("jobs")  # Java's trace of a killed driver
    assert {"bridge", "events", "instant"} <= logs.keys()
    assert max(logs.values()) < drive.summary["messages"]["sent"] / 4


def test_a_frame_that_nobody_sent_is_exit_code_1_and_says_where_was_looked(pipeline: Lane) -> None:
    done = pipeline.run("trace", "WDB1240001A999999", "3")
    assert done.returncode == 1
    assert "no trace of frame 3 of WDB1240001A999999: not in the archive's last 24h" in done.stderr
    assert done.stdout == ""
