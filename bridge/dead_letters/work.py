"""What the commands ``odograph dead-letters`` do: list, find, send in again; and their access to Kafka."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, islice
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from bridge.dead_letters import letters as judging
from bridge.dead_letters.letters import Letter, Marked, Passed, Recheck, Report, Stays, Verdict
from bridge.uplink.kafka_sink import is_about_the_record
from bridge.uplink.translate import Record, received_at
from infra.clients import kafka
from infra.clients.kafka import LogReader
from infra.contract import topics
from infra.contract.errors import ContractError, ServiceError
from infra.contract.messages import STATUS_STATES, decode_status, is_part
from infra.contract.verdict import clock_limits
from infra.settings.settings import Endpoints, Settings
from infra.sql import queries
from infra.sql.queries import Reinjected

CHUNK: Final = 500  # letters sent in at once: so many are in memory, and a kill causes so many copies at most
READ_TIMEOUT_S: Final = 10.0
STORE_S: Final = 30.0
GROUP: Final = "odograph-dead-letters"


def store(bootstrap: str, records: Sequence[Record]) -> dict[int, str]:
    """Append the records and wait; why Kafka refuses some, by index. Raises ServiceError."""
    settings: dict[str, Any] = {  # the answer to what was asked says what is wrong
        "linger.ms": 5, "compression.type": "lz4", "delivery.report.only.error": True,
        "message.timeout.ms": int(STORE_S * 1000), "error_cb": lambda _: None,
    }  # fmt: skip
    producer = kafka.producer(bootstrap, settings)
    refused = _append(producer, bootstrap, dict(enumerate(records)))
    # One by one: a record is refused with all of its batch.
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


class DeadLetters:
    """The letters of a stack."""

    def __init__(self, settings: Settings, endpoints: Endpoints) -> None:
        self._bootstrap = endpoints.kafka_bootstrap
        self._url = endpoints.db_ingest_url
        self._prefix = settings.kafka.prefix
        self._topic = topics.kafka_topic(self._prefix, "dead-letter")
        self._recheck = Recheck(settings.mqtt.root, self._prefix, clock_limits(settings))

    def select(
        self, reason: str | None = None, vehicle_id: str | None = None, since_ms: int | None = None
    ) -> Iterator[Letter]:
        """Letters that are in Kafka now and are of this reason and vehicle (None: any), oldest first."""
        with self._log() as log:
            low, high = log.bounds(self._topic, 0)
            first = low if since_ms is None else log.since(self._topic, 0, since_ms)
            for letter in self._letters(log, first, high):
                if letter.matches(reason, vehicle_id):
                    yield letter

    def find(self, offsets: Sequence[int]) -> Iterator[Letter]:
        """The letters at these offsets; raises ServiceError, before the first, when one is not there."""
        with self._log() as log:
            low, high = log.bounds(self._topic, 0)
            away = [str(offset) for offset in offsets if not low <= offset < high]
            if away:
                holds = f"{low} to {high - 1}" if low < high else "none"
                raise ServiceError(f"no dead letter {', '.join(away)}: the log holds {holds}")
            for offset in sorted(set(offsets)):
                yield from self._letters(log, offset, offset + 1)

    def marked(self) -> Marked:
        return queries.stored(self._url)

    def reinject(self, letters: Iterator[Letter], dry_run: bool, again: bool) -> Report:
        """Send in what the contract lets through now; ``again``: also what was sent in before."""
        report = Report()
        verdicts = self._verdicts(letters, set() if again else self.marked(), report.before)
        while some := list(islice(verdicts, CHUNK)):
            report.stays += [one for one in some if isinstance(one, Stays)]
            self._send([one for one in some if isinstance(one, Passed)], report, dry_run)
        return report

    def _verdicts(self, letters: Iterator[Letter], marked: Marked, before: list[int]) -> Iterator[Verdict]:
        """On each letter but those that are ``marked``, whose offsets go to ``before``."""
        parts, statuses = list[Passed](), list[Passed]()
        for letter in letters:
            if (letter.offset, letter.digest) in marked:
                before.append(letter.offset)
                continue
            judged = self._recheck.judge(letter, time.time_ns() // 1_000_000)
            if isinstance(judged, Passed) and judged.channel == "crash" and is_part(judged.message):
                parts.append(judged)  # judged as a set, when all are known
            elif isinstance(judged, Passed) and judged.channel == "status":
                statuses.append(judged)
            else:
                yield judged
        yield from judging.judge_parts(parts)
        if statuses:
            yield from judging.judge_statuses(statuses, self._newest_status_ms())

    def _send(self, ready: Sequence[Passed], report: Report, dry_run: bool) -> None:
        """Note, store, note: between the notes the ledger finds the frame in the archive or calls it dead."""
        refused = dict[int, str]()
        if ready and not dry_run:
            received_ms, notes = time.time_ns() // 1_000_000, [*map(_note, ready)]
            queries.ask(self._url, notes)
            refused = store(self._bootstrap, [received_at(one.record, received_ms) for one in ready])
            queries.done(self._url, [note for n, note in enumerate(notes) if n not in refused])
        for number, one in enumerate(ready):
            if number in refused:
                report.stays.append(Stays(one.letter.offset, "unstorable", refused[number]))
            else:
                report.went[one.letter.offset] = one.channel

    def _newest_status_ms(self) -> dict[str, int]:
        newest: dict[str, int] = {}
        topic = topics.kafka_topic(self._prefix, "status")
        with LogReader(self._bootstrap, GROUP, READ_TIMEOUT_S) as log:
            spans = log.spans(topic).items()
            for record in chain.from_iterable(log.records(topic, p, *span) for p, span in spans):
                if not record.value or record.key is None:
                    newest.pop(record.key or "", None)
                    continue
                with suppress(ContractError):  # not the bridge's: nobody takes it for a status
                    at_ms = decode_status(record.value, STATUS_STATES)["at_ms"]
                    newest[record.key] = max(at_ms, newest.get(record.key, 0))
        return newest

    def _log(self) -> LogReader:
        where = f"Kafka {self._bootstrap}: topic {self._topic}"
        with kafka.service_errors(where):
            partitions = kafka.partition_counts(kafka.admin(self._bootstrap), [self._topic])[self._topic]
        if partitions != 1:
            raise ServiceError(f"{where} has {partitions} partitions; an offset names a letter in one only")
        return LogReader(self._bootstrap, GROUP, READ_TIMEOUT_S)

    def _letters(self, log: LogReader, begin: int, end: int) -> Iterator[Letter]:
        message: Any
        for message in log.messages(self._topic, 0, begin, end):
            headers = {name: value or b"" for name, value in kafka.headers_of(message)}
            value = message.value() or b""
            yield Letter(message.offset(), message.timestamp()[1], message.key(), value, headers)


def _note(passed: Passed) -> Reinjected:
    message, letter = passed.message, passed.letter
    identity = (message["vehicle_id"], message["boot_id"], message["seq"])
    return Reinjected(0, letter.offset, letter.digest, passed.channel, *identity)
