"""The verdict on each record of a batch: infra/contract/verdict.py by array."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from infra.contract.frame import MAX_DT_MS, MAX_INT, MAX_SAMPLES
from infra.contract.verdict import CLOCK_AHEAD, CLOCK_UNSET, LATE, OK, UNREADABLE, ClockLimits
from stream_jobs.partials.frames import Flags, Ints

RANGES: Final = {
    "boot_id": (0, MAX_INT),
    "seq": (0, MAX_INT),
    "t0_ms": (0, MAX_INT),
    "dt_ms": (1, MAX_DT_MS),
    "n": (1, MAX_SAMPLES),
}
"""What the contract allows a head's number to be; no arithmetic on it can overflow then."""


def in_range(table: pa.Table) -> pa.Table:
    """``table`` with the head's numbers null where they are out of range."""
    for name, (low, high) in RANGES.items():
        column = table[name]
        plausible = pc.and_(pc.greater_equal(column, low), pc.less_equal(column, high))
        cleaned = pc.if_else(plausible, column, None)
        table = table.set_column(table.schema.get_field_index(name), name, cleaned)
    return table


def readable(table: pa.Table) -> Flags:
    """Whether a record has a whole head."""
    known = [pc.is_valid(table[name]).to_numpy() for name in ("vehicle_id", *RANGES)]
    whole: Flags = np.logical_and.reduce(known)
    return whole


def verdicts(table: pa.Table, received_ms: Ints, limits: ClockLimits) -> npt.NDArray[np.str_]:
    """The first verdict that fits each record; ``table`` as ``in_range`` gives it."""
    t0_ms, dt_ms, n = (pc.fill_null(table[name], 0).to_numpy() for name in ("t0_ms", "dt_ms", "n"))
    behind_ms = received_ms - t0_ms
    span_ms = (n - 1) * dt_ms
    conditions = [
        ~readable(table),
        t0_ms < limits.floor_ms,
        span_ms - behind_ms > limits.ahead_ms,
        behind_ms > limits.lateness_ms,
    ]
    return np.select(conditions, [UNREADABLE, CLOCK_UNSET, CLOCK_AHEAD, LATE], OK)
