"""A lane: MQTT sessions, one producer, one thread that serves all of them and waits for none.

Each turn takes the messages that came, checks whether the batch that is out is finished, sends the next one,
and acknowledges the completed heads. All state belongs to this thread: there are no locks. Another thread may
only say which slots are wanted.
"""

import select
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from operator import itemgetter
from typing import Final

import structlog

from bridge.uplink.in_flight import STUCK_S, AckFifo, InFlightBatch, Outstanding, Ticket, identity_of
from bridge.uplink.kafka_sink import CLOCK_ERROR, KafkaSink, is_about_the_record
from bridge.uplink.metrics import LaneStats
from bridge.uplink.mqtt_source import MqttSource
from bridge.uplink.translate import Letters, Record, Rejection, Translator, received_at
from bridge.uplink.wire import Publish

TURN_MESSAGES: Final = 500  # messages taken in one turn, so that reports and acknowledgements never wait long

IDLE_WAIT_S: Final = 0.1
BUSY_WAIT_MAX_S: Final = 0.02
DRAIN_POLL_S: Final = 0.005
RETRY_S: Final = 1.0
COUNT_S: Final = 1.0
"""Messages that are counted only wait so long for their acknowledgement: until their number is stored, or
until they are a quarter of their session's window."""
LEAVE_S: Final = 5.0
"""So long a slot that is another bridge's now may take to finish; then its next owner gets the rest again."""
TEND_S: Final = 0.2  # sessions with nothing to read are looked after so often: pings, new connections
FEW: Final = 100  # after a turn of fewer messages the next one waits for more

WHOLE: Final[frozenset[int | None]] = frozenset({None})  # of a bridge alone: its session is of all slots

_kafka_topic = itemgetter(0)


class Inlet:
    """One session of a slot at one broker: the connection, the order of acknowledgement, and its reports.

    The counts of messages that are not kept are the session's: with a connection they begin anew.
    """

    def __init__(self, slot: int | None, source: MqttSource, letters: Letters, fifo: AckFifo) -> None:
        self.slot, self.source, self.letters, self.fifo = slot, source, letters, fifo
        self.leave_by_s = inf
        self.reopened = False  # whether waiting tickets may be of an earlier connection
        self.held: list[Ticket] = []

    @property
    def leaves(self) -> bool:
        """Whether another bridge is to have the slot: nothing new is read."""
        return self.leave_by_s < inf

    @property
    def busy(self) -> bool:
        """Whether something of it is not stored, or its acknowledgement is not on its way."""
        return self.fifo.in_flight > 0 or bool(self.held) or self.source.acks_waiting

    @property
    def due(self) -> bool:
        """Whether a quarter of the window waits for the number of the messages that are not kept."""
        waiting = sum(len(ticket.packet_ids) for ticket in self.held)
        return self.source.connected and waiting > self.source.window // 4

    @property
    def counts(self) -> Counter[str]:
        """What became of its connections, by the names of ``metrics.BY_LANE``."""
        return self.source.counts + Counter(stale_acks=self.fifo.stale)

    def hold(self, ticket: Ticket) -> None:
        """Some of the ticket's messages were counted only: it waits until their number is stored."""
        ticket.held = True
        self.held.append(ticket)

    def report(self, now_s: float, now_ms: int, at_once: bool) -> list[Ticket]:
        """Sessions that went, and how many messages were not kept, as tickets: the ledger needs both.

        Counts are told when they are ``due``, after COUNT_S, or ``at_once``.
        """
        losses, self.source.losses = self.source.losses, []
        told = [self.fifo.add([], 0, [self.letters.lost(loss) for loss in losses], now_s)] if losses else []
        if self.held and self.held[0].epoch != self.fifo.epoch:
            if not self.source.connected:
                return told  # whether the broker still has the session
            if self.source.session_epoch < self.fifo.epoch:
                self.letters.forget()
                self.held = []
        if self.held and (self.due or at_once or now_s - self.held[0].received_s > COUNT_S):
            ticket = self.fifo.add([], 0, self.letters.counts(now_ms), now_s)
            ticket.frees, self.held = self.held, []
            told.append(ticket)
        return told


