"""What the commands ``odograph dead-letters`` do: list, find, send in again; and their access to Kafka."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import orjson
from confluent_kafka import KafkaError, KafkaException, Producer

from bridge.dead_letters.letters import (
    Letter,
    Marked,
    Outcome,
    Passed,
    Recheck,
    Report,
    Selection,
    Stays,
    judge_parts,
    judge_statuses,
)  # fmt: skip
from bridge.uplink.kafka_sink import SinkConfig, is_about_the_record
from bridge.uplink.translate import Record
from infra.clients import kafka
from infra.clients.kafka import LogReader
from infra.contract import topics
from infra.contract.errors import ServiceError
from infra.contract.verdict import clock_limits
from infra.settings.settings import Endpoints, Settings
from infra.sql import queries
from infra.sql.queries import Reinjected

CHUNK: Final = 500
"""Letters sent in at once: so many are in memory, and at most so many copies does a kill cause."""
READ_TIMEOUT_S: Final = 10.0
STORE_S: Final = 30.0
QUIET: Final[dict[str, Any]] = {"log_level": 0, "error_cb": lambda _: None}
"""The answer to what was asked says what is wrong."""
GROUP: Final = "odograph-dead-letters"


def _letter(message: Any) -> Letter:
    headers = {name: value or b"" for name, value in message.headers() or []}
    return Letter(message.offset(), message.timestamp()[1], message.key(), message.value() or b"", headers)


def newest_status_ms(bootstrap: str, topic: str) -> dict[str, int]:
    """Device time of the newest status message of each vehicle in the status topic."""
    newest: dict[str, int] = {}
    with LogReader(bootstrap, GROUP, READ_TIMEOUT_S) as log:
        for record in log.records(topic, 0, *log.bounds(topic, 0)):
            if not record.value or record.key is None:
                newest.pop(record.key or "", None)
                continue
            at_ms = orjson.loads(record.value).get("at_ms", 0)
            newest[record.key] = max(at_ms, newest.get(record.key, 0))
    return newest


def store(bootstrap: str, records: Sequence[Record]) -> dict[int, str]:
    """Append the records and wait; why Kafka refuses some, by index. Raises ServiceError."""
    config = SinkConfig(bootstrap, "odograph-dead-letters", 5.0, len(records) + 1, 1 << 30).producer()
    # Without the guarantee of the bridge: one refusal does not end the producer, and nothing waits for ever.
    config |= {"enable.gapless.guarantee": False, "message.timeout.ms": int(STORE_S * 1000)}
    producer = Producer(config | QUIET)
    refused = _append(producer, bootstrap, dict(enumerate(records)))
    return {n: why for n in sorted(refused) for why in _append(producer, bootstrap, {n: records[n]}).values()}


def _append(producer: Any, bootstrap: str, records: Mapping[int, Record]) -> dict[int, str]:
    """Produce and wait; those that Kafka refuses for what they are."""
    failed: dict[int, KafkaError] = {}

    def reported(number: int, error: KafkaError | None, _message: Any) -> None:
        if error is not None:
            failed[number] = error

    for number, record in records.items():
        try:
            producer.produce(
                record.topic, record.value, record.key, on_delivery=partial(reported, number),
                timestamp=record.timestamp_ms, headers=record.headers,
            )  # fmt: skip
        except KafkaException as error:
            failed[number] = error.args[0]
    unsent = producer.flush(STORE_S + 1)
    others = [error.str() for error in failed.values() if not is_about_the_record(error)]
    if unsent or others:
        why = others[0] if others else f"no answer for {unsent} records"
        raise ServiceError(f"Kafka {bootstrap}: {why}; nothing is lost: run it again")
    return {number: str(error.str()) for number, error in failed.items()}


@dataclass(slots=True)
class Listing:
    """The newest letters that a selection takes, and how many it takes in all, by reason."""

    newest: deque[Letter]
    by_reason: Counter[str] = field(default_factory=Counter)


class DeadLetters:
    """The letters of a stack."""

    def __init__(self, settings: Settings, endpoints: Endpoints) -> None:
        self._bootstrap = endpoints.kafka_bootstrap
        self._url = endpoints.db_ingest_url
        self._prefix = settings.kafka.prefix
        self._topic = topics.kafka_topic(self._prefix, "dead-letter")
        self._recheck = Recheck(settings.mqtt.root, self._prefix, clock_limits(settings))

    def list(self, selection: Selection, since_ms: int | None, limit: int) -> Listing:
        """The newest ``limit`` letters, oldest first, and the counts of all."""
        listing = Listing(deque(maxlen=limit))
        for letter in self.select(selection, since_ms):
            listing.newest.append(letter)
            listing.by_reason[letter.reason] += letter.messages
        return listing

    def select(self, selection: Selection, since_ms: int | None) -> Iterator[Letter]:
        """Letters that are in Kafka now and are meant, oldest first."""
        with self._log() as log:
            low, high = log.bounds(self._topic, 0)
            first = low if since_ms is None else log.since(self._topic, 0, since_ms)
            letters = map(_letter, log.messages(self._topic, 0, first, high))
            yield from filter(selection.takes, letters)

    def find(self, offsets: Sequence[int]) -> Iterator[Letter]:
        """The letters at these offsets; raises ServiceError, before the first, when one is not there."""
        with self._log() as log:
            low, high = log.bounds(self._topic, 0)
            away = [str(offset) for offset in offsets if not low <= offset < high]
            if away:
                holds = f"{low} to {high - 1}" if low < high else "none"
                raise ServiceError(f"no dead letter {', '.join(away)}: the log holds {holds}")
            for offset in sorted(set(offsets)):
                yield from map(_letter, log.messages(self._topic, 0, offset, offset + 1))

    def marked(self) -> Marked:
        """Letters that were sent in and are stored, as the database says."""
        return queries.stored(self._url)

    def reinject(self, letters: Iterator[Letter], dry_run: bool, again: bool) -> Report:
        """Send in what the contract lets through now; ``again``: also what was sent in before."""
        report, parts, statuses = Report(), [], []
        marked: Marked = set() if again else self.marked()
        ready: list[Passed] = []
        for letter in letters:
            if (letter.offset, letter.digest) in marked:
                report.before.append(letter.offset)
                continue
            judged = self._recheck.judge(letter, now_ms())
            if isinstance(judged, Stays):
                report.stays.append(judged)
            elif judged.is_crash_part:
                parts.append(judged)  # judged as a set, when all are known
            elif judged.channel == "status":
                statuses.append(judged)
            else:
                ready.append(judged)
            if len(ready) == CHUNK:
                self._send(ready, report, dry_run)
                ready = []
        self._send(ready, report, dry_run)
        newest: dict[str, int] = {}
        if statuses:
            newest = newest_status_ms(self._bootstrap, topics.kafka_topic(self._prefix, "status"))
        self._send_judged(judge_parts(parts), report, dry_run)
        self._send_judged(judge_statuses(statuses, newest), report, dry_run)
        return report

    def _send_judged(self, outcome: Outcome, report: Report, dry_run: bool) -> None:
        report.stays += outcome.stays
        for start in range(0, len(outcome.passed), CHUNK):
            self._send(outcome.passed[start : start + CHUNK], report, dry_run)

    def _send(self, ready: Sequence[Passed], report: Report, dry_run: bool) -> None:
        """Note, store, note: between the notes the ledger finds the frame in the archive or calls it dead."""
        refused: dict[int, str] = {}
        if ready and not dry_run:
            received_ms = now_ms()
            notes = [_note(passed) for passed in ready]
            queries.ask(self._url, notes)
            refused = store(self._bootstrap, [passed.received_at(received_ms) for passed in ready])
            queries.done(self._url, [note for n, note in enumerate(notes) if n not in refused])
        for number, passed in enumerate(ready):
            if number in refused:
                report.stays.append(Stays(passed.letter.offset, "unstorable", refused[number]))
            else:
                report.went[passed.letter.offset] = passed.channel

    def _log(self) -> LogReader:
        where = f"Kafka {self._bootstrap}: topic {self._topic}"
        with kafka.service_errors(where):
            partitions = kafka.partition_counts(kafka.admin(self._bootstrap), [self._topic])[self._topic]
        if partitions != 1:
            raise ServiceError(f"{where} has {partitions} partitions; an offset names a letter in one only")
        return LogReader(self._bootstrap, GROUP, READ_TIMEOUT_S)


def _note(passed: Passed) -> Reinjected:
    message = passed.message
    return Reinjected(
        0, passed.letter.offset, passed.letter.digest, topics.KAFKA_TOPIC_OF[passed.channel],
        message["vehicle_id"], message["boot_id"], message["seq"],
    )  # fmt: skip


def now_ms() -> int:
    """Now, ms since 1970."""
    return time.time_ns() // 1_000_000
