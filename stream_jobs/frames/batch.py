"""A batch of frames, parsed and judged once: what windows, vehicles' memories and rules all start from."""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from infra.contract.frame import CODE_CHARS, CODES, MAX_DT_MS, MAX_INT, MAX_SAMPLES
from infra.contract.topics import VEHICLE_ID
from infra.contract.verdict import OK, UNREADABLE, ClockLimits, exceptions
from stream_jobs.frames.arrays import Flags, Frames, Ints, frames_of
from stream_jobs.frames.reading import read

_KEPT: Final = ("partition", "log_offset", "received_ms")  # what is kept of a record beside its payload
RECORD: Final = (*_KEPT, "value")  # columns that records have; some ``key`` and ``verdict`` too


def frame_batch(records: pa.RecordBatch, limits: ClockLimits) -> Frames | None:
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
    kept = (records.column(name).to_numpy()[chosen] for name in _KEPT)
    return frames_of(table.combine_chunks(), verdict[chosen], *kept)


RANGES: Final = dict.fromkeys(("boot_id", "seq", "t0_ms"), (0, MAX_INT)) | {
    "dt_ms": (1, MAX_DT_MS), "n": (1, MAX_SAMPLES),
}  # fmt: skip
"""What the contract allows a head's number to be; no arithmetic on it can overflow then."""
VIN: Final = rf"\A{VEHICLE_ID.pattern}\z"  # as RE2 and Java read it
NUL: Final = "\0"


def in_range(table: pa.Table) -> pa.Table:
    """``table`` with what the contract does not allow null: the head's numbers, vehicle ids, codes.

    The bridge lets none of it in; another producer may.
    """
    columns = dict(zip(table.column_names, table.columns, strict=True))
    for name, (low, high) in RANGES.items():
        column = columns[name]
        plausible = pc.and_(pc.greater_equal(column, low), pc.less_equal(column, high))
        columns[name] = pc.if_else(plausible, column, None)
    ids = columns["vehicle_id"]
    columns["vehicle_id"] = pc.if_else(pc.match_substring_regex(ids, VIN), ids, None)
    if "dtc_codes" in columns:
        columns["dtc_codes"] = _codes_bounded(columns["dtc_codes"].combine_chunks())
    return pa.table(columns)


def _codes_bounded(codes: pa.ListArray) -> pa.ListArray:
    texts, parents = codes.flatten(), pc.list_parent_indices(codes)
    wrong = pc.or_(pc.greater(pc.utf8_length(texts), CODE_CHARS), pc.match_substring(texts, NUL))
    good = pc.fill_null(pc.list_value_length(codes), 0).to_numpy() <= CODES
    good[parents.filter(wrong).to_numpy()] = False
    return codes if good.all() else pc.if_else(pa.array(good), codes, None)


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