@dataclass(eq=False)
class BaseLane:
    """What both kinds of lane share; ``figures``, ``listens``, ``wanted`` and the translator's routes: any
    thread's.

    ``opened``: the sources of a slot, one for each broker. ``wanted`` are the slots to serve, ``WHOLE``: all
    by one session. ``max_in_flight``: messages read and not stored yet; ``dead_letters_per_minute``: rejected
    messages that a session keeps, 0: all; ``gather_s``: how long the first of a few waits for those after it
    where there are several sessions.
    """

    name: str
    opened: Callable[[int | None], Sequence[MqttSource]]
    wanted: frozenset[int | None]
    sink: KafkaSink
    translator: Translator
    max_in_flight: int
    max_in_flight_bytes: int
    busy_wait_s: float
    dead_letters_per_minute: int
    gather_s: float

    def __post_init__(self) -> None:
        self.stats = LaneStats()
        self.inlets: tuple[Inlet, ...] = ()
        self.moves = 0
        self._outstanding = Outstanding()
        self._gone: Counter[str] = Counter()
        self._tend_s, self._turns = 0.0, 0
        self._few = True
        self._log = structlog.get_logger().bind(lane=self.name)
        self._move(0.0)

    def run(self, over: Callable[[], bool], drain_s: float) -> int:
        """Serve until it is ``over``, then finish for ``drain_s``; how many are left."""
        raise NotImplementedError

    def figures(self) -> Counter[str]:
        """How the lane stands, by the names of ``metrics.BY_LANE``; what is not named is 0."""
        stats, inlets = self.stats, self.inlets
        found = sum((inlet.counts for inlet in inlets), self._gone.copy())
        found.update(
            produced=stats.produced, acked=stats.acked, routes_forgotten=self.translator.forgotten,
            producer_recoveries=stats.recoveries, stuck_heads=stats.stuck,
            in_flight_messages=self._outstanding.messages, in_flight_bytes=self._outstanding.size,
            mqtt_connected=sum(inlet.source.connected for inlet in inlets),
            slots=len({inlet.slot for inlet in inlets}),
        )  # fmt: skip
        return found

    def reason(self) -> str | None:
        """Why nothing of some slot can arrive, or None: one of its brokers is enough."""
        reasons: dict[int | None, str | None] = {}
        for inlet in self.inlets:
            if reasons.get(inlet.slot, "") is not None:
                reasons[inlet.slot] = inlet.source.reason()
        return next((reason for reason in reasons.values() if reason is not None), None)

    def listens(self) -> int | None:
        """None while what vehicles send does not arrive, or is dropped; else a number, which is another one
        after each break: a connection that is new, a slot that came or went.
        """
        hears = self.reason() is None and self._room() > 0
        return self.moves + sum(inlet.source.epoch for inlet in self.inlets) if hears else None

    def _room(self) -> int:
        """Messages that may be read without loss."""
        raise NotImplementedError

    def _limit(self) -> int:
        """Messages that may be read in a turn."""
        return self._room()

    def _poll(self, wait_s: float) -> list[tuple[Inlet, list[Publish]]]:
        """What came, by session; at most a turn's messages, after waiting ``wait_s`` for the first."""
        if self.wanted is not WHOLE:
            self._move(time.monotonic())
        if len(self.inlets) == 1:
            inlet = self.inlets[0]
            return [(inlet, inlet.source.poll(0 if inlet.leaves else self._limit(), wait_s))]
        limit, found = self._limit(), []
        most = limit
        for inlet in self._ready(wait_s, limit > 0):
            found.append((inlet, inlet.source.poll(0 if inlet.leaves else limit, 0.0)))
            limit -= len(found[-1][1])
        self._few = most - limit < FEW
        return found

    def _ready(self, wait_s: float, reads: bool) -> list[Inlet]:
        """The sessions that have something to read or to do; now and then all."""
        by_line = {line: inlet for inlet in self.inlets if (line := inlet.source.line)} if reads else {}
        work = [inlet for inlet in self.inlets if inlet.source.has_work or inlet.due] if reads else []
        wait_s = 0.0 if work else wait_s
        if self.gather_s and self._few and wait_s:
            if select.select(list(by_line), [], [], wait_s)[0]:
                time.sleep(self.gather_s)
            wait_s = 0.0
        lines = select.select(list(by_line), [], [], wait_s)[0]
        now_s = time.monotonic()
        if now_s >= self._tend_s:
            self._tend_s = now_s + TEND_S
            ready = list(self.inlets)
        else:
            ready = list(dict.fromkeys([*work, *(by_line[line] for line in lines)]))
        self._turns += 1
        at = self._turns % max(1, len(ready))  # none is always the first
        return ready[at:] + ready[:at]

    def _move(self, now_s: float) -> None:
        """Open the sessions of slots that are wanted now; leave the others when what was read is stored."""
        wanted, stay = self.wanted, []
        for inlet in self.inlets:
            inlet.leave_by_s = inf if inlet.slot in wanted else min(inlet.leave_by_s, now_s + LEAVE_S)
            if inlet.leaves and (not inlet.busy or now_s >= inlet.leave_by_s):
                inlet.source.close()
                self._gone += inlet.counts
            else:
                stay.append(inlet)
        for slot in wanted - {inlet.slot for inlet in stay}:
            for source in self.opened(slot):
                letters = Letters(self.translator.dead_letter_topic, self.dead_letters_per_minute)
                stay.append(Inlet(slot, source, letters, AckFifo(self._outstanding)))
        if tuple(stay) != self.inlets:
            self.moves += 1
            self.inlets = tuple(stay)

    def _give(self, records: list[Record], count: int) -> int:
        """The first ``count`` records to the producer; how many it took. Refused ones become dead letters."""
        given = 0
        while given < count:
            taken, refusal = self.sink.produce(records[given:count])
            given += taken
            if not refusal:
                break
            records[given] = self._send_to_dlq(records[given], refusal)
        return given

    def _send_to_dlq(self, record: Record, error: str) -> Record:
        self.stats.rejected["unstorable"] += 1
        self._log.warning("kafka refused a record", topic=record.topic, bytes=len(record.value), error=error)
        return self.translator.unstorable(record, error)


