"""How far the consumers of the log are: what lies beyond the slowest one is in flight.

By Kafka's offsets and receipt times. What was received before the horizon is in archive, windows and dead
letters' table; what came after it may lack in one of them, and that is no loss.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from infra.clients.log_reader import LogReader
from infra.clients.log_records import Record, identity
from infra.contract.errors import ServiceError
from infra.contract.seq_ranges import Range, Ranges, merged
from infra.contract.topics import KAFKA_TOPICS, kafka_topic
from infra.settings.settings import Endpoints, Settings
from infra.stack import query_offsets
from stream_jobs.audit import tables
from stream_jobs.audit.edge import Device

WINDOWS, ARCHIVE, EVENTS = "telemetry", "archive", "events"
TELEMETRY, DEAD_LETTER = "telemetry", "dead-letter"
READS: Final = {WINDOWS: TELEMETRY, ARCHIVE: TELEMETRY, EVENTS: DEAD_LETTER}
"""Consumers that an audit waits for, and the topic of each."""
DISORDER_MS: Final = 2_000
"""Records of a partition lie at most so much out of the order of their receipt: the bridge's batches."""

Offsets = Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Horizon:
    """``taken`` and ``ends`` are next offsets by partition: of each consumer, of each topic."""

    moment_ms: int
    """Everything received before it has been taken in."""
    slowest: str
    taken: Mapping[str, Offsets]
    ends: Mapping[str, Offsets]

    def behind(self, consumer: str) -> int:
        """Records that it has not taken yet."""
        taken, ends = self.taken[consumer], self.ends[READS[consumer]]
        return sum(max(0, end - taken.get(p, 0)) for p, end in ends.items())

    @property
    def quiet(self) -> bool:
        """Whether nothing waits for any of them."""
        return all(self.behind(consumer) == 0 for consumer in READS)


def look(settings: Settings, addresses: Endpoints) -> Horizon:
    """Raises ServiceError where a service is away, or a query with work to do has never finished a batch."""
    prefix, home = settings.kafka.prefix, settings.paths.home.resolve()
    taken: dict[str, Offsets] = {}
    for query in (WINDOWS, ARCHIVE):  # before the log's ends: what comes meanwhile is in flight
        newest = query_offsets.committed(home, query)
        taken[query] = {} if newest is None else newest.ends.get(kafka_topic(prefix, TELEMETRY), {})
    with tables.opened(addresses.db_ingest_url) as database:
        taken[EVENTS] = database.taken(EVENTS, DEAD_LETTER)
    now_ms = time.time_ns() // 1_000_000
    with LogReader(addresses.kafka_bootstrap) as log:
        ends = {
            t.name: {p: log.ends(kafka_topic(prefix, t.name), p)[1] for p in range(t.partitions)}
            for t in KAFKA_TOPICS
            if t.name in READS.values()
        }
        waiting = {
            consumer: min(_first_ms(log, kafka_topic(prefix, topic), ends[topic], taken[consumer], now_ms))
            for consumer, topic in READS.items()
        }
    never = [query for query in (WINDOWS, ARCHIVE) if not taken[query] and any(ends[TELEMETRY].values())]
    if never:
        raise ServiceError(
            f"{' and '.join(never)} never finished a batch: nothing can be balanced yet; see: odograph status"
        )
    slowest = min(waiting, key=lambda consumer: waiting[consumer])
    moment_ms = waiting[slowest] - DISORDER_MS - settings.jobs.unwritten_ms
    return Horizon(moment_ms, slowest, taken, ends)


def _first_ms(log: LogReader, topic: str, ends: Offsets, taken: Offsets, now_ms: int) -> Iterator[int]:
    """Receipt of the first record of each partition that waits; now where none does."""
    for partition, end in ends.items():
        first = next(iter(log.records(topic, partition, taken.get(partition, 0), end)), None)
        yield now_ms if first is None else min(now_ms, first.received_ms)


def in_flight(settings: Settings, addresses: Endpoints, horizon: Horizon) -> dict[Device, Ranges]:
    """Frames in the log that archive or dead letters' table have not taken, by device."""
    found: defaultdict[Device, list[Range]] = defaultdict(list)
    with LogReader(addresses.kafka_bootstrap) as log:
        for consumer in (ARCHIVE, EVENTS):
            topic = kafka_topic(settings.kafka.prefix, READS[consumer])
            for partition, end in horizon.ends[READS[consumer]].items():
                begin = horizon.taken[consumer].get(partition, 0)
                for record in log.records(topic, partition, begin, end):
                    _note(found, record)
    return {device: merged(ranges) for device, ranges in found.items()}


def _note(found: defaultdict[Device, list[Range]], record: Record) -> None:
    named = identity(record.value)
    if named is not None and record.key is not None:
        boot_id, seq = named
        found[record.key, boot_id].append((seq, seq))
