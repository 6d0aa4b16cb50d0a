"""The archive's part that runs in a Python worker: records with their index columns, into Parquet by hour.

A record's bytes go from Kafka to the file as they are; only its head is read, for the verdict and the index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from infra.contract.topics import VEHICLE_ID
from infra.contract.verdict import OK, ClockLimits
from stream_jobs.archive import format as parquet
from stream_jobs.archive.layout import HOUR_MS
from stream_jobs.frames import heads
from stream_jobs.frames.head_reading import read_heads

UNKNOWN: Final = -1
"""Stands for a number that an unreadable record does not give."""
RECORD: Final = ("topic", "partition", "log_offset", "key", "received_ms", "value")
EXCEPTION: Final = {
    "topic": pa.string(), "partition": pa.int32(), "log_offset": pa.int64(), "vehicle_id": pa.string(),
    "boot_id": pa.int64(), "seq": pa.int64(), "t0_ms": pa.int64(), "span_ms": pa.int64(),
    "verdict": pa.string(), "received_ms": pa.int64(),
}  # fmt: skip
"""What the database hears of a record whose verdict is not ok."""


def indexed(batch: pa.RecordBatch, limits: ClockLimits) -> pa.Table:
    """Records with the index columns of the archive."""
    table = heads.in_range(read_heads(batch.column("value")))
    verdict = heads.verdicts(table, batch.column("received_ms").to_numpy(), limits, batch.column("key"))
    span_ms = pc.multiply(pc.subtract(table["n"], 1), table["dt_ms"])
    columns = {name: batch.column(name) for name in RECORD}
    columns["vehicle_id"] = pc.coalesce(table["vehicle_id"], _vehicle(batch.column("key")), "")
    numbers = {"boot_id": table["boot_id"], "seq": table["seq"], "t0_ms": table["t0_ms"]}
    numbers |= {"span_ms": span_ms, "n": table["n"]}
    columns |= {name: pc.fill_null(column, UNKNOWN) for name, column in numbers.items()}
    return pa.table(columns | {"verdict": pa.array(verdict, pa.string())})


def _vehicle(keys: pa.BinaryArray) -> pa.Array:
    """Keys that are vehicle ids, else null; there are few different ones."""
    coded = keys.dictionary_encode()
    texts = (key.decode(errors="replace") for key in coded.dictionary.to_pylist())
    vehicles = [text if VEHICLE_ID.fullmatch(text) else None for text in texts]
    return pa.array(vehicles, pa.string()).take(coded.indices)


@dataclass(frozen=True, slots=True)
class HourFiles:
    """Writes records below ``folder``, a file an hour of receipt, in their order; gives the exceptions."""

    folder: Path
    limits: ClockLimits

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Records whose verdict is not ok; the files are whole when the last of them is out."""
        with ExitStack() as files:
            writers: dict[int, pq.ParquetWriter] = {}
            for batch in batches:
                table = indexed(batch, self.limits)
                hours = table["received_ms"].to_numpy() // HOUR_MS
                for hour in np.unique(hours).tolist():
                    if hour not in writers:
                        writers[hour] = files.enter_context(self._writer(hour, table.schema))
                    writers[hour].write_table(table.filter(pa.array(hours == hour)))
                exceptions = table.filter(pc.not_equal(table["verdict"], OK)).select([*EXCEPTION])
                yield from exceptions.to_batches()

    def _writer(self, hour: int, schema: pa.Schema) -> pq.ParquetWriter:
        received = datetime.fromtimestamp(hour * HOUR_MS / 1000, UTC)
        path = self.folder / f"{received:date=%Y-%m-%d}" / f"{received:hour=%H}" / "part-00000.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        return parquet.writer(path, schema)
