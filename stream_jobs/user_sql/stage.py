"""The stage of SQL on the stream, in Python workers: records in, frames with the signals asked for out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from infra.contract.signals import BY_NAME, Signal
from infra.contract.verdict import OK, ClockLimits
from stream_jobs.partials import heads
from stream_jobs.partials.frames import POSITION
from stream_jobs.partials.reading import FRAME_SCHEMA, HEAD_SCHEMA, read

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
            columns[name] = _clean(table, BY_NAME[name])
        return pa.RecordBatch.from_pydict(columns)


def _clean(table: pa.Table, signal: Signal) -> pa.Array:
    column = table[signal.name].combine_chunks()
    if signal.kind != "number":
        return column
    if signal.rate == "slow":
        return _plausible(column, signal)
    n = table["n"].to_numpy()
    by_sample = _plausible(_by_sample(column, n), signal)
    if signal.name in POSITION:
        lat, lon = (_by_sample(table[name].combine_chunks(), n) for name in POSITION)
        nowhere = pc.fill_null(pc.and_(pc.equal(lat, 0.0), pc.equal(lon, 0.0)), False)
        by_sample = pc.if_else(nowhere, pa.scalar(None, pa.float64()), by_sample)
    offsets = pa.array(np.concatenate([[0], np.cumsum(n)]), pa.int32())
    return pa.ListArray.from_arrays(offsets, by_sample)


def _by_sample(column: pa.ListArray, n: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Array:
    """Values of a fast signal, ``n`` a frame: what is missing is null, what is too many goes."""
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy().astype(np.int64)
    values = column.flatten()
    if np.array_equal(lengths, n):
        return values
    of_sample = np.repeat(np.arange(len(n)), n)
    index = np.arange(len(of_sample)) - np.repeat(np.cumsum(n) - n, n)
    at = (np.cumsum(lengths) - lengths)[of_sample] + index
    return values.take(pa.array(at, mask=index >= lengths[of_sample]))


def _plausible(values: pa.Array, signal: Signal) -> pa.Array:
    inside = pc.and_(pc.greater_equal(values, signal.minimum), pc.less_equal(values, signal.maximum))
    return pc.if_else(inside, values, pa.scalar(None, pa.float64()))
