"""A lane: one MQTT connection, one producer, one thread that serves both and waits for neither.

Each turn of the loop takes the messages that came, hands them to the producer, runs the delivery reports that
are due and acknowledges the completed head. All state belongs to this thread: there are no locks.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import structlog

from bridge.fifo import AckFifo, Ticket
from bridge.kafka_sink import KafkaSink, RefusedError, is_about_the_record
from bridge.metrics import LaneGauges, LaneStats
from bridge.mqtt_source import MqttSource
from bridge.translate import Record, Rejection, Route, Translator
from bridge.wire import Publish

TURN_MESSAGES: Final = 500
"""Messages taken in one turn, so that reports and acknowledgements never wait long."""

IDLE_WAIT_S: Final = 0.1
BUSY_WAIT_MAX_S: Final = 0.02
STUCK_S: Final = 30.0
"""A head overtaken for so long has lost its report: a new connection makes the broker send it again."""

RETRY_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class LaneLimits:
    """``in_flight`` and ``in_flight_bytes``: messages read and not stored yet, at most."""

    in_flight: int
    in_flight_bytes: int
    busy_wait_s: float


class Lane:
    """Moves messages from ``source`` to ``sink``; acknowledges them when, and only when, they are stored."""

    def __init__(
        self, name: str, source: MqttSource, sink: KafkaSink, translator: Translator, limits: LaneLimits
    ) -> None:
        self.name = name
        self.source = source
        self.fifo = AckFifo()
        self.stats = LaneStats()
        self._sink = sink
        self._translator = translator
        self._limits = limits
        self._backlog: deque[Ticket] = deque()
        self._failed: list[tuple[Ticket, Any]] = []
        self._solo: Ticket | None = None
        self._resume_s = 0.0
        self._wait_s = IDLE_WAIT_S
        self._draining = False
        self._log = structlog.get_logger().bind(lane=name)

    def run(self, stop: threading.Event, drain_s: float) -> int:
        """Serve until ``stop``, then finish what was read, for ``drain_s`` at most.

        Returns how many were left undone; not acknowledged, they go to the next bridge.
        """
        while not stop.is_set():
            self.turn()
        self._draining = True
        deadline_s = time.monotonic() + drain_s
        while (self.fifo.outstanding or self.source.acks_waiting) and time.monotonic() < deadline_s:
            self.turn()
        self.source.close()
        self._sink.close()
        return self.fifo.in_flight

    def gauges(self) -> LaneGauges:
        """How the lane stands; read by other threads."""
        return LaneGauges(
            in_flight=self.fifo.outstanding,
            in_flight_bytes=self.fifo.outstanding_bytes,
            stale_acks=self.fifo.stale,
            reconnects=max(0, self.source.epoch - 1),
            sessions_lost=self.source.sessions_lost,
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
        """Whether what vehicles send arrives now; for other threads."""
        return self.source.reason() is None and self._room() > 0

    def turn(self) -> None:
        """One turn of the loop; waits for messages only, and briefly while reports are due."""
        found = self.source.poll(self._room(), self._wait_s)
        now_s = time.monotonic()
        if self.source.epoch != self.fifo.epoch:
            self.fifo.open(self.source.epoch)
        received_ms = time.time_ns() // 1_000_000
        for publish in found:
            self._receive(publish, received_ms, now_s)
        reports = self._sink.poll()
        if self._failed or self._sink.broken:
            self._recover(now_s)
        if self._backlog:
            self._forward(now_s)
        self._acknowledge(now_s)
        self._pace(bool(found) or reports > 0)

    def _room(self) -> int:
        """Messages that may be read now; 0 holds them back in the broker."""
        limits, fifo = self._limits, self.fifo
        full = fifo.outstanding_bytes >= limits.in_flight_bytes
        if self._draining or self._backlog or full:
            return 0
        return max(0, min(TURN_MESSAGES, limits.in_flight - fifo.outstanding))

    def _receive(self, publish: Publish, received_ms: int, now_s: float) -> None:
        topic, packet_id, raw = publish
        outcome = self._translator.translate(topic, raw, received_ms)
        if outcome is None:
            self.stats.skipped += 1
            self.fifo.skip(packet_id, now_s)
            return
        if isinstance(outcome, Rejection):
            self.stats.rejected[outcome.reason] += 1
            outcome = self._translator.dead_letter(outcome, topic, raw, received_ms)
        self.stats.received[outcome.topic] += 1
        self._submit(self.fifo.add(packet_id, len(raw), outcome, now_s))

    def _submit(self, ticket: Ticket) -> None:
        """To the producer, or behind those that wait for it."""
        if self._backlog or self._failed or not self._produce(ticket):
            self._backlog.append(ticket)

    def _produce(self, ticket: Ticket) -> bool:
        """False when the producer takes nothing now."""
        while True:
            try:
                return self._sink.produce(ticket.record, partial(self._reported, ticket))
            except RefusedError as error:
                ticket.record = self._bury(ticket.record, str(error))

    def _bury(self, record: Record, error: str) -> Record:
        self.stats.rejected["unstorable"] += 1
        self._log.warning("kafka refused a record", topic=record.topic, bytes=len(record.value), error=error)
        return self._translator.unstorable(record, error)

    def _reported(self, ticket: Ticket, error: Any, _message: Any) -> None:
        """The delivery report of one record."""
        if error is not None:
            self._failed.append((ticket, error))
            return
        self.stats.produced += 1
        self.stats.latency.observe(time.monotonic() - ticket.received_s)
        self.fifo.complete(ticket)

    def _recover(self, now_s: float) -> None:
        """Begin anew with another producer: all that was not stored goes back, in receive order.

        Where a batch was refused for its content, its records are suspects and are tried one by one: the
        guilty one goes to dead-letter, and nothing overtakes it meanwhile.
        """
        self._sink.replace()
        failed = sorted(self._failed, key=lambda pair: pair[0].number)
        self._failed = []
        for ticket, error in failed:
            if is_about_the_record(error):
                if ticket is self._solo:
                    ticket.record = self._bury(ticket.record, str(error.name()))
                ticket.suspect = True
        self._solo = None
        self._backlog.extendleft(ticket for ticket, _ in reversed(failed))
        suspects = sum(ticket.suspect for ticket, _ in failed)
        self._resume_s = now_s if suspects else now_s + RETRY_S
        self.stats.recoveries += 1
        errors = sorted({str(error.name()) for _, error in failed})
        self._log.warning("producer replaced", records=len(failed), suspects=suspects, errors=errors)

    def _forward(self, now_s: float) -> None:
        """What waits goes to the producer in order; a suspect goes alone."""
        while self._backlog and now_s >= self._resume_s and not self._failed:
            ticket = self._backlog[0]
            if ticket.epoch != self.fifo.epoch:
                self.fifo.complete(ticket)
                self._backlog.popleft()
                continue
            if self._solo is not None and not self._solo.done:
                return
            if (ticket.suspect and self._sink.queued) or not self._produce(ticket):
                return
            self._solo = ticket if ticket.suspect else None
            self._backlog.popleft()

    def _acknowledge(self, now_s: float) -> None:
        packet_ids = self.fifo.take(now_s)
        if packet_ids:
            self.source.ack(packet_ids)
            self.stats.acked += len(packet_ids)
        elif self.fifo.stuck_s(now_s) > STUCK_S:
            self.stats.stuck += 1
            self.source.drop(f"the oldest message has had no report for {STUCK_S:g} s")
            self.fifo.open(self.fifo.epoch)

    def _pace(self, progress: bool) -> None:
        """Wait little while reports are due, longer the longer none comes."""
        if not self.fifo.outstanding:
            self._wait_s = IDLE_WAIT_S
        elif progress:
            self._wait_s = self._limits.busy_wait_s
        else:
            self._wait_s = min(BUSY_WAIT_MAX_S, self._wait_s * 1.5)
