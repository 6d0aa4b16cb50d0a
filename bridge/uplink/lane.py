"""A lane: one MQTT connection, one producer, one thread that serves both and waits for neither.

Each turn takes the messages that came, checks whether the batch that is out is finished, sends the next one,
and acknowledges the completed head. All state belongs to this thread: there are no locks.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

import structlog

from bridge.uplink.in_flight import STUCK_S, AckFifo, InFlightBatch, Ticket, identity_of
from bridge.uplink.kafka_sink import KafkaSink, RefusedError, is_about_the_record
from bridge.uplink.metrics import LaneStats
from bridge.uplink.mqtt_source import MqttSource
from bridge.uplink.translate import Letters, Record, Rejection, Translator
from bridge.uplink.wire import Publish

TURN_MESSAGES: Final = 500  # messages taken in one turn, so that reports and acknowledgements never wait long

IDLE_WAIT_S: Final = 0.1
BUSY_WAIT_MAX_S: Final = 0.02
DRAIN_POLL_S: Final = 0.005
RETRY_S: Final = 1.0
COUNT_S: Final = 1.0
"""Messages that are counted only wait so long for their acknowledgement: until their number is stored, or
until they are a quarter of the window."""

_kafka_topic = itemgetter(0)


@dataclass(eq=False)
class BaseLane:
    """What both kinds of lane share; ``figures``, ``listens`` and the translator's routes: any thread's.

    ``max_in_flight``: messages read and not stored yet; ``dead_letters_per_minute``: rejected messages that
    are kept, 0: all.
    """

    name: str
    source: MqttSource
    sink: KafkaSink
    translator: Translator
    max_in_flight: int
    max_in_flight_bytes: int
    busy_wait_s: float
    dead_letters_per_minute: int

    def __post_init__(self) -> None:
        self.stats = LaneStats()
        self._letters = Letters(self.translator.dead_letter_topic, self.dead_letters_per_minute)
        self._log = structlog.get_logger().bind(lane=self.name)

    def run(self, stop: threading.Event, drain_s: float) -> int:
        """Serve until ``stop``, then finish for ``drain_s``; how many are left."""
        raise NotImplementedError

    def figures(self) -> dict[str, float]:
        """How the lane stands, by the metric's name."""
        source, stats = self.source, self.stats
        return {
            "produced": stats.produced, "acked": stats.acked, "stale_acks": 0,
            "reconnects": max(0, source.epoch - 1), "sessions_lost": source.sessions_lost,
            "taken_over": source.taken_over, "routes_forgotten": self.translator.forgotten,
            "producer_recoveries": stats.recoveries, "stuck_heads": stats.stuck,
            "in_flight_messages": self.sink.queued, "in_flight_bytes": 0, "mqtt_connected": source.connected,
        }  # fmt: skip

    def listens(self) -> bool:
        """Whether what vehicles send arrives now and is not dropped."""
        return self.source.reason() is None and self._room() > 0

    def _room(self) -> int:
        raise NotImplementedError

    def _give(self, records: list[Record], count: int) -> int:
        """The first ``count`` records to the producer; how many it took. Refused ones become dead letters."""
        given = 0
        while given < count:
            try:
                return given + self.sink.produce(records[given:count])
            except RefusedError as error:
                given += error.taken
                records[given] = self._send_to_dlq(records[given], str(error))
        return given

    def _send_to_dlq(self, record: Record, error: str) -> Record:
        self.stats.rejected["unstorable"] += 1
        self._log.warning("kafka refused a record", topic=record.topic, bytes=len(record.value), error=error)
        return self.translator.unstorable(record, error)


