"""A lane that carries each message at most once: what it cannot hand over at once is dropped and counted."""

from __future__ import annotations

import threading
import time
from typing import Final

import structlog

from bridge.kafka_sink import KafkaSink, RefusedError
from bridge.lane import BUSY_WAIT_MAX_S, COUNT_S, IDLE_WAIT_S, TURN_MESSAGES, LaneLimits, translated
from bridge.letters import Letters
from bridge.metrics import LaneGauges, LaneStats
from bridge.mqtt_source import MqttSource
from bridge.translate import Record, Route, Translator

DRAIN_POLL_S: Final = 0.005


class FleetingLane:
    """Moves messages from ``source`` to ``sink`` and forgets them.

    ``stats.lost`` counts what was read and is not in Kafka: ``window_full`` where as much as may be was on
    its way already, ``not_stored`` where Kafka did not take it in time.
    """

    def __init__(
        self, name: str, source: MqttSource, sink: KafkaSink, translator: Translator, limits: LaneLimits
    ) -> None:
        self.name = name
        self.source = source
        self.stats = LaneStats()
        self._sink = sink
        self._translator = translator
        self._limits = limits
        self._letters = Letters(translator.dead_letter_topic, limits.dead_letters_per_minute)
        self._count_s = 0.0
        self._given = 0
        self._log = structlog.get_logger().bind(lane=name)

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
        """How the lane stands; the producer does not tell bytes."""
        return LaneGauges(
            in_flight=self._sink.queued,
            in_flight_bytes=0,
            stale_acks=0,
            reconnects=max(0, self.source.epoch - 1),
            sessions_lost=0,
            taken_over=self.source.taken_over,
            forgotten=self._translator.forgotten,
            connected=self.source.connected,
        )

    @property
    def epoch(self) -> int:
        """Number of the MQTT connection."""
        return self.source.epoch

    def heard(self) -> list[Route]:
        """The topics that sent something, and when last; for other threads."""
        return self._translator.routes()

    def listens(self) -> bool:
        """Whether what vehicles send arrives now and is not dropped; for other threads."""
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
            given = self._give(records[:room])
            self._given += given
            self.stats.lost["window_full"] += len(records) - given
        self._settle()

    def _give(self, records: list[Record]) -> int:
        """The records to the producer; how many it took. One that Kafka can never take is dead-lettered."""
        given = 0
        while given < len(records):
            try:
                return given + self._sink.produce(records[given:])
            except RefusedError as error:
                given += error.taken
                self.stats.rejected["unstorable"] += 1
                records[given] = self._translator.unstorable(records[given], str(error))
        return given

    def _settle(self) -> None:
        """Count what the producer has given up."""
        self._sink.poll()
        self.stats.lost["not_stored"] += self._sink.take_failures()
        self.stats.produced = self._given - self._sink.queued - self.stats.lost["not_stored"]
