"""Follows one frame through all that holds a trace of it: log, dead letters, archive, checkpoints, tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from infra.clients import duck
from infra.clients.kafka import LogReader, Record, identity, record_of
from infra.contract.shard import partition as partition_of
from infra.contract.topics import KAFKA_TOPICS, kafka_topic
from infra.settings.settings import Endpoints, Settings
from infra.stack import query_offsets
from infra.trace import hops, tables
from infra.trace.hops import Trace
from stream_jobs.archive.manifest import HOUR_MS, archive_of
from stream_jobs.archive.reader import hours, of_hours

TAIL_MS = 600_000
"""How far back the log is read where no archive was searched before."""
MOST_RECORDS = 1_000_000
"""A stretch of the log is read to its end or to so many records: 5 to 20 s."""
SAY_EVERY_HOURS = 6
_SQL = """
SELECT filename, file_row_number, partition, log_offset, received_ms, value
FROM read_parquet(?, hive_partitioning = false, filename = true, file_row_number = true)
WHERE vehicle_id = ? AND seq = ? AND (? IS NULL OR boot_id = ?)
ORDER BY received_ms, log_offset
"""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The frame that is looked for; ``boot_id`` None: the newest that has the sequence number."""

    vehicle_id: str
    seq: int
    boot_id: int | None = None


@dataclass(frozen=True, slots=True)
class Copy:
    """One record of the frame: as the log has it, in the archive's file and row, or both."""

    partition: int
    offset: int
    received_ms: int
    value: bytes
    record: Record | None
    archived: str | None


@dataclass(slots=True)
class Follower:
    """What a frame is looked for in. ``cut_short``: a stretch of the log was longer than what was read."""

    settings: Settings
    log: LogReader
    database: tables.Connection
    say: Say
    scanned: int = 0
    cut_short: bool = False

    @property
    def home(self) -> Path:
        """Where archive and checkpoints lie."""
        return self.settings.paths.home.resolve()

    def topic(self, name: str) -> str:
        """The full name of a topic."""
        return kafka_topic(self.settings.kafka.prefix, name)

    def copies(self, wanted: Wanted, look_back: timedelta) -> list[Copy]:
        """All records of the frame, in the order of the log."""
        topic = self.topic("telemetry")
        by_offset = {}
        for place, partition, offset, received_ms, value in self._archived(wanted, look_back):
            record = self.log.at(topic, partition, offset)
            by_offset[offset] = Copy(partition, offset, received_ms, value, record, place)
        count = next(t.partitions for t in KAFKA_TOPICS if t.name == "telemetry")
        partition = partition_of(wanted.vehicle_id.encode(), count)
        for found in self._find(topic, partition, self._archived_until(topic, partition), wanted):
            copy = Copy(partition, found.offset, found.received_ms, found.value, found, None)
            by_offset.setdefault(found.offset, copy)
        return [by_offset[offset] for offset in sorted(by_offset)]

    def _archived(self, wanted: Wanted, look_back: timedelta) -> list[tuple[str, int, int, int, bytes]]:
        """File and row, partition, offset, receipt and bytes of copies in the archive, oldest first.

        Searched by hour of receipt, the newest first. The hour before the one that has it is looked into
        too: copies may lie on both sides of a full hour.
        """
        archive = archive_of(self.home)
        oldest_ms = (datetime.now(UTC) - look_back).timestamp() * 1000
        stored = [hour_ms for hour_ms in reversed(hours(archive)) if hour_ms + HOUR_MS > oldest_ms]
        found: list[tuple[str, int, int, int, bytes]] = []
        for number, hour_ms in enumerate(stored):
            if number and number % SAY_EVERY_HOURS == 0:
                self.say(f"not in the archive's newest {number} of {len(stored)} hours, going on")
            before = bool(found)
            if files := [str(file.path) for file in of_hours(archive, [hour_ms])]:
                values = [files, wanted.vehicle_id, wanted.seq, wanted.boot_id, wanted.boot_id]
                with duck.connected() as connection:
                    rows = connection.execute(_SQL, values).fetchall()
                found[:0] = [
                    (f"{Path(file).relative_to(self.home).as_posix()} row {row}", *rest)
                    for file, row, *rest in rows
                ]
            if before:
                break
        return found

    def _archived_until(self, topic: str, partition: int) -> int:
        """The first offset that the archive does not hold yet."""
        newest = query_offsets.committed(self.home, "archive")
        if newest is not None and partition in newest.ends.get(topic, {}):
            return newest.ends[topic][partition]
        return self.log.since(topic, partition, int(time.time() * 1000) - TAIL_MS)

    def dead(self, wanted: Wanted) -> list[Record]:
        """Dead letters of the frame: those that the table lists, and those it does not list yet."""
        topic = self.topic("dead-letter")
        listed, unlisted_from = tables.dead_letters(self.database, wanted.vehicle_id)
        found = [self.log.at(topic, 0, offset) for offset in sorted(listed)]
        fresh = self._find(topic, 0, unlisted_from, wanted, any_key=True)
        return [r for r in found if r is not None and _is(r.value, wanted)] + fresh

    def _find(
        self, topic: str, partition: int, begin: int, wanted: Wanted, any_key: bool = False
    ) -> list[Record]:
        """Records of the frame from ``begin`` to the end; the newest part of a stretch too long.

        ``any_key``: records without a key are looked into as well (dead letters).
        """
        low, end = self.log.bounds(topic, partition)
        begin = max(begin, low)
        if end - begin > MOST_RECORDS:
            begin, self.cut_short = end - MOST_RECORDS, True
        key = wanted.vehicle_id.encode()
        keys = (key, None) if any_key else (key,)
        found = []
        for message in self.log.messages(topic, partition, begin, end):
            self.scanned += 1
            value = message.value() or b""
            if message.key() in keys and matches(value, wanted) and (message.key() or key in value):
                found.append(record_of(message))
        return found