class Lane(BaseLane):
    """Moves messages from ``source`` to ``sink``; acknowledges them when, and only when, they are stored."""

    _held_s, _held_messages, _resume_s = 0.0, 0, 0.0
    _wait_s, _draining = IDLE_WAIT_S, False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.fifo = AckFifo()
        self._batch = InFlightBatch()
        self._held: list[Ticket] = []

    def run(self, stop: threading.Event, drain_s: float) -> int:
        """Serve until ``stop``, then finish for ``drain_s``; how many are left for the next bridge."""
        while not stop.is_set():
            self.turn()
        self._draining = True
        deadline_s = time.monotonic() + drain_s
        while self.fifo.outstanding or self._held or self.source.acks_waiting:
            if time.monotonic() >= deadline_s:
                break
            self.turn()
        self.source.close()
        self.sink.close()
        return self.fifo.in_flight

    def figures(self) -> dict[str, float]:
        """How the lane stands; in flight is what was read and is not stored."""
        return super().figures() | {
            "stale_acks": self.fifo.stale, "in_flight_messages": self.fifo.outstanding,
            "in_flight_bytes": self.fifo.outstanding_bytes,
        }  # fmt: skip

    def turn(self) -> None:
        """One turn of the loop; waits for messages only, and briefly while a batch is out."""
        found = self.source.poll(self._room(), self._wait_s)
        now_s = time.monotonic()
        if self.source.epoch != self.fifo.epoch:
            self.fifo.open(self.source.epoch)
        if self._held or self.source.losses:
            self._report(now_s, time.time_ns() // 1_000_000)
        if found:
            self._receive(found, time.time_ns() // 1_000_000, now_s)
        reports = self.sink.poll()
        left = self.sink.queued
        if self.sink.failed or self.sink.broken:
            self._recover(now_s)
        elif self._batch.out and not left:
            self._settle(self._batch.finish(), now_s)
        elif self._batch.overdue(left, now_s):
            self.stats.stuck += 1
            self._log.error("records without a report", records=left, waited_s=STUCK_S)
            self._recover(now_s)
        if self._batch.waiting and not self._batch.out:
            self._send(now_s)
        packet_ids = self.fifo.take()
        if packet_ids:
            self.source.ack(packet_ids)
            self.stats.acked += len(packet_ids)
        self._pace(bool(found) or reports > 0)

    def _room(self) -> int:
        """Messages that may be read now; 0 holds them back in the broker."""
        if self._draining or self.fifo.outstanding_bytes >= self.max_in_flight_bytes:
            return 0
        return max(0, min(TURN_MESSAGES, self.max_in_flight - self.fifo.outstanding))

    def _receive(self, found: list[Publish], received_ms: int, now_s: float) -> None:
        """What came in one turn: translated, and under one ticket to the next batch."""
        counted = self._letters.counted
        records, size = translated(found, self.translator, self._letters, self.stats, received_ms)
        ticket = self._submit([publish[1] for publish in found], size, records, now_s)
        if self._letters.counted > counted:
            ticket.held = True
            if not self._held:
                self._held_s, self._held_messages = now_s, 0
            self._held.append(ticket)
            self._held_messages += len(found)

    def _submit(self, packet_ids: list[int], size: int, records: list[Record], now_s: float) -> Ticket:
        ticket = self.fifo.add(packet_ids, size, records, now_s)
        if records:
            self._batch.waiting.append(ticket)
        return ticket

    def _report(self, now_s: float, now_ms: int) -> None:
        """Sessions that went, and how many messages were not kept, become records: the ledger needs both."""
        losses, self.source.losses = self.source.losses, []
        if losses:
            self._submit([], 0, [self._letters.lost(loss) for loss in losses], now_s)
        if self._held and self._held[0].epoch != self.fifo.epoch:
            if not self.source.connected:
                return  # whether the broker still has the session
            if self.source.session_epoch < self.fifo.epoch:
                self._letters.forget()
                self._held = []
        due = now_s - self._held_s > COUNT_S or 8 * self._held_messages > self.max_in_flight
        if self._held and (due or self._draining):
            ticket = self._submit([], 0, self._letters.counts(now_ms), now_s)
            ticket.frees, self._held = self._held, []

    def _send(self, now_s: float) -> None:
        """The next batch, without what the broker sends again after a reconnect."""
        unknown = self._batch.waiting[0].epoch != self.fifo.epoch and not self.source.connected
        if now_s < self._resume_s or unknown:  # whether the broker still has the session
            return
        for ticket in self._batch.drop_before(self.fifo.epoch, self.source.session_epoch):
            self.fifo.complete(ticket)
        self._batch.send(self._give, now_s)

    def _settle(self, stored: list[Ticket], now_s: float) -> None:
        for ticket in stored:
            self.stats.latency.observe(now_s - ticket.received_s, ticket.count)
            self.fifo.complete(ticket)
            for held in ticket.frees:
                held.held = False
        self.stats.produced = self._batch.stored

    def _recover(self, now_s: float) -> None:
        """Begin anew with another producer: all that was not stored goes back, in receive order.

        Records of a batch refused for its content are tried one by one; the guilty one is dead-lettered.
        """
        batch, sink = self._batch, self.sink
        sink.close()
        failed, alone = sink.failed, batch.solo
        suspects = {name: error for name, error in failed.items() if is_about_the_record(error)}
        self._settle(batch.finish(None if sink.queued else failed), now_s)
        if alone and suspects:
            records = batch.waiting[0].records
            guilty = identity_of(records[0])
            batch.suspects.discard(guilty)
            records[0] = self._send_to_dlq(records[0], str(suspects.pop(guilty).name()))
        batch.suspects.update(suspects)
        self._resume_s = now_s if suspects or alone else now_s + RETRY_S
        self.stats.recoveries += 1
        errors = sorted({str(error.name()) for error in failed.values()})
        self._log.warning("producer replaced", records=len(failed), suspects=len(suspects), errors=errors)
        sink.replace()

    def _pace(self, progress: bool) -> None:
        """Wait little while reports are due, longer the longer none comes."""
        if not self.fifo.outstanding:
            self._wait_s = IDLE_WAIT_S
        elif progress:
            self._wait_s = self.busy_wait_s
        else:
            self._wait_s = min(BUSY_WAIT_MAX_S, self._wait_s * 1.5)


class AtMostOnceLane(BaseLane):
    """Moves messages and forgets them; ``stats.lost`` counts what it cannot hand over at once."""

    _count_s = 0.0
    _given = 0

    def run(self, stop: threading.Event, drain_s: float) -> int:
        """Serve until ``stop``, then wait ``drain_s`` at most for what is on its way; how much is left."""
        while not stop.is_set():
            self.turn()
        self.source.close()
        deadline_s = time.monotonic() + drain_s
        while self.sink.queued and time.monotonic() < deadline_s:
            time.sleep(DRAIN_POLL_S)
            self._settle()
        left = self.sink.queued
        self.sink.close()
        self._settle()
        return left

    def turn(self) -> None:
        """One turn of the loop; waits for messages only."""
        found = self.source.poll(TURN_MESSAGES, BUSY_WAIT_MAX_S if self.sink.queued else IDLE_WAIT_S)
        now_s, now_ms = time.monotonic(), time.time_ns() // 1_000_000
        records: list[Record] = []
        if found:
            records, _ = translated(found, self.translator, self._letters, self.stats, now_ms)
        if self._letters.counted and now_s - self._count_s > COUNT_S:
            self._count_s = now_s
            records += self._letters.counts(now_ms)
        if records:
            given = self._give(records, min(self._room(), len(records)))
            self._given += given
            self.stats.lost["window_full"] += len(records) - given
        self._settle()

    def _room(self) -> int:
        return max(0, self.max_in_flight - self.sink.queued)

    def _settle(self) -> None:
        """Count what the producer has given up."""
        self.sink.poll()
        self.stats.lost["not_stored"] += self.sink.take_failures()
        self.stats.produced = self._given - self.sink.queued - self.stats.lost["not_stored"]


def translated(
    found: list[Publish], translator: Translator, letters: Letters, stats: LaneStats, received_ms: int
) -> tuple[list[Record], int]:
    """The records to store for what came in one turn, and the bytes of their messages; all is counted."""
    skipped = 0
    translate = translator.translate
    records: list[Record] = []
    size = 0
    for topic, _, raw in found:
        outcome = translate(topic, raw, received_ms)
        if outcome is None:
            skipped += 1
            continue
        if isinstance(outcome, Rejection):
            stats.rejected[outcome.reason] += 1
            if not letters.keep(outcome, len(raw), received_ms):
                stats.not_kept[outcome.reason] += 1
                continue
            outcome = translator.dead_letter(outcome, topic, raw, received_ms)
        records.append(outcome)
        size += len(raw)
    stats.skipped += skipped
    stats.received.update(Counter(map(_kafka_topic, records)))
    return records, size
