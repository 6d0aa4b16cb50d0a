"""Partial rows as Arrow: for each frame a list of structs, those of its vehicle and those of road cells.

A row with a ``cell`` belongs to a road cell, one without to its frame's vehicle. Both have the same columns;
what a road cell does not need is null there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
    of_frame = np.concatenate([vehicle.of_frame, road.of_frame])
    place = np.empty(len(of_frame), np.int64)
    place[np.argsort(of_frame, kind="stable")] = np.arange(len(of_frame))
    rows = len(vehicle.begins)
    places = _Places(len(of_frame), place[:rows], place[rows:])
    columns = [
        places.column(road=road.cell),
        places.column(road=road.sector),
        places.column(always(vehicle.start_ms), road.start_ms),
        *(places.column(part.of(vehicle), road.sums.get(part.name)) for part in parts),
    ]
    kind = partials_type(parts)
    structs = pa.StructArray.from_arrays(columns, fields=list(kind.value_type))
    ends = np.cumsum(np.bincount(of_frame, minlength=len(frames.n)))
    offsets = pa.array(np.concatenate([[0], ends]), pa.int32())
    return pa.ListArray.from_arrays(offsets, structs, type=kind)


@dataclass(frozen=True, slots=True)
class _Places:
    """Where the rows of vehicles and of road cells stand among all ``rows``."""

    rows: int
    vehicle: Ints
    road: Ints

    def column(self, vehicle: Known | None = None, road: Ints | None = None) -> pa.Array:
        """One column; null where neither has a value."""
        if road is None and (vehicle is None or not vehicle.known.any()):
            return pa.nulls(self.rows, pa.int64())
        values, unknown = np.zeros(self.rows, np.int64), np.ones(self.rows, np.bool_)
        if vehicle is not None:
            values[self.vehicle], unknown[self.vehicle] = vehicle.values, ~vehicle.known
        if road is not None:
            values[self.road], unknown[self.road] = road, False
        return pa.array(values, pa.int64(), mask=unknown)
