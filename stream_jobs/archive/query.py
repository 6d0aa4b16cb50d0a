"""The archive's query: every record of the telemetry topic as it came, in Parquet, the master data set.

Workers give back whole files; they count when they hold just the records between the batch's offsets. Names
of files follow from the batch alone: what one that runs again writes takes the places of the old ones.
"""

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from infra.contract.errors import ArchiveError
from infra.contract.topics import DEFERRED, kafka_topic
from infra.contract.verdict import ERASED, LATE, OK, clock_limits
from infra.settings.settings import Endpoints, Settings
from infra.stack.query_offsets import Stretches
from stream_jobs.app.database import Connection, Database, insert_rows
from stream_jobs.app.schema import COORDINATES, IDENTITY, LOG
from stream_jobs.app.sinks import LATE_TABLE
from stream_jobs.archive import reader
from stream_jobs.archive.manifest import Entry, archive_of, described
from stream_jobs.archive.writer import EXCEPTION, WRITTEN, Written, files_of, hour_files, place, withdraw
from stream_jobs.recovery.ledger import BEGUN, BatchClaims, Gap
from stream_jobs.vehicles.rows import LateVehicleFrames, tables_of

QUARANTINE_TABLE: Final = "odograph.quarantined_frame"
LATE_COLUMNS: Final = (
    *COORDINATES, LOG, *IDENTITY, "t0_ms", "span_ms", "received_at", "repaired_at", "deferred"
)  # fmt: skip
QUARANTINE_COLUMNS: Final = (*COORDINATES, LOG, *IDENTITY, "t0_ms", "received_at", "verdict")


def archived(records: DataFrame, settings: Settings) -> DataFrame:
    """Records of a stream -> their files, rows of WRITTEN, each task in the log's order."""
    limits = clock_limits(settings)
    writers = records.coalesce(settings.archive.writers)
    return writers.mapInArrow(lambda some: hour_files(some, limits), from_arrow_schema(WRITTEN))


@dataclass(frozen=True, slots=True)
class ArchiveSink:
    """foreachBatch writer of what was ``archived``: files, then late, quarantined and deferred frames in one
    transaction.
    """

    database: Database
    claims: BatchClaims
    settings: Settings

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        stem = f"{self.claims.query_id[:8]}-{batch_id:09d}"
        folder, deferred = archive_of(self.settings.paths.home), deferred_topic(self.settings)
        wanted, logs = self.claims.range_of(batch_id), self.claims.logs
        exceptions = publish(files_of(batch.toArrow()), folder, stem, wanted, logs, deferred)
        self.database.run(lambda connection: self.write(connection, exceptions, batch_id))

    def write(self, connection: Connection, exceptions: Sequence[pa.Table], batch_id: int) -> None:
        """The batch's exceptions; nothing where the ledger has it."""
        if self.claims.claim(connection, batch_id, sum(found.num_rows for found in exceptions)):
            for found in exceptions:
                note_exceptions(connection, found, self.claims.logs)


def deferred_topic(settings: Settings) -> str:
    """The full name of the topic of what was put off because of overload."""
    return kafka_topic(settings.kafka.prefix, DEFERRED)


def exceptions_in(files: Iterable[Path], deferred: str = "") -> Iterator[pa.Table]:
    """What the database hears of the records of files (columns EXCEPTION), a table a file that has any: of
    those whose verdict is not ok, and all of the topic ``deferred``; nothing of erased ones.
    """
    told = (pc.field("verdict") != OK) | (pc.field("topic") == deferred)
    kept = told & (pc.field("verdict") != ERASED)
    for path in files:
        found = pq.read_table(path, columns=[*EXCEPTION], filters=kept, partitioning=None)
        if found.num_rows:
            yield found


def _note_vehicles(connection: Connection, deferred: pa.Table) -> None:
    """Vehicles whose journeys lack what was put off: the stream has never seen it, and cannot say so."""
    until_ms = pc.add(deferred["t0_ms"], deferred["span_ms"])
    told = deferred.append_column("until_ms", until_ms).group_by("vehicle_id").aggregate(
        [("t0_ms", "min"), ("until_ms", "max"), ("received_ms", "max"), ("seq", "count")]
    )  # fmt: skip
    names = ("vehicle_id", "t0_ms_min", "until_ms_max", "received_ms_max", "seq_count")
    columns = told.select(names).to_pydict().values()
    for table, rows in tables_of(map(LateVehicleFrames, *columns)).items():
        insert_rows(connection, table.name, rows)


