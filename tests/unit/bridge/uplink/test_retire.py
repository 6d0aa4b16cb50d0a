"""The end of sessions whose bridges have stopped."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bridge.uplink import service
from bridge.uplink.metrics import LaneStats
from bridge.uplink.mqtt_source import SourceConfig
from infra.clients.mqtt_broker import MqttBroker


def test_a_broker_that_is_away_when_a_session_is_to_be_ended_is_no_defect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def lane_of(*_: object, make_source: Any, **__: object) -> Any:
        configs = [SourceConfig(MqttBroker("h", 1), name, (), 1, Path("none")) for name in ("a", "b")]
        inlets = [SimpleNamespace(source=make_source(config, None)) for config in configs]
        for inlet in inlets:
            inlet.source._emptied_epoch = inlet.source.epoch
        return SimpleNamespace(run=lambda *_: 0, stats=LaneStats(), inlets=inlets)

    def end_session(config: SourceConfig) -> None:
        asked.append(config.client_id)
        raise ConnectionRefusedError("refused")

    monkeypatch.setattr(service, "lane_of", lane_of)
    monkeypatch.setattr(service, "slots_of", lambda _: frozenset())
    monkeypatch.setattr(service, "end_session", end_session)
    settings: Any = SimpleNamespace(bridge=SimpleNamespace(drain_s=0.0))
    endpoints: Any = None
    assert service._empty(settings, endpoints, "crash", threading.Event()) == 1
    assert asked == ["a"]
