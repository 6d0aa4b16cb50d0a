"""The stage of SQL on the stream, in Python workers: records in, frames with the signals asked for out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from infra.contract.signals import BY_NAME
from infra.contract.verdict import OK, ClockLimits
from stream_jobs.frames import heads
from stream_jobs.frames.plausibility import POSITION, by_sample, plausible_columns
from stream_jobs.frames.reading import FRAME_SCHEMA, HEAD_SCHEMA, read

HEAD: Final = ("vehicle_id", "boot_id", "seq", "t0_ms", "dt_ms", "n")


@dataclass(frozen=True, slots=True)
class FrameStage:
    """Frames with verdict ok; out of range is null, and so is a position of exactly 0, 0.

    A fast signal is an array of as many values as the frame has samples.
    """

    signals: tuple[str, ...]
    limits: ClockLimits

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """A row a frame."""
        return (self.frames(batch) for batch in batches)

    def frames(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of one batch of records."""
        asked = {*self.signals, *(POSITION if set(POSITION) & set(self.signals) else ())}
        schema = pa.schema([*HEAD_SCHEMA, *(FRAME_SCHEMA.field(name) for name in sorted(asked))])
        table = heads.in_range(read(batch.column("value"), schema))
        verdicts = heads.verdicts(table, batch.column("received_ms").to_numpy(), self.limits)
        chosen = pa.array(verdicts == OK)
        table = table.filter(chosen).combine_chunks()
        columns = {name: table[name].combine_chunks() for name in HEAD}
        columns["received_ms"] = batch.column("received_ms").filter(chosen)
        for name in self.signals:
            columns[name] = _clean(table, name)
        return pa.RecordBatch.from_pydict(columns)


def _clean(table: pa.Table, name: str) -> pa.Array:
    column = plausible_columns(table, (name,))[name]
    if BY_NAME[name].rate == "slow":
        return column
    n = table["n"].to_numpy()
    values = by_sample(column, n)
    offsets = pa.array(np.concatenate([[0], np.cumsum(n)]), pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.array(values, pa.float64(), mask=np.isnan(values)))
