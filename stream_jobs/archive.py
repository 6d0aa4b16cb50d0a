"""The archive: every record of the telemetry topic as it came, in Parquet, the master data set.

``<home>/archive/telemetry/date=YYYY-MM-DD/hour=HH/<query>-<batch>-<part>.parquet`` by receive time, UTC: the
raw bytes with their Kafka coordinates, and index columns that spare a reader the parsing. The names follow
from the batch alone. A batch that runs again after a crash writes the same files over the old ones, so the
folder holds each record once at any time and needs no commit log: any Parquet reader takes it as it is.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  Spark's own convention

from infra.contract.verdict import LATE, OK, ClockLimits
from stream_jobs.quality import parse, with_verdict
from stream_jobs.schema import IDENTITY, head_schema
from stream_jobs.sinks import BatchClaims, Connection, Database, insert_rows

COORDINATES: Final = ("topic", "partition", "log_offset")
INDEX: Final = (*IDENTITY, "t0_ms", "span_ms", "n", "verdict")
UNKNOWN: Final = -1
"""Stands for a number that an unreadable record does not give."""

LATE_TABLE: Final = "odograph.late_frame"
QUARANTINE_TABLE: Final = "odograph.quarantined_frame"
_LATE_COLUMNS: Final = (*COORDINATES, *IDENTITY, "t0_ms", "span_ms", "received_at")
_QUARANTINE_COLUMNS: Final = (*COORDINATES, *IDENTITY, "t0_ms", "received_at", "verdict")


def archive_folder(home: Path) -> Path:
    """The root of the telemetry archive."""
    return home / "archive" / "telemetry"


def archived_columns(records: DataFrame, limits: ClockLimits) -> DataFrame:
    """Records as they lie in the archive, with the partition columns ``date`` and ``hour``."""
    judged = with_verdict(parse(records.withColumn("raw", F.col("value")), head_schema()), limits)
    received = F.timestamp_millis("received_ms")
    known = [F.coalesce(F.col(name), F.lit(UNKNOWN)).alias(name) for name in INDEX if name not in _TEXT]
    return judged.select(
        *COORDINATES,
        "key",
        "received_ms",
        F.col("raw").alias("value"),
        F.coalesce("vehicle_id", F.col("key").cast("string"), F.lit("")).alias("vehicle_id"),
        *known,
        "verdict",
        F.date_format(received, "yyyy-MM-dd").alias("date"),
        F.date_format(received, "HH").alias("hour"),
    )


_TEXT: Final = ("vehicle_id", "verdict")


class ArchiveSink:
    """foreachBatch writer: files first, then the batch's late and quarantined frames in one transaction."""

    def __init__(
        self, database: Database, claims: BatchClaims, folder: Path, note_late: Callable[[], None]
    ) -> None:
        self._database = database
        self._claims = claims
        self._folder = folder
        self._note_late = note_late

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Archive the batch, whatever it takes."""
        stem = f"{self._claims.query_id[:8]}-{batch_id:09d}"
        staging = self._folder.parent / ".staging" / stem
        write_staged(batch, staging)
        exceptions = exceptions_of(staging)
        publish(staging, self._folder, stem)
        self._database.run(lambda connection: self.write(connection, exceptions, batch_id))

    def write(self, connection: Connection, exceptions: pa.Table, batch_id: int) -> None:
        """Late and quarantined frames of the batch; nothing where the ledger has it."""
        if not exceptions.num_rows or not self._claims.claim(connection, batch_id, exceptions.num_rows):
            return
        self._note_late()
        late = pc.equal(exceptions["verdict"], LATE)
        insert_rows(connection, LATE_TABLE, exceptions.filter(late).select(_LATE_COLUMNS))
        quarantined = exceptions.filter(pc.invert(late)).select(_QUARANTINE_COLUMNS)
        insert_rows(connection, QUARANTINE_TABLE, quarantined)


def write_staged(batch: DataFrame, staging: Path) -> None:
    """The batch as Parquet below ``staging``, one file an hour of receipt, in the order of the log."""
    ordered = batch.coalesce(1)
    writer = ordered.write.mode("overwrite").partitionBy("date", "hour").option("compression", "zstd")
    writer.parquet(str(staging.absolute()))


def exceptions_of(staging: Path) -> pa.Table:
    """Records under ``staging`` whose verdict is not ok, with ``received_at``."""
    columns = [*COORDINATES, *IDENTITY, "t0_ms", "span_ms", "verdict", "received_ms"]
    schema = {"partition": pa.int32()}
    tables = [
        pq.read_table(path, columns=columns, filters=pc.field("verdict") != OK, partitioning=None)
        for path in staged_files(staging)
    ]
    if not tables:
        return pa.table({name: pa.array([], schema.get(name, pa.string())) for name in columns})
    found = pa.concat_tables(tables)
    received_at = found["received_ms"].cast(pa.timestamp("ms", tz="UTC"))
    return found.append_column("received_at", received_at)


def publish(staging: Path, folder: Path, stem: str) -> None:
    """Move the staged files to their places; each becomes visible whole, over any copy of an earlier run."""
    for part, path in enumerate(staged_files(staging)):
        target = folder / path.parent.relative_to(staging) / f"{stem}-{part:03d}.parquet"
        target.parent.mkdir(parents=True, exist_ok=True)
        _sync(path)
        path.replace(target)
        _sync(target.parent)
    shutil.rmtree(staging)


def staged_files(staging: Path) -> list[Path]:
    """Parquet files below ``staging``, in an order that a second run of the batch repeats."""
    return sorted(staging.glob("date=*/hour=*/*.parquet"), key=lambda path: (path.parent, path.name[:10]))


def _sync(path: Path) -> None:
    """To the disk: Spark's own commit follows and is believed after a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