def matches(value: bytes, wanted: Wanted) -> bool:
    """Whether a payload is the frame wanted. The vehicle is the record's key: it is not compared here."""
    return b"%d" % wanted.seq in value and _is(value, wanted)


def _is(value: bytes, wanted: Wanted) -> bool:
    found = identity(value)
    return found is not None and found[1] == wanted.seq and wanted.boot_id in (None, found[0])


def follow(settings: Settings, endpoints: Endpoints, wanted: Wanted, look_back: timedelta, say: Say) -> Trace:
    """The frame's hops; ``found`` is False where nothing has it. Raises ServiceError."""
    with (
        LogReader(endpoints.kafka_bootstrap, "odograph-trace") as log,
        tables.opened(endpoints.db_owner_url) as database,
    ):
        follower = Follower(settings, log, database, say)
        copies, dead = follower.copies(wanted, look_back), follower.dead(wanted)
        boots = _boots(copies, dead)
        notes = _notes(follower, boots, wanted)
        if wanted.boot_id is None and boots:
            wanted = replace(wanted, boot_id=boots[0])
            copies = [c for c in copies if _is(c.value, wanted)]
            dead = [r for r in dead if _is(r.value, wanted)]
        judged = hops.verdict_of(copies[0].value, copies[0].received_ms, settings) if copies else None
        payload = copies[0].value if copies else dead[0].value if dead else b""
        found = hops.on_board(payload)
        for number, copy in enumerate(copies, 1):
            found += hops.in_log(follower.topic("telemetry"), copy, number)
        found += [hops.dead_letter(record) for record in dead]
        if copies:
            found += hops.in_queries(follower, copies[0], judged)
            found += hops.in_tables(follower, wanted, copies, judged)
    return Trace(wanted.vehicle_id, wanted.boot_id, wanted.seq, judged, len(copies), len(dead), found, notes)


def _boots(copies: Sequence[Copy], dead: Sequence[Record]) -> list[int]:
    """Boot ids met, that of the newest record first."""
    met = [(copy.received_ms, copy.value) for copy in copies] + [(r.received_ms, r.value) for r in dead]
    ids = [found[0] for _, value in sorted(met, reverse=True) if (found := identity(value)) is not None]
    return list(dict.fromkeys(ids))


def _notes(follower: Follower, boots: Sequence[int], wanted: Wanted) -> list[str]:
    notes = []
    if wanted.boot_id is None and len(boots) > 1:
        others = ", ".join(map(str, boots[1:]))
        notes.append(
            f"the newest boot is shown; this sequence number was sent in others too: --boot {others}"
        )
    if follower.cut_short:
        notes.append(f"only the newest {follower.scanned:,} records of the log were looked through")
    return notes
