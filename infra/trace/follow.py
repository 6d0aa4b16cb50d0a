"""Follows one frame through all that holds a trace of it: log, dead letters, archive, checkpoints, tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from infra.clients.log_reader import LogReader
from infra.clients.log_records import Archived, Record, Wanted, identity, partition_of
from infra.contract.topics import KAFKA_TOPICS, kafka_topic
from infra.settings.settings import Endpoints, Settings
from infra.stack import query_offsets
from infra.trace import archive_rows, stations, tables
from infra.trace.hops import Hop, Trace

TAIL_MS = 600_000
"""How far back the log is read where no archive tells up to where it was searched."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Copy:
    """One record of the frame: as the log has it, as the archive has it, or both."""

    partition: int
    offset: int
    received_ms: int
    value: bytes
    record: Record | None
    archived: Archived | None


@dataclass(slots=True)
class Follower:
    """The way to every part that is asked."""

    settings: Settings
    log: LogReader
    database: tables.Connection
    say: Say

    @property
    def home(self) -> Path:
        """Where archive and checkpoints lie."""
        return self.settings.paths.home.resolve()

    def topic(self, name: str) -> str:
        """The full name of a topic."""
        return kafka_topic(self.settings.kafka.prefix, name)

    def copies(self, wanted: Wanted, look_back: timedelta) -> list[Copy]:
        """All records of the frame, in the order of the log."""
        rows = archive_rows.find(self.home, wanted, look_back, datetime.now(UTC), self.say)
        topic, partitions = self.topic("telemetry"), _partitions("telemetry")
        partition = partition_of(wanted.vehicle_id.encode(), partitions)
        by_offset = {
            row.offset: Copy(
                row.partition, row.offset, row.received_ms, row.value,
                self.log.at(topic, row.partition, row.offset), row,
            )
            for row in rows
        }  # fmt: skip
        for record in self.log.find(topic, partition, self._archived_until(topic, partition), wanted, False):
            by_offset.setdefault(
                record.offset,
                Copy(partition, record.offset, record.received_ms, record.value, record, None),
            )
        return [by_offset[offset] for offset in sorted(by_offset)]

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
        fresh = self.log.find(topic, 0, unlisted_from, wanted, any_key=True)
        return [r for r in found if r is not None and _is(r.value, wanted)] + fresh


def _partitions(name: str) -> int:
    return next(topic.partitions for topic in KAFKA_TOPICS if topic.name == name)


def _is(value: bytes, wanted: Wanted) -> bool:
    found = identity(value)
    return found is not None and found[1] == wanted.seq and wanted.boot_id in (None, found[0])


def follow(settings: Settings, endpoints: Endpoints, wanted: Wanted, look_back: timedelta, say: Say) -> Trace:
    """The frame's hops; ``found`` is False where nothing has it. Raises ServiceError."""
    with (
        LogReader(endpoints.kafka_bootstrap) as log,
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
        judged = stations.verdict_of(copies[0].value, copies[0].received_ms, settings) if copies else None
        hops = _hops(follower, wanted, copies, dead, judged)
    return Trace(wanted.vehicle_id, wanted.boot_id, wanted.seq, judged, len(copies), len(dead), hops, notes)


def _hops(
    follower: Follower, wanted: Wanted, copies: Sequence[Copy], dead: Sequence[Record], judged: str | None
) -> list[Hop]:
    payload = copies[0].value if copies else dead[0].value if dead else b""
    hops = stations.on_board(payload)
    for number, copy in enumerate(copies, 1):
        hops += stations.in_log(follower.topic("telemetry"), copy, number)
    hops += [stations.dead_letter(record) for record in dead]
    if not copies:
        return hops
    hops += stations.in_queries(follower, copies[0], judged)
    hops += stations.in_tables(follower, wanted, copies, judged)
    return hops


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
    if follower.log.cut_short:
        notes.append(f"only the newest {follower.log.scanned:,} records of the log were looked through")
    return notes
