"""What the commands ``odograph dead-letters`` do: list, find one, send in again."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from bridge.dead_letters.kafka_log import KafkaLog, newest_status_ms, store
from bridge.dead_letters.letter import Letter, Marked, Selection
from bridge.dead_letters.recheck import (
    Outcome,
    Passed,
    Recheck,
    Report,
    Stays,
    is_crash_part,
    judge_parts,
    judge_statuses,
)
from infra.contract import topics
from infra.contract.errors import ServiceError
from infra.contract.verdict import clock_limits
from infra.settings.settings import Endpoints, Settings
from infra.sql import reinjections
from infra.sql.reinjections import Reinjected

CHUNK: Final = 500
"""Letters sent in at once: so many are in memory, and at most so many copies does a kill cause."""


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
        self._recheck = Recheck(settings.mqtt.root, self._prefix, clock_limits(settings))

    def list(self, selection: Selection, since_ms: int | None, limit: int) -> Listing:
        """The newest ``limit`` letters, oldest first, and the counts of all."""
        listing = Listing(deque(maxlen=limit))
        for letter in self.select(selection, since_ms):
            listing.newest.append(letter)
            listing.by_reason[letter.reason] += letter.messages
        return listing

    def select(self, selection: Selection, since_ms: int | None) -> Iterator[Letter]:
        """Letters that lie in Kafka now and are meant, oldest first."""
        with self._log() as log:
            low, high = log.span()
            first = low if since_ms is None else log.offset_at(since_ms)
            yield from (letter for letter in log.read(first, high) if selection.takes(letter))

    def find(self, offsets: Sequence[int]) -> Iterator[Letter]:
        """The letters at these offsets; raises ServiceError, before the first, when one is not there."""
        with self._log() as log:
            low, high = log.span()
            away = [str(offset) for offset in offsets if not low <= offset < high]
            if away:
                holds = f"{low} to {high - 1}" if low < high else "none"
                raise ServiceError(f"no dead letter {', '.join(away)}: the log holds {holds}")
            for offset in sorted(set(offsets)):
                yield from log.read(offset, offset + 1)

    def marked(self) -> Marked:
        """Letters that were sent in and are stored, as the database says."""
        return reinjections.stored(self._url)

    def reinject(self, letters: Iterator[Letter], dry_run: bool, again: bool) -> Report:
        """Send in what the contract lets through by now; ``again``: also what was sent in before.

        Killed at any moment, it can be run again: what went in twice has one identity.
        """
        report, held = Report(), Outcome()
        marked: Marked = set() if again else self.marked()
        ready: list[Passed] = []
        for letter in letters:
            if (letter.offset, letter.digest) in marked:
                report.before.append(letter.offset)
                continue
            judged = self._recheck.judge(letter, now_ms())
            if isinstance(judged, Stays):
                report.stays.append(judged)
            elif judged.channel == "status" or is_crash_part(judged):
                held.passed.append(judged)  # judged as a set, when all are known
            else:
                ready.append(judged)
            if len(ready) == CHUNK:
                self._send(ready, report, dry_run)
                ready = []
        self._send(ready, report, dry_run)
        self._finish(held.passed, report, dry_run)
        return report

    def _finish(self, held: Sequence[Passed], report: Report, dry_run: bool) -> None:
        """Crash parts and status messages: not judged one by one."""
        parts = judge_parts([passed for passed in held if is_crash_part(passed)])
        statuses = [passed for passed in held if passed.channel == "status"]
        newest: dict[str, int] = {}
        if statuses:
            newest = newest_status_ms(self._bootstrap, topics.kafka_topic(self._prefix, "status"))
        for outcome in (parts, judge_statuses(statuses, newest)):
            report.stays += outcome.stays
            for start in range(0, len(outcome.passed), CHUNK):
                self._send(outcome.passed[start : start + CHUNK], report, dry_run)

    def _send(self, ready: Sequence[Passed], report: Report, dry_run: bool) -> None:
        """Note, store, note: between the notes the ledger finds the frame in the archive or calls it dead."""
        refused: dict[int, str] = {}
        if ready and not dry_run:
            received_ms = now_ms()
            notes = [_note(passed) for passed in ready]
            reinjections.ask(self._url, notes)
            refused = store(self._bootstrap, [passed.received_at(received_ms) for passed in ready])
            reinjections.done(self._url, [note for n, note in enumerate(notes) if n not in refused])
        for number, passed in enumerate(ready):
            if number in refused:
                report.stays.append(Stays(passed.letter.offset, "unstorable", refused[number]))
            else:
                report.went[passed.letter.offset] = passed.channel

    def _log(self) -> KafkaLog:
        return KafkaLog(self._bootstrap, topics.kafka_topic(self._prefix, "dead-letter"))


def _note(passed: Passed) -> Reinjected:
    message = passed.message
    return Reinjected(
        0, passed.letter.offset, passed.letter.digest, topics.KAFKA_TOPIC_OF[passed.channel],
        message["vehicle_id"], message["boot_id"], message["seq"],
    )  # fmt: skip


def now_ms(clock_ns: Callable[[], int] = time.time_ns) -> int:
    """Now, ms since 1970."""
    return clock_ns() // 1_000_000
