"""Parquet files with the columns of the live archive, written by receive time.

The coordinates are made up: the run's own topic name, the partition by vehicle, offsets without gaps. The
receive time is when the message is due on the run's clock, so the verdict is the one it would have got live.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from edge_simulator.telemetry.outbox import Outgoing
from infra.contract.verdict import ClockLimits, verdict

PARTITIONS = 4
ROWS = 20_000
"""Rows of a row group."""
HOUR_MS = 3_600_000

RECORD = pa.schema([
    ("topic", pa.string()), ("partition", pa.int32()), ("log_offset", pa.int64()), ("key", pa.binary()),
    ("received_ms", pa.int64()), ("value", pa.binary()),
])  # fmt: skip
ARCHIVED = pa.schema([
    *RECORD, ("vehicle_id", pa.string()), ("boot_id", pa.int64()), ("seq", pa.int64()), ("t0_ms", pa.int64()),
    ("span_ms", pa.int64()), ("n", pa.int64()), ("verdict", pa.string()),
])  # fmt: skip


class RecordFile:
    """One topic's records in one file; also numbers the records of a topic that lies in several."""

    def __init__(
        self, path: Path, topic: str, vehicle_ids: Sequence[str], schema: pa.Schema = RECORD
    ) -> None:
        self._topic = topic
        self._ids = vehicle_ids
        self._offsets = [0] * PARTITIONS
        self._schema = schema
        self._rows: list[tuple[object, ...]] = []
        self._file = pq.ParquetWriter(path, schema, compression="zstd")

    def __enter__(self) -> Self:
        return self

    def take(self, items: Iterable[Outgoing]) -> None:
        """Add messages in the order of their receive times."""
        self.add(self.record(item) for item in items)

    def add(self, rows: Iterable[tuple[object, ...]]) -> None:
        """Add rows of the file's schema."""
        self._rows.extend(rows)
        if len(self._rows) >= ROWS:
            self._flush()

    def record(self, item: Outgoing) -> tuple[object, ...]:
        """The record of a message, with the next offset of its partition."""
        part = item.vehicle % PARTITIONS
        offset = self._offsets[part]
        self._offsets[part] += 1
        return (self._topic, part, offset, self._ids[item.vehicle].encode(), item.due_ms, item.payload)

    def turn(self, path: Path) -> None:
        """Go on in another file; the offsets go on too."""
        self.close()
        self._file = pq.ParquetWriter(path, self._schema, compression="zstd")

    def _flush(self) -> None:
        if self._rows:
            columns = [
                pa.array(values, kind)
                for values, kind in zip(zip(*self._rows, strict=True), self._schema.types, strict=True)
            ]
            self._file.write_table(pa.table(columns, schema=self._schema))
            self._rows.clear()

    def close(self) -> None:
        """Write what is left and the file's footer."""
        self._flush()
        self._file.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class HourFiles:
    """Telemetry by hour of receipt, UTC; ``verdicts`` counts what was written."""

    def __init__(self, folder: Path, run_id: str, vehicle_ids: Sequence[str], limits: ClockLimits) -> None:
        self._folder = folder
        self._run_id = run_id
        self._ids = vehicle_ids
        self._limits = limits
        self._hour = -1
        self._file: RecordFile | None = None
        self.verdicts: Counter[str] = Counter()

    def __enter__(self) -> Self:
        return self

    def take(self, items: Iterable[Outgoing]) -> None:
        """Add readable frames; they come in the order of their receive times."""
        for item in items:
            file = self._of(item.due_ms // HOUR_MS)
            frame = orjson.loads(item.payload)
            span_ms = (frame["n"] - 1) * frame["dt_ms"]
            word = verdict(frame["t0_ms"], span_ms, item.due_ms, self._limits)
            self.verdicts[word] += 1
            head = (frame["vehicle_id"], frame["boot_id"], frame["seq"], frame["t0_ms"])
            file.add([(*file.record(item), *head, span_ms, frame["n"], word)])

    def _of(self, hour: int) -> RecordFile:
        """The file of an hour; a new one when the hour has changed."""
        if self._file is not None and hour <= self._hour:
            return self._file
        at = datetime.fromtimestamp(hour * HOUR_MS / 1000, UTC)
        path = self._folder / f"date={at:%Y-%m-%d}" / f"hour={at:%H}" / f"{self._run_id}.parquet"
        path.parent.mkdir(parents=True)
        if self._file is None:
            self._file = RecordFile(path, f"{self._run_id}.telemetry", self._ids, ARCHIVED)
        else:
            self._file.turn(path)
        self._hour = hour
        return self._file

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