def note_exceptions(
    connection: Connection, found: pa.Table, logs: Mapping[str, str], repaired_at: datetime | None = None
) -> int:
    """Late, put off and quarantined frames (columns EXCEPTION) into their lists, and whose were put off; how
    many frames of the former two.

    ``logs``: by topic the log that they are places in. ``repaired_at``: when late ones came into windows.
    """
    is_late = pc.is_in(found["verdict"], pa.array([OK, LATE]))
    unseen = pc.and_(is_late, pc.ends_with(found["topic"], DEFERRED))  # in time or late
    if pc.any(unseen).as_py():
        _note_vehicles(connection, found.filter(unseen))
    for name, column in {
        "received_at": found["received_ms"].cast(pa.timestamp("ms", tz="UTC")),
        "repaired_at": pa.array([repaired_at] * found.num_rows, pa.timestamp("us", tz="UTC")),
        "deferred": pc.equal(found["verdict"], OK),
        LOG: pa.array([logs.get(topic, "") for topic in found["topic"].to_pylist()], pa.string()),
    }.items():
        found = found.append_column(name, column)
    late, quarantined = found.filter(is_late), found.filter(pc.invert(is_late))
    insert_rows(connection, LATE_TABLE, late.select(LATE_COLUMNS))
    insert_rows(connection, QUARANTINE_TABLE, quarantined.select(QUARANTINE_COLUMNS))
    return int(late.num_rows)


def note_again(settings: Settings, _where: Endpoints, connection: Connection, gap: Gap) -> None:
    """The exceptions of a gap from its files, which are there, into a database that has lost them.

    Not those of all the archive, into one that has nothing of it: ``odograph recompute`` makes any time.
    """
    if gap.line == BEGUN:
        return
    lost = gap.differing()
    for file in reader.files(archive_of(settings.paths.home)):
        offsets = () if file.entry is None else file.entry.offsets
        if any(
            each.last >= min(lost.get((each.topic, each.partition), (each.last + 1,))) for each in offsets
        ):
            for found in exceptions_in([file.path], deferred_topic(settings)):
                note_exceptions(connection, found, file.logs)


def publish(
    files: Sequence[Written], folder: Path, stem: str, wanted: Stretches, logs: Mapping[str, str],
    deferred: str,
) -> list[pa.Table]:  # fmt: skip
    """Put a batch's files to their places; each becomes visible whole, over any copy of an earlier run. What
    that had more goes first: it may have cut the records otherwise. The exceptions in them.

    Raises ArchiveError, and leaves the archive as it was, where they do not hold the records ``wanted``.
    """
    staging = folder / ".staging" / stem
    shutil.rmtree(staging, ignore_errors=True)  # what a killed run left
    staged: list[tuple[int, Path, Entry]] = []
    for part, file in enumerate(files):
        path = staging / f"{stem}-{part:03d}.parquet"
        file.write(path)
        staged.append((file.hour_ms, path, described(path, path.name, logs)))
        if staged[-1][2].sha256 != file.sha256:
            raise ArchiveError(f"{path} has other bytes than a worker sent: the batch is not archived")
    check_whole([entry for _, _, entry in staged], wanted)
    exceptions = [*exceptions_in((path for _, path, _ in staged), deferred)]
    for hour_ms in {hour_ms for hour_ms, _, _ in staged}:
        withdraw(folder, hour_ms, stem, {e.name for hour, _, e in staged if hour == hour_ms})
    for hour_ms, path, entry in staged:
        place(folder, hour_ms, path, entry)
    shutil.rmtree(staging, ignore_errors=True)  # a batch without records wrote nothing
    return exceptions


def check_whole(entries: list[Entry], wanted: Stretches) -> None:
    """Raises ArchiveError unless the files hold each record ``wanted`` once, of each partition."""
    found: dict[tuple[str, int], list[Any]] = {}
    for offsets in (each for entry in entries for each in entry.offsets):
        found.setdefault((offsets.topic, offsets.partition), []).append(offsets)
    for place_of, (first, end) in wanted.items():
        files = found.pop(place_of, [])
        begin = min((each.first for each in files), default=end) if first is None else first
        last, count = max((each.last for each in files), default=begin - 1), sum(each.count for each in files)
        if (last + 1, count) != (end, end - begin):
            topic, partition = place_of
            raise ArchiveError(
                f"archive: a batch has {end - begin} records of {topic} {partition}, from {begin} to {end}; "
                f"its files have {count}, up to {last + 1}: it is not archived, and is run again"
            )
    if found:
        raise ArchiveError(f"archive: files with records that are not in their batch: {sorted(found)}")
