"""Our clock is hours ahead: Kafka refuses the time of records, and takes them once the clock is right."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from bridge.uplink import lane as module
from bridge.uplink.in_flight import identity_of
from bridge.uplink.lane import WHOLE, Lane
from bridge.uplink.translate import Record, Translator

NOW_MS = 1_790_000_000_000
AHEAD_MS = NOW_MS + 7_200_000


class Sink:
    """A producer whose reports are set by the test."""

    def __init__(self) -> None:
        self.given: list[Record] = []
        self.failed: dict[int, KafkaError] = {}
        self.queued, self.broken = 0, False
        self.begun = 0

    def produce(self, records: list[Record]) -> tuple[int, str]:
        self.given += records
        return len(records), ""

    def poll(self) -> int:
        return 0

    def close(self) -> None:
        """Nothing is queued."""

    def begin(self) -> None:
        self.failed = {}
        self.begun += 1


def test_what_waits_counts_as_received_when_the_clock_is_right_again(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(s=100.0, ms=AHEAD_MS)
    patched = SimpleNamespace(monotonic=lambda: clock.s, time_ns=lambda: clock.ms * 1_000_000)
    monkeypatch.setattr(module, "time", patched)
    found: list[Any] = [[(b"odograph/v1/1HGCM82633A004352/telemetry", 7, b"{")]]
    acked: list[int] = []
    source: Any = SimpleNamespace(
        epoch=1, session_epoch=1, losses=[], connected=True, acks_waiting=False, window=10,
        poll=lambda _limit, _wait_s: found.pop() if found else [], ack=acked.extend,
    )  # fmt: skip
    sink: Any = Sink()
    translator = Translator("odograph/v1", "test.")
    lane = Lane("telemetry", lambda _slot: [source], WHOLE, sink, translator, 10, 1 << 20, 0.0, 0, 0.0)
    lane.turn()
    (first,) = sink.given
    assert (first.topic, first.timestamp_ms) == ("test.dead-letter", AHEAD_MS)
    sink.failed = {identity_of(first): KafkaError(KafkaError.INVALID_TIMESTAMP)}
    clock.ms = NOW_MS
    lane.turn()
    assert (sink.begun, len(sink.given), acked) == (1, 1, []), "not at once: the clock may still be wrong"
    clock.s += module.RETRY_S
    lane.turn()
    again = sink.given[1]
    assert (again.topic, again.value, again.timestamp_ms) == (first.topic, first.value, NOW_MS)
    assert dict(again.headers) == dict(first.headers) | {"received_ms": b"%d" % NOW_MS}
    lane.turn()
    assert (acked, lane.stats.rejected["unstorable"]) == ([7], 0)
