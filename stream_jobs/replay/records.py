"""Stored records in the order of the log, in slices bounded in records and in receive time.

The files are those of the archive, of a generated day, or what was taken out of Kafka: all of one format. Two
readings of the same files give the same slices, however the records are spread over the files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from infra.clients.duck import connected
from infra.contract.errors import ConfigError
from infra.contract.verdict import LATE

TICK_MS: Final = 5_000
"""Slices begin and end at multiples of it."""
COLUMNS: Final = ("partition", "log_offset", "key", "received_ms", "value", "topic")
MEMORY: Final = "512MB"

Ints = npt.NDArray[np.int64]
Files = Callable[[int, int], Sequence[str]]
"""Files that can hold records received in [since, until), ms. Asked again each time: compaction may have put
others in their place.
"""


@dataclass(frozen=True, slots=True)
class Span:
    """[since, until) in ms since 1970."""

    since_ms: int
    until_ms: int

    @property
    def since(self) -> datetime:
        """Its begin, UTC."""
        return datetime.fromtimestamp(self.since_ms / 1000, UTC)

    @property
    def until(self) -> datetime:
        """Its end, UTC."""
        return datetime.fromtimestamp(self.until_ms / 1000, UTC)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a slice may be at most: records, and receive time, ms. One tick is never cut."""

    records: int
    span_ms: int


@dataclass(frozen=True, slots=True)
class Slice:
    """Records of receive times [since, until); ``by_partition`` counts them. ``late``: late ones only."""

    received: Span
    late: bool
    by_partition: tuple[int, ...]

    @property
    def records(self) -> int:
        """How many there are."""
        return sum(self.by_partition)


@dataclass(frozen=True, slots=True)
class Stored:
    """The records of a replay: those received in ``received``, and late ones of ``event`` after it, received
    before ``late_until_ms``.

    ``vehicles``: only theirs; empty: all. ``partitions``: of the topic they go into.
    """

    files: Files
    received: Span
    event: Span
    late_until_ms: int
    vehicles: tuple[str, ...]
    partitions: int

    def plan(self, bounds: Bounds) -> list[Slice]:
        """All slices in order; raises ConfigError where a file cannot be read."""
        check_files(self._files(Span(self.received.since_ms, self.late_until_ms)))
        main = slices(self._counts(late=False), bounds, self.partitions, late=False)
        unbounded = Bounds(bounds.records, 1 << 62)  # late ones move no watermark
        return main + slices(self._counts(late=True), unbounded, self.partitions, late=True)

    def read(self, part: Slice) -> pa.Table:
        """COLUMNS of a slice, in the order in which they go into the log."""
        names, whole = ", ".join(COLUMNS), self._received(part.late)
        received = Span(
            max(part.received.since_ms, whole.since_ms), min(part.received.until_ms, whole.until_ms)
        )
        found = self._query(f"SELECT {names} FROM {{files}} WHERE {{wanted}}", received, part.late)  # noqa: S608
        partition = found["partition"].to_numpy() % self.partitions
        log = _places(found["topic"]) * self.partitions + partition
        order = log_order(log, found["log_offset"].to_numpy(), found["received_ms"].to_numpy())
        return found.set_column(0, "partition", pa.array(partition, pa.int32())).take(pa.array(order))

    def _received(self, late: bool) -> Span:
        return Span(self.received.until_ms, self.late_until_ms) if late else self.received

    def _counts(self, late: bool) -> Ints:
        """Rows of tick, partition and number of records, by tick."""
        received = self._received(late)
        if not self._files(received):
            return np.empty((0, 3), np.int64)
        found = self._query(
            f"SELECT received_ms // {TICK_MS} AS tick, partition % {self.partitions} AS part, "  # noqa: S608
            "count(*)::bigint AS n FROM {files} WHERE {wanted} GROUP BY 1, 2 ORDER BY 1, 2",
            received,
            late,
        )
        return np.stack([column.to_numpy().astype(np.int64) for column in found.columns], axis=1)

    def _query(self, sql: str, received: Span, late: bool) -> pa.Table:
        wanted = "received_ms >= $since AND received_ms < $until"
        values: dict[str, Any] = {"since": received.since_ms, "until": received.until_ms}
        if late:
            wanted += f" AND verdict = '{LATE}' AND t0_ms < $end AND t0_ms + span_ms >= $begin"
            values |= {"begin": self.event.since_ms, "end": self.event.until_ms}
        if self.vehicles:
            wanted += " AND list_contains($vehicles, vehicle_id)"
            values["vehicles"] = list(self.vehicles)
        values["files"] = self._files(received)
        text = sql.format(files="read_parquet($files, hive_partitioning = false)", wanted=wanted)
        with connected(MEMORY) as database:
            return database.sql(text, params=values).to_arrow_table()

    def _files(self, received: Span) -> list[str]:
        if received.since_ms >= received.until_ms:
            return []
        return list(self.files(received.since_ms, received.until_ms))


def _places(topics: pa.ChunkedArray) -> Ints:
    """The place of each topic among all by name, whatever file was read first."""
    coded = topics.combine_chunks().dictionary_encode()
    places = np.argsort(np.argsort(coded.dictionary.to_pylist()))
    found: Ints = places[coded.indices.to_numpy()]
    return found


def log_order(log: Ints, offset: Ints, received_ms: Ints) -> Ints:
    """Indices that put records in order: each log (a partition of a topic) as it is, the logs side by side by
    receive time.
    """
    by_log = np.lexsort((offset, log))
    reached = received_ms[by_log].copy()
    starts = np.flatnonzero(np.diff(log[by_log], prepend=-1))
    for begin, end in zip(starts, [*starts[1:], len(reached)], strict=True):
        np.maximum.accumulate(reached[begin:end], out=reached[begin:end])
    return by_log[np.argsort(reached, kind="stable")]


def slices(counts: Ints, bounds: Bounds, partitions: int, late: bool) -> list[Slice]:
    """Slices out of rows of tick, partition and count, in the order of their ticks."""
    return [
        Slice(Span(first * TICK_MS, (last + 1) * TICK_MS), late, tuple(by_partition))
        for first, last, by_partition in _grouped(counts, bounds, partitions)
    ]


def _grouped(counts: Ints, bounds: Bounds, partitions: int) -> Iterator[tuple[int, int, list[int]]]:
    first = last = -1
    held = [0] * partitions
    ticks, begins = np.unique(counts[:, 0], return_index=True)
    for tick, rows in zip(ticks.tolist(), np.split(counts, begins)[1:], strict=True):
        full = sum(held) + int(rows[:, 2].sum()) > bounds.records
        if first >= 0 and (full or (tick + 1 - first) * TICK_MS > bounds.span_ms):
            yield first, last, held
            first, held = -1, [0] * partitions
        first = tick if first < 0 else first
        last = tick
        for _, partition, count in rows.tolist():
            held[partition] += count
    if first >= 0:
        yield first, last, held


def check_files(files: Sequence[str]) -> None:
    """Read the end of every file, where a truncated one shows; raises ConfigError naming the first."""
    for name in files:
        try:
            pq.read_metadata(name)
        except (OSError, pa.ArrowInvalid) as error:
            reason = "is missing" if isinstance(error, FileNotFoundError) else f"cannot be read: {error}"
            raise ConfigError(
                f"{name} {reason}; nothing was replayed. Put the file back from a copy; "
                "odograph archive verify names all such files"
            ) from error
