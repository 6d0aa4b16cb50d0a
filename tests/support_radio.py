"""What a run over a bad link gave: its messages and its truth."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import orjson

from edge_simulator.scenario import Scenario, cadence
from edge_simulator.telemetry.outbox import Outgoing
from infra.contract import frame

START_MS = 1_760_000_000_000
N, FRAMES = 30, 40
BASE = Scenario(
    seed=11, vehicles=N, cadence=cadence(N, None, 1000), start_ms=START_MS, frames_per_vehicle=FRAMES
)


@dataclass
class Story:
    """All that a run gave."""

    counts: Counter[str]
    vehicle_ids: list[str]
    sent: list[Outgoing]
    live: int
    truth: list[dict[str, Any]]
    sequences: list[tuple[int, list[dict[str, Any]]]]
    """After so many messages: what each device says of its sequence numbers; midway, then at the end."""

    @property
    def telemetry(self) -> list[Outgoing]:
        return [m for m in self.sent if m.channel == "telemetry" and m.flag != "poison"]

    def bodies(self, flag: str) -> list[tuple[Outgoing, dict[str, Any]]]:
        return [(m, frame.decode(m.payload)) for m in self.telemetry if m.flag == flag]


def identity(message: Outgoing) -> tuple[str, int, int]:
    body = orjson.loads(message.payload)
    return body["vehicle_id"], body["boot_id"], body["seq"]
