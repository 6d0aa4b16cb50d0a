"""When messages leave: by the wall clock in a live run, else by the time since the sending began."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from edge_simulator.console import now_ms
from edge_simulator.sending.lean_publisher import LeanPublisher
from edge_simulator.sending.run import RunOptions, Sender
from edge_simulator.telemetry.outbox import Outgoing
from infra.clients.mqtt_broker import MqttBroker


@pytest.mark.parametrize(
    ("live", "origin_ms", "due_ms", "wanted_ms"),
    [(True, 400, 400, 400), (True, -60_000, 300, 300), (True, 0, -60_000, 0), (False, 60_000, 60_300, 300)],
)
def test_a_message_leaves_when_it_is_due(
    live: bool, origin_ms: int, due_ms: int, wanted_ms: int, tmp_path: Path
) -> None:
    """All times are from now."""
    begun_ms, end_s = now_ms(), time.monotonic() + 20
    with LeanPublisher([MqttBroker("127.0.0.1", 1)], ["c"]) as publisher:
        options = RunOptions("run", "root", 20_000, 0.0, live=live)
        sender = Sender(options, ["V"], publisher, begun_ms + origin_ms, lambda: None, tmp_path)
        item = Outgoing(begun_ms + due_ms, 0, 0, "telemetry", b"{}")
        sender.send([item], lambda: time.monotonic() > end_s)
        assert wanted_ms - 10 <= now_ms() - begun_ms < 20_000
        assert sender.behind_s >= max(0, -due_ms) / 1000


def test_a_live_run_goes_on_by_the_wall_clock_after_a_sleep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, slept_s = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: clock() + slept_s[0])
    begun_ms, end_s = now_ms(), time.monotonic() + 20
    with LeanPublisher([MqttBroker("127.0.0.1", 1)], ["c"]) as publisher:
        options = RunOptions("run", "root", 20_000, 0.0, live=True)
        sender = Sender(options, ["V"], publisher, begun_ms, lambda: slept_s.insert(0, 600.0), tmp_path)
        sender.send(
            [Outgoing(begun_ms + 600_000, 0, 0, "telemetry", b"{}")], lambda: time.monotonic() > end_s
        )
    assert time.monotonic() < end_s
