"""A lane that carries each message at most once: what it cannot hand over at once is dropped and counted."""

from __future__ import annotations

import threading
import time
from typing import Final

from bridge.uplink.lane import BUSY_WAIT_MAX_S, COUNT_S, IDLE_WAIT_S, TURN_MESSAGES, BaseLane, translated
from bridge.uplink.metrics import LaneGauges
from bridge.uplink.translate import Record

DRAIN_POLL_S: Final = 0.005


class AtMostOnceLane(BaseLane):
    """Moves messages from source to sink and forgets them; ``stats.lost`` counts what is lost."""

    _count_s = 0.0
    _given = 0

    def run(self, stop: threading.Event, drain_s: float) -> int:
        """Serve until ``stop``, then wait ``drain_s`` at most for what is on its way; how much is left."""
        while not stop.is_set():
            self.turn()
        self.source.close()
        deadline_s = time.monotonic() + drain_s
        while self._sink.queued and time.monotonic() < deadline_s:
            time.sleep(DRAIN_POLL_S)
            self._settle()
        left = self._sink.queued
        self._sink.close()
        self._settle()
        return left

    def gauges(self) -> LaneGauges:
        """How the lane stands; the producer does not count bytes."""
        source = self.source
        return LaneGauges(
            self._sink.queued, 0, 0, max(0, source.epoch - 1), 0, source.taken_over,
            self._translator.forgotten, source.connected,
        )  # fmt: skip

    def listens(self) -> bool:
        """Whether what vehicles send arrives now and is not dropped."""
        return self.source.reason() is None and self._sink.queued < self._limits.in_flight

    def turn(self) -> None:
        """One turn of the loop; waits for messages only."""
        found = self.source.poll(TURN_MESSAGES, BUSY_WAIT_MAX_S if self._sink.queued else IDLE_WAIT_S)
        now_s, now_ms = time.monotonic(), time.time_ns() // 1_000_000
        records: list[Record] = []
        if found:
            records, _ = translated(found, self._translator, self._letters, self.stats, now_ms)
        if self._letters.counted and now_s - self._count_s > COUNT_S:
            self._count_s = now_s
            records += self._letters.counts(now_ms)
        if records:
            room = max(0, self._limits.in_flight - self._sink.queued)
            given = self._give(records, min(room, len(records)))
            self._given += given
            self.stats.lost["window_full"] += len(records) - given
        self._settle()

    def _settle(self) -> None:
        """Count what the producer has given up."""
        self._sink.poll()
        self.stats.lost["not_stored"] += self._sink.take_failures()
        self.stats.produced = self._given - self._sink.queued - self.stats.lost["not_stored"]