class Lane(BaseLane):
    """Moves messages from sessions to ``sink``; acknowledges them when, and only when, they are stored."""

    _resume_s = 0.0
    _wait_s, _draining = IDLE_WAIT_S, False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._batch = InFlightBatch()

    def run(self, over: Callable[[], bool], drain_s: float) -> int:
        """Serve until it is ``over``, then finish for ``drain_s``; how many are left for the next bridge."""
        while not over():
            self.turn()
        self._draining = True
        deadline_s = time.monotonic() + drain_s
        while self._outstanding.messages or any(inlet.busy for inlet in self.inlets):
            if time.monotonic() >= deadline_s:
                break
            self.turn()
        for inlet in self.inlets:
            inlet.source.close()
        self.sink.close()
        return sum(inlet.fifo.in_flight for inlet in self.inlets)

    def turn(self) -> None:
        """One turn of the loop; waits for messages only, and briefly while a batch is out."""
        progress = False
        for inlet, found in self._poll(self._wait_s):
            progress |= bool(found)
            self._hear(inlet, found)
        now_s = time.monotonic()
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
        for inlet in self.inlets:
            packet_ids = inlet.fifo.take()
            if packet_ids:
                inlet.source.ack(packet_ids)
                self.stats.acked += len(packet_ids)
        self._pace(progress or reports > 0)

    def _room(self) -> int:
        """Messages that may be read now; 0 holds them back in the broker."""
        if self._draining or self._outstanding.size >= self.max_in_flight_bytes:
            return 0
        return max(0, min(TURN_MESSAGES, self.max_in_flight - self._outstanding.messages))

    def _hear(self, inlet: Inlet, found: list[Publish]) -> None:
        """What came over a session in one turn: translated, and under one ticket to the next batch."""
        now_s, fifo = time.monotonic(), inlet.fifo
        if inlet.source.epoch != fifo.epoch:
            fifo.open(inlet.source.epoch)
            inlet.reopened = True
        if inlet.held or inlet.source.losses:
            told = inlet.report(now_s, time.time_ns() // 1_000_000, self._draining)
            self._batch.waiting.extend(told)
        if found:
            counted = inlet.letters.counted
            received_ms = time.time_ns() // 1_000_000
            records, size = translated(found, self.translator, inlet.letters, self.stats, received_ms)
            ticket = fifo.add([publish[1] for publish in found], size, records, now_s)
            if records:
                self._batch.waiting.append(ticket)
            if inlet.letters.counted > counted:
                inlet.hold(ticket)

    def _send(self, now_s: float) -> None:
        """The next batch, without what brokers send again after a reconnect."""
        if now_s < self._resume_s:
            return
        for inlet in self.inlets:
            if inlet.reopened and inlet.source.connected:
                inlet.reopened = False
                for ticket in self._batch.drop_stale(inlet.fifo, inlet.source.session_epoch):
                    inlet.fifo.complete(ticket)
        self._batch.send(self._give, now_s)

    def _settle(self, stored: list[Ticket], now_s: float) -> None:
        for ticket in stored:
            self.stats.latency.observe(now_s - ticket.received_s, ticket.count)
            ticket.fifo.complete(ticket)
            for held in ticket.frees:
                held.held = False
        self.stats.produced = self._batch.stored

    def _recover(self, now_s: float) -> None:
        """Begin anew with another producer: all that was not stored goes back, in receive order.

        Records of a batch refused for its content are tried one by one; the guilty one is dead-lettered. Of
        one refused for its time, by our clock, all that waits counts as received now, whatever that says.
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
        errors = sorted({str(error.name()) for error in failed.values()})
        is_clock = CLOCK_ERROR in errors
        if is_clock:
            received_ms = time.time_ns() // 1_000_000
            for ticket in batch.waiting:
                ticket.records = [received_at(record, received_ms) for record in ticket.records]
        self._resume_s = now_s if (suspects or alone) and not is_clock else now_s + RETRY_S
        self.stats.recoveries += 1
        self._log.warning("producer replaced", records=len(failed), suspects=len(suspects), errors=errors)
        sink.begin()

    def _pace(self, progress: bool) -> None:
        """Wait little while reports are due, longer the longer none comes."""
        if not self._outstanding.messages:
            self._wait_s = IDLE_WAIT_S
        elif progress:
            self._wait_s = self.busy_wait_s
        else:
            self._wait_s = min(BUSY_WAIT_MAX_S, self._wait_s * 1.5)


class AtMostOnceLane(BaseLane):
    """Moves messages and forgets them; ``stats.lost`` counts what it cannot hand over at once."""

    _count_s = 0.0
    _given = 0

    def run(self, over: Callable[[], bool], drain_s: float) -> int:
        """Serve until it is ``over``, then wait ``drain_s`` for what is on its way; how much is left."""
        while not over():
            self.turn()
        now_ms = time.time_ns() // 1_000_000
        self._hand_over([record for inlet in self.inlets for record in inlet.letters.counts(now_ms)])
        for inlet in self.inlets:
            inlet.source.close()
        deadline_s = time.monotonic() + drain_s
        while self.sink.queued and time.monotonic() < deadline_s:
            time.sleep(DRAIN_POLL_S)
            self._settle()
        left = self.sink.queued
        self.sink.close()
        self._settle()
        return left

    def turn(self) -> None:
        came = self._poll(BUSY_WAIT_MAX_S if self.sink.queued else IDLE_WAIT_S)
        now_s, now_ms = time.monotonic(), time.time_ns() // 1_000_000
        due = now_s - self._count_s > COUNT_S
        records: list[Record] = []
        for inlet, found in came:
            records += translated(found, self.translator, inlet.letters, self.stats, now_ms)[0]
            if due and inlet.letters.counted:
                self._count_s = now_s
                records += inlet.letters.counts(now_ms)
        self._hand_over(records)

    def _hand_over(self, records: list[Record]) -> None:
        """To the producer, as many as it has room for."""
        if records:
            given = self._give(records, min(self._room(), len(records)))
            self._given += given
            self.stats.lost["window_full"] += len(records) - given
        self._settle()

    def _room(self) -> int:
        return max(0, self.max_in_flight - self.sink.queued)

    def _limit(self) -> int:
        return TURN_MESSAGES

    def _settle(self) -> None:
        """Count what the producer has given up."""
        self.sink.poll()
        self.sink.failed.clear()  # nobody tries again
        self.stats.lost["not_stored"] = self.sink.given_up
        self._outstanding.messages = self.sink.queued
        self.stats.produced = self._given - self.sink.queued - self.sink.given_up


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
