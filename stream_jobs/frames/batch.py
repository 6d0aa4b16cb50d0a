"""A batch of frames, parsed and judged once: what windows, vehicles' memories and rules all start from."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from infra.contract.frame import CODE_CHARS, CODES, MAX_DT_MS, MAX_INT, MAX_SAMPLES
from infra.contract.topics import VEHICLE_ID
from infra.contract.verdict import LATE, OK, UNREADABLE, ClockLimits, exceptions
from stream_jobs.frames.arrays import Flags, Frames, Ints, frames_of
from stream_jobs.frames.reading import read

if TYPE_CHECKING:
    import pandas as pd


_KEPT: Final = ("partition", "log_offset", "received_ms")  # what is kept of a record beside its payload
RECORD: Final = (*_KEPT, "value")  # columns that records have; some ``key`` and ``verdict`` too
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
        return len(self.ok)

    def whole(self, name: str) -> Ints:
        """A number of the head: boot_id, seq, t0_ms, dt_ms or n."""
        values: Ints = self.table[name].to_numpy()
        return values

    @property
    def believed(self) -> Flags:
        return self.ok | self.late


def frame_batch(records: pa.RecordBatch, limits: ClockLimits) -> FrameBatch | None:
    """The frames in ``records`` (columns RECORD); None where none can be read.

    A ``verdict`` that records bring along is the one that the stream acted on, and stands. A frame under
    another vehicle's ``key`` is not that vehicle's, and nobody's.
    """
    table = in_range(read(records.column("value")))
    names = records.schema.names
    if "verdict" in names:
        verdict = records.column("verdict").to_numpy(zero_copy_only=False).astype(np.str_)
    else:
        keys = records.column("key") if "key" in names else None
        verdict = verdicts(table, records.column("received_ms").to_numpy(), limits, keys)
    chosen = readable(table) & (verdict != UNREADABLE)
    if not chosen.any():
        return None
    if not chosen.all():
        table = table.filter(pa.array(chosen))
    table, verdict = table.combine_chunks(), verdict[chosen]
    partition, log_offset, received_ms = (records.column(name).to_numpy()[chosen] for name in _KEPT)
    late, vehicles = verdict == LATE, table["vehicle_id"].combine_chunks()
    arrays = frames_of(table, late)
    return FrameBatch(table, vehicles, partition, log_offset, received_ms, verdict == OK, late, arrays)


def as_arrow(records: "pd.DataFrame") -> pa.RecordBatch:
    """Records as Spark hands them to Python."""
    kinds = {name: kind for name, kind in _TYPES.items() if name in records}
    columns = [pa.array(records[name], kind) for name, kind in kinds.items()]
    return pa.RecordBatch.from_arrays(columns, names=[*kinds])


RANGES: Final = {
    "boot_id": (0, MAX_INT),
    "seq": (0, MAX_INT),
    "t0_ms": (0, MAX_INT),
    "dt_ms": (1, MAX_DT_MS),
    "n": (1, MAX_SAMPLES),
}
"""What the contract allows a head's number to be; no arithmetic on it can overflow then."""
VIN: Final = rf"\A{VEHICLE_ID.pattern}\z"  # as RE2 and Java read it
NUL: Final = "\0"


def in_range(table: pa.Table) -> pa.Table:
    """``table`` with what the contract does not allow null: the head's numbers, vehicle ids, codes.

    The bridge lets none of it in; another producer may.
    """
    for name, (low, high) in RANGES.items():
        column = table[name]
        plausible = pc.and_(pc.greater_equal(column, low), pc.less_equal(column, high))
        cleaned = pc.if_else(plausible, column, None)
        table = table.set_column(table.schema.get_field_index(name), name, cleaned)
    names = pc.if_else(pc.match_substring_regex(table["vehicle_id"], VIN), table["vehicle_id"], None)
    table = table.set_column(table.schema.get_field_index("vehicle_id"), "vehicle_id", names)
    return _with_codes_bounded(table) if "dtc_codes" in table.column_names else table


def _with_codes_bounded(table: pa.Table) -> pa.Table:
    codes = table["dtc_codes"].combine_chunks()
    texts, parents = codes.flatten(), pc.list_parent_indices(codes)
    wrong = pc.or_(pc.greater(pc.utf8_length(texts), CODE_CHARS), pc.match_substring(texts, NUL))
    good = pc.fill_null(pc.list_value_length(codes), 0).to_numpy() <= CODES
    good[parents.filter(wrong).to_numpy()] = False
    if good.all():
        return table
    bounded = pc.if_else(pa.array(good), codes, None)
    return table.set_column(table.schema.get_field_index("dtc_codes"), "dtc_codes", bounded)


def readable(table: pa.Table) -> Flags:
    """Whether a record has a whole head."""
    known = [pc.is_valid(table[name]).to_numpy() for name in ("vehicle_id", *RANGES)]
    whole: Flags = np.logical_and.reduce(known)
    return whole


def verdicts(
    table: pa.Table, received_ms: Ints, limits: ClockLimits, keys: pa.BinaryArray | None = None
) -> npt.NDArray[np.str_]:
    """The first verdict that fits; what lies under another vehicle's key (``keys``) is nobody's frame."""
    t0_ms, dt_ms, n = (pc.fill_null(table[name], 0).to_numpy() for name in ("t0_ms", "dt_ms", "n"))
    whole = readable(table)
    if keys is not None:
        whole &= pc.fill_null(pc.equal(table["vehicle_id"].cast(pa.binary()), keys), False).to_numpy()
    found = [(~whole, UNREADABLE), *exceptions(t0_ms, (n - 1) * dt_ms, received_ms, limits)]
    return np.select([fits for fits, _ in found], [word for _, word in found], OK)
