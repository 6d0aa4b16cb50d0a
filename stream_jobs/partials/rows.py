"""Partial rows as Arrow: for each frame a list of structs, those of its vehicle and those of road cells.

A row with a ``cell`` belongs to a road cell, one without to its frame's vehicle. Both have the same columns;
what a road cell does not need is null there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from stream_jobs.partials.columns import Part
from stream_jobs.partials.frames import Frames, Ints, Known
from stream_jobs.partials.roads import road_rows
from stream_jobs.partials.segments import always, cut

KEYS: Final = ("cell", "heading_sector", "start_ms")


def partials_type(parts: Sequence[Part]) -> pa.ListType:
    """The type of the column of partial rows."""
    names = (*KEYS, *(part.name for part in parts))
    return pa.list_(pa.field("element", pa.struct([(name, pa.int64()) for name in names])))


def partials(frames: Frames, parts: Sequence[Part], window_ms: int, road_window_ms: int) -> pa.ListArray:
    """The partial rows of each frame; there is at least one frame."""
    vehicle, road = cut(frames, window_ms), road_rows(frames, road_window_ms)
    rows, cells = len(vehicle.begins), len(road.of_frame)
    columns = [
        (_unknown(rows), always(road.cell)),
        (_unknown(rows), always(road.sector)),
        (always(vehicle.start_ms), always(road.start_ms)),
        *(
            (part.of(vehicle), always(road.sums[part.name]) if part.name in road.sums else _unknown(cells))
            for part in parts
        ),
    ]
    of_frame = np.concatenate([vehicle.of_frame, road.of_frame])
    order = np.argsort(of_frame, kind="stable")
    kind = partials_type(parts)
    structs = pa.StructArray.from_arrays(
        [_column(*both, order) for both in columns], fields=list(kind.value_type)
    )
    ends = np.cumsum(np.bincount(of_frame, minlength=len(frames.n)))
    offsets = pa.array(np.concatenate([[0], ends]), pa.int32())
    return pa.ListArray.from_arrays(offsets, structs, type=kind)


def _unknown(count: int) -> Known:
    return Known(np.zeros(count, np.int64), np.zeros(count, np.bool_))


def _column(vehicle: Known, road: Known, order: Ints) -> pa.Array:
    values = np.concatenate([vehicle.values, road.values])[order]
    known = np.concatenate([vehicle.known, road.known])[order]
    return pa.array(values, pa.int64(), mask=~known)
