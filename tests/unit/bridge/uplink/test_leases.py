"""The leases of slots while Kafka is away."""

from __future__ import annotations

import pytest

from bridge.uplink import leases as module
from bridge.uplink.leases import SlotLeases
from infra.clients import kafka
from infra.clients.health import in_background
from infra.settings.settings import Endpoints, load
from tests.support import eventually


def test_without_an_answer_of_kafka_the_leases_say_so_and_are_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kafka, "TIMEOUT_S", 0.05)
    monkeypatch.setattr(module, "RETRY_S", 0.05)
    leases = SlotLeases(load(), Endpoints("127.0.0.1", 1, "127.0.0.1:1", "", "", ""), [])
    with in_background("leases", leases.run):
        eventually(lambda: "bridge-slots cannot be created" in (leases.trouble or ""), 30, "why not")
        leases.trouble = None
        eventually(lambda: leases.trouble, 30, "another attempt")
