"""Scenario files and whole days through the command line and a real broker."""

from __future__ import annotations

import signal
from pathlib import Path

import orjson
import pytest

from tests.integration.broker_support import Broker, Listener
from tests.support import eventually

pytestmark = pytest.mark.integration


def test_stages_bring_vehicles_on_line_with_births_and_let_them_leave(broker: Broker, tmp_path: Path) -> None:
    file = tmp_path / "stages.yaml"
    file.write_text(
        "vehicles: 20\ninterval: 1s\n"
        "stages: [{for: 2s, ramp_to: 20}, {for: 2s, rate: 20}, {for: 2s, rate: 5}]\n"
    )
    with Listener("stages").listening(broker.port) as listener:
        summary = broker.run("simulate", "--scenario", str(file), "--run-id", "stages")
        assert summary["finished"] is True
        assert summary["generated"] == summary["acked"]
        eventually(lambda: len(listener.channel("telemetry")) == summary["acked"], 60, "all frames")
        states = [orjson.loads(p)["state"] for p in listener.channel("status", summary["boot_id"])]
        assert (states.count("online"), states.count("offline")) == (20, 20)
        assert {len(seqs) for seqs in listener.sequences(summary["boot_id"]).values()} >= {2, 6}


def test_options_win_over_a_ready_scenario(broker: Broker) -> None:
    summary = broker.run(
        "simulate", "--scenario", "radio-outage", "-c", "12", "-I", "500ms", "--duration", "5s",
        "--set", "link.outage_share=0.5", "--set", "link.outage_at_s=1", "--set", "link.outage_min_s=2",
        "--set", "link.outage_max_s=3", "--run-id", "outage",
    )  # fmt: skip
    assert (summary["vehicles"], summary["interval_ms"], summary["finished"]) == (12, 500, True)
    assert summary["link"]["outages"] == 6
    assert summary["link"]["stored_on_board"] > 0
    rows = [
        orjson.loads(line)
        for line in (broker.home / "runs" / "outage" / "truth.jsonl").read_bytes().splitlines()
    ]
    told = {row["vehicle_id"]: row["to_ms"] - row["from_ms"] for row in rows if row["kind"] == "outage"}
    assert len(told) == 6
    assert all(2000 <= length <= 3200 for length in told.values())


def test_a_day_goes_through_the_broker_faster_than_real_time(broker: Broker) -> None:
    with Listener("day").listening(broker.port) as listener:
        summary = broker.run(
            "simulate", "--day", "2026-11-20", "-c", "6", "--duration", "20m",
            "--into", "mqtt", "--set", "parked_every=1m",
        )  # fmt: skip
        assert summary["finished"] is True
        assert summary["start_ms"] == 1_795_132_800_000
        assert summary["ended_ms"] - summary["started_ms"] < 20 * 60_000
        assert summary["generated"] == summary["acked"] > 100
        eventually(lambda: len(listener.channel("telemetry")) == summary["acked"], 60, "all frames")


def test_a_day_into_the_archive_that_is_stopped_leaves_nothing(broker: Broker) -> None:
    run = broker.command("simulate", "--day", "2026-11-20", "-c", "5", "--run-id", "halted")
    days = broker.home / "days"
    eventually(lambda: list(days.glob(".halted.partial/telemetry/*/*/*.parquet")), 120, "a first hour")
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(120)
    assert run.returncode == 1
    assert "halted was not finished, and nothing of it was kept" in err
    assert list(days.iterdir()) == []
