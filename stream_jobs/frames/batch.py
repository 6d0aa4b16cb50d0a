"""A batch of frames, parsed and judged once: what windows, vehicles' memories and rules all start from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from infra.contract.verdict import LATE, OK, UNREADABLE, ClockLimits
from stream_jobs.frames import heads
from stream_jobs.frames.arrays import Flags, Frames, Ints, frames_of
from stream_jobs.frames.reading import read

if TYPE_CHECKING:
    import pandas as pd

_KEPT: Final = ("partition", "log_offset", "received_ms")
"""What is kept of a record beside its payload."""
RECORD: Final = (*_KEPT, "value")
"""Columns that records have; ``key`` and ``verdict`` besides where there are some."""
_TYPES: Final = {
    "key": pa.binary(), "partition": pa.int32(), "log_offset": pa.int64(), "received_ms": pa.int64(),
    "value": pa.binary(), "verdict": pa.string(),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class FrameBatch:
    """The readable frames of a batch of records, in their order; arrays of shape [n_frames].

    ``table``: the contract's fields as they came (reading.FRAME_SCHEMA); ``arrays``: the signals in whole
    steps, what is not plausible taken out. Times in ms since 1970.
    """

    table: pa.Table
    vehicles: pa.StringArray
    partition: Ints
    log_offset: Ints
    received_ms: Ints
    ok: Flags
    late: Flags
    arrays: Frames

    def __len__(self) -> int:
        """Number of frames."""
        return len(self.ok)

    def whole(self, name: str) -> Ints:
        """A number of the head: boot_id, seq, t0_ms, dt_ms or n."""
        values: Ints = self.table[name].to_numpy()
        return values

    @property
    def believed(self) -> Flags:
        """Whether the clock is believed: the verdict is ok or late."""
        return self.ok | self.late


def frame_batch(records: pa.RecordBatch, limits: ClockLimits) -> FrameBatch | None:
    """The frames in ``records`` (columns RECORD); None where none can be read.

    A ``verdict`` that records bring along is the one that the stream acted on, and stands. A frame under
    another vehicle's ``key`` is not that vehicle's, and nobody's.
    """
    table = heads.in_range(read(records.column("value")))
    names = records.schema.names
    if "verdict" in names:
        verdict = records.column("verdict").to_numpy(zero_copy_only=False).astype(np.str_)
    else:
        keys = records.column("key") if "key" in names else None
        verdict = heads.verdicts(table, records.column("received_ms").to_numpy(), limits, keys)
    chosen = heads.readable(table) & (verdict != UNREADABLE)
    if not chosen.any():
        return None
    if not chosen.all():
        table = table.filter(pa.array(chosen))
    table, verdict = table.combine_chunks(), verdict[chosen]
    partition, log_offset, received_ms = (records.column(name).to_numpy()[chosen] for name in _KEPT)
    late, vehicles = verdict == LATE, table["vehicle_id"].combine_chunks()
    arrays = frames_of(table, late)
    return FrameBatch(table, vehicles, partition, log_offset, received_ms, verdict == OK, late, arrays)


def as_arrow(records: pd.DataFrame) -> pa.RecordBatch:
    """Records as Spark hands them to Python."""
    kinds = {name: kind for name, kind in _TYPES.items() if name in records}
    columns = [pa.array(records[name], kind) for name, kind in kinds.items()]
    return pa.RecordBatch.from_arrays(columns, names=[*kinds])
