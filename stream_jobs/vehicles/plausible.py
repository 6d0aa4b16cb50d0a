"""The columns that rules see of a frame: its signals, null where outside their plausible range."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from infra.contract.signals import BY_NAME, Signal


def plausible_columns(table: pa.Table, names: Sequence[str]) -> dict[str, pa.Array]:
    """The signals ``names`` of parsed frames (reading.py), as the view ``frame`` of the rules has them."""
    return {name: _plausible(table[name].combine_chunks(), BY_NAME[name]) for name in names}


def _plausible(column: pa.Array, signal: Signal) -> pa.Array:
    if signal.kind != "number":
        return column
    if signal.rate == "slow":
        return _in_range(column, signal)
    values = _in_range(column.values, signal)
    return pa.ListArray.from_arrays(_offsets(column), values)


def _in_range(values: pa.Array, signal: Signal) -> pa.Array:
    inside = pc.and_(pc.greater_equal(values, signal.minimum), pc.less_equal(values, signal.maximum))
    return pc.if_else(inside, values, None)


def _offsets(lists: pa.ListArray) -> pa.Array:
    """Offsets of the lists, null where a list is."""
    offsets = lists.offsets
    if not lists.null_count:
        return offsets
    missing = np.append(pc.is_null(lists).to_numpy(zero_copy_only=False), False)
    return pa.array(offsets.to_numpy(), pa.int32(), mask=missing)
