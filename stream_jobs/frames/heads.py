"""The verdict on each record of a batch: infra/contract/verdict.py by array."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from infra.contract.frame import CODE_CHARS, CODES, MAX_DT_MS, MAX_INT, MAX_SAMPLES
from infra.contract.topics import VEHICLE_ID
from infra.contract.verdict import CLOCK_AHEAD, CLOCK_UNSET, LATE, OK, UNREADABLE, ClockLimits
from stream_jobs.frames.arrays import Flags, Ints

RANGES: Final = {
    "boot_id": (0, MAX_INT),
    "seq": (0, MAX_INT),
    "t0_ms": (0, MAX_INT),
    "dt_ms": (1, MAX_DT_MS),
    "n": (1, MAX_SAMPLES),
}
"""What the contract allows a head's number to be; no arithmetic on it can overflow then."""
VIN: Final = rf"\A{VEHICLE_ID.pattern}\z"
"""As RE2 and Java read it."""
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
    codes = table["dtc_codes"]
    texts = pc.list_flatten(codes)
    most, longest = pc.max(pc.list_value_length(codes)).as_py(), pc.max(pc.binary_length(texts)).as_py()
    if (
        (most or 0) <= CODES
        and (longest or 0) <= CODE_CHARS
        and not pc.any(pc.match_substring(texts, NUL)).as_py()
    ):
        return table
    cleaned = pa.array([None if not _bounded(row) else row for row in codes.to_pylist()], codes.type)
    return table.set_column(table.schema.get_field_index("dtc_codes"), "dtc_codes", cleaned)


def _bounded(codes: list[str] | None) -> bool:
    return codes is None or (
        len(codes) <= CODES and all(len(c) <= CODE_CHARS and NUL not in c for c in codes)
    )


def readable(table: pa.Table) -> Flags:
    """Whether a record has a whole head."""
    known = [pc.is_valid(table[name]).to_numpy() for name in ("vehicle_id", *RANGES)]
    whole: Flags = np.logical_and.reduce(known)
    return whole


def verdicts(
    table: pa.Table, received_ms: Ints, limits: ClockLimits, keys: pa.BinaryArray | None = None
) -> npt.NDArray[np.str_]:
    """The first verdict that fits each record; ``table`` as ``in_range`` gives it.

    ``keys`` of the records, where there are some: what lies under another vehicle's key is nobody's frame.
    """
    t0_ms, dt_ms, n = (pc.fill_null(table[name], 0).to_numpy() for name in ("t0_ms", "dt_ms", "n"))
    behind_ms = received_ms - t0_ms
    span_ms = (n - 1) * dt_ms
    whole = readable(table)
    if keys is not None:
        whole &= pc.fill_null(pc.equal(table["vehicle_id"].cast(pa.binary()), keys), False).to_numpy()
    conditions = [
        ~whole,
        t0_ms < limits.floor_ms,
        span_ms - behind_ms > limits.ahead_ms,
        behind_ms > limits.lateness_ms,
    ]
    return np.select(conditions, [UNREADABLE, CLOCK_UNSET, CLOCK_AHEAD, LATE], OK)
