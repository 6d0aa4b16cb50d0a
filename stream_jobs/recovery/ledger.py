"""The ledger of batches: each one's results are in once, and between two of them no record is left out.

A line says where its batch ends in the log. It goes in with the batch's rows, so it is compared with the
checkpoint: at the start of a query, and again at each batch. They differ where a checkpoint is older than the
tables (brought back from a copy), or the tables are older than the checkpoint (a database that failed over
and lost its last transactions). The records between them are named, and made again.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any, Final

import orjson
import structlog

from infra.clients import db
from infra.clients.kafka import LogReader
from infra.contract.errors import ServiceError
from infra.contract.seq_ranges import merged
from infra.settings.settings import Endpoints, Settings
from infra.stack.query_offsets import Offsets, Stretches
from stream_jobs.app.database import Connection, Database, execute, fetch
from stream_jobs.archive.manifest import HOUR_MS, archive_of
from stream_jobs.archive.reader import hours
from stream_jobs.recovery.checkpoints import Checkpoint, put_aside
from stream_jobs.reprocess.queue import GAP, Span, begin, grid_of, moment

SQL: Final = db.sql_of(__file__)
BEGUN: Final = -1  # stands for the batch before a checkpoint's first
GAP_S: Final = 3600.0  # time for the transaction that makes a gap good: files of days may be read in it
log = structlog.get_logger("stream_jobs.recovery.ledger")

Position = Mapping[tuple[str, int], int]  # next offset by topic and partition; those that begin are left out


def position(ends: Mapping[str, Mapping[Any, int]] | None) -> Position:
    """The offsets of a checkpoint or of a line of the ledger, to be compared."""
    return {(t, int(p)): o for t, of in (ends or {}).items() for p, o in of.items() if o}


class BatchClaims:
    """The lines of one query: its id is the checkpoint's, so a new checkpoint starts a new account.

    ``logs``: the identity of the log whose batches these are, by topic.
    """

    def __init__(
        self, query: str, checkpoint: Checkpoint, logs: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._query, self._checkpoint, self.logs = query, checkpoint, logs
        self.ends_of = lru_cache(maxsize=2)(checkpoint.ends_of)
        """Where a batch ends; a batch asks for its own end and for that of the one before."""

    @cached_property
    def query_id(self) -> str:
        return self._checkpoint.query_id() or ""

    def range_of(self, batch_id: int) -> Stretches:
        """The records of a batch; where it begins is not known of the first one, and of a new partition."""
        begun, ends = position(self.ends_of(batch_id - 1)), self.ends_of(batch_id) or {}
        return {(t, p): (begun.get((t, p)), end) for t, of in ends.items() for p, end in of.items()}

    def claim(self, connection: Connection, batch_id: int, rows: int) -> bool:
        """Enter the batch; False where it, or a later one, is in already.

        Raises ServiceError where the line before it ends elsewhere than the batch begins, or is not there.
        """
        begun, ends = self.ends_of(batch_id - 1) if batch_id else None, self.ends_of(batch_id)
        line = {"query_id": self.query_id, "batch_id": batch_id, "query": self._query, "rows": rows}
        line["log"] = " ".join(sorted(self.logs.values()))
        line["ends"] = None if ends is None else _as_json(ends)
        claimed, newest, told = fetch(connection, SQL["claim"], line)[0]
        newest, told = (BEGUN, {}) if newest is None else (newest, told)
        wanted = begun if claimed else ends if newest == batch_id else None
        if told is not None and wanted is not None and position(told) != position(wanted):
            raise ServiceError(
                f"{self._query}: batch {newest} of the ledger ends at {told}, the checkpoint has {wanted}: "
                "one of them is older. Nothing of the batch is written; the next start makes it good"
            )
        return bool(claimed)


def _as_json(ends: Offsets) -> str:
    return orjson.dumps(dict(ends), option=orjson.OPT_NON_STR_KEYS).decode()


def enter(
    connection: db.Connection, query: str, query_id: str, batch_id: int = BEGUN,
    ends: Offsets = MappingProxyType({}),
) -> None:  # fmt: skip
    """Enter a batch without rows: the tables hold what is before its end. BEGUN: of a new account, since what
    the query had taken in by another checkpoint says nothing any more.
    """
    line = {"query_id": query_id, "batch_id": batch_id, "query": query, "ends": _as_json(ends)}
    execute(connection, SQL["enter"], line)


@dataclass(frozen=True, slots=True)
class Gap:
    """A ledger and a checkpoint that differ: the newest line, the newest committed batch, and their ends."""

    query_id: str
    line: int
    told: Mapping[str, Mapping[Any, int]]
    batch_id: int
    done: Offsets

    def differing(self) -> dict[tuple[str, int], tuple[int, int]]:
        """The next offsets by ledger and by checkpoint, by topic and partition, where they differ."""
        told, done = position(self.told), position(self.done)
        pairs = {place: (told.get(place, 0), done.get(place, 0)) for place in sorted({*told, *done})}
        return {place: pair for place, pair in pairs.items() if pair[0] != pair[1]}


def gap_of(connection: Connection, checkpoint: Checkpoint) -> Gap | None:
    """What ledger and checkpoint differ in; None where they agree, or the checkpoint has nothing yet.

    A ledger without a line of the checkpoint is of a time before it: the tables were brought back, or lost.
    """
    query_id, commits = checkpoint.query_id(), checkpoint.batches("commits")
    if query_id is None or not commits:
        return None
    found = fetch(connection, SQL["newest"], {"query_id": query_id})
    (line, told), done = found[0] if found else (BEGUN, {}), commits[-1]
    if told is None:  # of an older version
        return None
    ends = checkpoint.ends_of(done) or {}
    # The batch behind the committed one may be in the tables.
    possible: list[Offsets | None] = [ends, checkpoint.ends_of(line)] if line == done + 1 else [ends]
    if line <= done + 1 and position(told) in map(position, possible):
        return None
    return Gap(query_id, line, told, done, ends)


def reconciled(
    database: Database,
    checkpoint: Checkpoint,
    again: Callable[[Connection, Gap], None] | None,
    *,
    stateless: bool = False,
) -> bool:
    """Before a query starts: what lies between ledger and checkpoint is named, and made again.

    A checkpoint without state that is older goes on where the ledger ends: those batches are written. Else
    the query goes on at its checkpoint, the ledger is set to that, and ``again`` sees to the rows in the
    same transaction; None: the query reads again what Kafka keeps, and True says that it needs a new one.
    """
    gap = database.run(lambda connection: gap_of(connection, checkpoint))
    if gap is None:
        return False
    pairs = gap.differing()
    named = (f"{t} {p}: ledger {told}, checkpoint {done}" for (t, p), (told, done) in pairs.items())
    log.error("ledger and checkpoint differ", query=checkpoint.query, records=", ".join(named))
    if stateless and any(told > done for told, done in pairs.values()):
        _move_on(checkpoint, gap)
        return False
    if again is None:
        return put_aside(checkpoint.files, checkpoint.query) is not None

    def set_to_checkpoint(connection: Connection) -> None:
        execute(connection, SQL["set_back"], {"query_id": gap.query_id, "batch_id": gap.batch_id})
        enter(connection, checkpoint.query, gap.query_id, gap.batch_id, gap.done)
        again(connection, gap)

    with closing(replace(database, attempt_s=GAP_S)) as patient:
        patient.run(set_to_checkpoint)
    return False


def _move_on(checkpoint: Checkpoint, gap: Gap) -> None:
    """The newest batch's files again, under the number and with the offsets of the ledger's.

    Spark reads the offsets of the batch before it, too; without a line of commits it is not taken for done.
    """
    offsets, commit = (checkpoint.read(f"{name}/{gap.batch_id}") for name in ("offsets", "commits"))
    assert offsets is not None
    assert commit is not None
    head = offsets.splitlines()[:2]
    if gap.line > gap.batch_id + 1:
        checkpoint.write(f"offsets/{gap.line - 1}", offsets)
    checkpoint.write(f"offsets/{gap.line}", "\n".join([*head, _as_json(gap.told)]))
    checkpoint.write(f"commits/{gap.line}", commit)


def pass_over(connection: db.Connection, checkpoint: Checkpoint, bootstrap: str) -> int:
    """Have a query without state go on behind what Kafka has dropped unread; how many records are lost so.

    The ledger gets a batch without rows that ends there, and the next start takes the checkpoint to it.
    """
    query_id = checkpoint.query_id()
    found = fetch(connection, SQL["newest"], {"query_id": query_id})
    if query_id is None or not found:
        return 0
    line, told = found[0]
    with LogReader(bootstrap) as reader:
        ends = {
            topic: {int(p): max(offset, reader.bounds(topic, int(p))[0]) for p, offset in of.items()}
            for topic, of in (told or {}).items()
        }
    lost = sum(position(ends).values()) - sum(position(told).values())
    if lost:
        newest = max([line, *checkpoint.batches("offsets")])  # Spark may have begun one that is not in
        enter(connection, checkpoint.query, query_id, newest + 2, ends)
    return lost


def recompute_gap(settings: Settings, where: Endpoints, connection: Connection, gap: Gap) -> None:
    """Enter a run of the batch layer over the windows that the batches of a gap may have written."""
    with LogReader(where.kafka_bootstrap) as reader:
        found = [
            reader.at(topic, partition, offset)  # the first and the last that Kafka has
            for (topic, partition), ends in gap.differing().items()
            for offset in (max(min(ends), reader.bounds(topic, partition)[0]), max(ends) - 1)
        ]
    times = [record.received_ms for record in found if record is not None]
    if times:
        _enter_run(connection, _span_of(settings, times))


def recompute_begin(settings: Settings, where: Endpoints, connection: Connection, topic: str) -> None:
    """Enter runs over the windows in which partitions begin of which Kafka has dropped the oldest records: a
    new checkpoint has the last frames of these, and writes that over what there was.

    Only where the archive reaches further back; of two regions' archives each has what came while it acted.
    """
    oldest_ms = min(hours(archive_of(settings.paths.home)), default=None)
    if oldest_ms is None or settings.region.name:
        return
    with LogReader(where.kafka_bootstrap) as reader:
        found = [
            reader.at(topic, partition, low) for partition, (low, _) in reader.spans(topic).items() if low
        ]
    spans = (_span_of(settings, [record.received_ms]) for record in found if record is not None)
    for from_ms, until_ms in merged((span.from_ms, span.until_ms) for span in spans):
        if oldest_ms + HOUR_MS <= from_ms:
            _enter_run(connection, Span(from_ms, until_ms))


def _span_of(settings: Settings, times: Sequence[int]) -> Span:
    """The windows that records received at these times may have a part in, and those between."""
    grid, jobs = grid_of(settings), settings.jobs
    margin_ms = 2 * grid.road_window_ms + 1000 * int(jobs.lateness_s + jobs.receipt_skew_s + jobs.publish_s)
    return Span(min(times) - margin_ms, max(times) + grid.ahead_ms + grid.road_window_ms)


def _enter_run(connection: Connection, span: Span) -> None:
    run = begin(connection, GAP, span)
    named = {"since": str(moment(span.from_ms)), "until": str(moment(span.until_ms))}
    log.warning("windows of this time are made again", run=run.run_no, **named)
