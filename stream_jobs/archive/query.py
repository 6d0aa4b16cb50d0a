"""The archive's query: every record of the telemetry topic as it came, in Parquet, the master data set.

Names of files follow from the batch alone: one that runs again writes the same files over the old ones.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from infra.contract.verdict import LATE, OK, ClockLimits
from stream_jobs.app.database import Connection, Database, insert_rows
from stream_jobs.app.progress import note_late
from stream_jobs.app.schema import COORDINATES, IDENTITY
from stream_jobs.app.sinks import LATE_TABLE, BatchClaims
from stream_jobs.archive.manifest import hour_of
from stream_jobs.archive.writer import EXCEPTION, HourFiles, place
from stream_jobs.vehicles.rows import LateVehicleFrames, tables_of

_SPARK_TYPES: Final = {pa.string(): "string", pa.int32(): "int", pa.int64(): "bigint"}
_EXCEPTION_TYPE: Final = ", ".join(f"{name} {_SPARK_TYPES[kind]}" for name, kind in EXCEPTION.items())

QUERY: Final = "archive"
QUARANTINE_TABLE: Final = "odograph.quarantined_frame"
LATE_COLUMNS: Final = (*COORDINATES, *IDENTITY, "t0_ms", "span_ms", "received_at", "repaired_at", "deferred")
QUARANTINE_COLUMNS: Final = (*COORDINATES, *IDENTITY, "t0_ms", "received_at", "verdict")


@dataclass(frozen=True, slots=True)
class ArchiveSink:
    """foreachBatch writer: files first, then the batch's exceptions in one transaction: late and quarantined
    frames, and those of the topic ``deferred`` that were in time.
    """

    database: Database
    claims: BatchClaims
    folder: Path
    limits: ClockLimits
    deferred: str = ""

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Archive the batch, whatever it takes."""
        stem = f"{self.claims.query_id[:8]}-{batch_id:09d}"
        staging = self.folder.parent / ".staging" / stem
        # One file an hour of receipt, in the order of the log; what an earlier run left there goes.
        shutil.rmtree(staging, ignore_errors=True)
        write = HourFiles(staging.absolute(), self.limits, self.deferred)
        exceptions = batch.coalesce(1).mapInArrow(write.__call__, _EXCEPTION_TYPE).toArrow()
        publish(staging, self.folder, stem)
        self.database.run(lambda connection: self.write(connection, exceptions, batch_id))

    def write(self, connection: Connection, exceptions: pa.Table, batch_id: int) -> None:
        """The batch's exceptions; nothing where the ledger has it."""
        if not exceptions.num_rows or not self.claims.claim(connection, batch_id, exceptions.num_rows):
            return
        note_late(connection, QUERY, int(time.time() * 1000))
        note_exceptions(connection, exceptions)
        _note_vehicles(connection, exceptions.filter(pc.equal(exceptions["verdict"], OK)))


def _note_vehicles(connection: Connection, deferred: pa.Table) -> None:
    """Vehicles whose journeys lack the frames: the stream has never seen these, and cannot say so."""
    if not deferred.num_rows:
        return
    until_ms = pc.add(deferred["t0_ms"], deferred["span_ms"])
    told = deferred.append_column("until_ms", until_ms).group_by("vehicle_id").aggregate(
        [("t0_ms", "min"), ("until_ms", "max"), ("received_ms", "max"), ("seq", "count")]
    )  # fmt: skip
    columns = [
        told[name].to_pylist()
        for name in ("vehicle_id", "t0_ms_min", "until_ms_max", "received_ms_max", "seq_count")
    ]
    for table, rows in tables_of(map(LateVehicleFrames, *columns)).items():
        insert_rows(connection, table.name, rows)


def note_exceptions(connection: Connection, found: pa.Table, repaired_at: datetime | None = None) -> int:
    """Late and quarantined frames (columns EXCEPTION) into their lists, those put off with the late ones.

    How many are late or put off.

    ``repaired_at``: when the late ones were taken into their windows, if they are.
    """
    received_at = found["received_ms"].cast(pa.timestamp("ms", tz="UTC"))
    repaired = pa.array([repaired_at] * found.num_rows, pa.timestamp("us", tz="UTC"))
    found = found.append_column("received_at", received_at).append_column("repaired_at", repaired)
    deferred = pc.equal(found["verdict"], OK)
    is_late = pc.or_(deferred, pc.equal(found["verdict"], LATE))
    found = found.append_column("deferred", deferred)
    late, quarantined = found.filter(is_late), found.filter(pc.invert(is_late))
    insert_rows(connection, LATE_TABLE, late.select(LATE_COLUMNS))
    insert_rows(connection, QUARANTINE_TABLE, quarantined.select(QUARANTINE_COLUMNS))
    return int(late.num_rows)


def publish(staging: Path, folder: Path, stem: str) -> None:
    """Move the staged files to their places; each becomes visible whole, over any copy of an earlier run.

    Their order, and so their names, is the same when the batch runs again.
    """
    staged = staging.glob("date=*/hour=*/*.parquet")
    for part, path in enumerate(sorted(staged, key=lambda path: (path.parent, path.name[:10]))):
        hour_ms = hour_of(path.parent)
        assert hour_ms is not None
        place(folder.parent, hour_ms, path, f"{stem}-{part:03d}.parquet")
    shutil.rmtree(staging, ignore_errors=True)  # a batch without records wrote nothing
