"""Partial rows as Arrow: for each frame a list of structs, those of its vehicle, of road cells and of edges.

A row with a ``cell`` belongs to a road cell, one with an ``edge`` to an edge, one with neither to its frame's
vehicle. All have the same columns; what a road does not need is null there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from stream_jobs.partials.columns import Part
from stream_jobs.partials.frames import Frames, Ints, Known
from stream_jobs.partials.roads import RoadRows, cell_rows, counted, edge_rows
from stream_jobs.partials.segments import always, cut
from stream_jobs.roads.matching import RoadIndex

KEYS: Final = ("cell", "heading_sector", "edge", "start_ms")


def partials_type(parts: Sequence[Part]) -> pa.ListType:
    """The type of the column of partial rows."""
    names = (*KEYS, *(part.name for part in parts))
    return pa.list_(pa.field("element", pa.struct([(name, pa.int64()) for name in names])))


def partials(
    frames: Frames, parts: Sequence[Part], window_ms: int, road_window_ms: int, roads: RoadIndex | None
) -> pa.ListArray:
    """The partial rows of each frame; there is at least one frame. Edges where ``roads`` are known."""
    vehicle, samples = cut(frames, window_ms), counted(frames, road_window_ms)
    road = [cell_rows(samples)] + ([] if roads is None else [edge_rows(samples, roads)])
    of_frame = np.concatenate([vehicle.of_frame, *(rows.of_frame for rows in road)])
    places = _places(of_frame, len(vehicle.begins), road)
    columns = [
        *(places.column(always(vehicle.start_ms) if key == "start_ms" else None, key) for key in KEYS),
        *(places.column(part.of(vehicle), part.name) for part in parts),
    ]
    kind = partials_type(parts)
    structs = pa.StructArray.from_arrays(columns, fields=list(kind.value_type))
    ends = np.cumsum(np.bincount(of_frame, minlength=len(frames.n)))
    offsets = pa.array(np.concatenate([[0], ends]), pa.int32())
    return pa.ListArray.from_arrays(offsets, structs, type=kind)


@dataclass(frozen=True, slots=True)
class _Places:
    """Where the rows of vehicles, and of each kind of road rows, stand among all ``rows``."""

    rows: int
    vehicle: Ints
    road: Sequence[tuple[Ints, RoadRows]]

    def column(self, vehicle: Known | None, name: str) -> pa.Array:
        """One column: what vehicles have, and what roads have under this name; else null."""
        road = [(at, rows.values[name]) for at, rows in self.road if name in rows.values]
        if not road and (vehicle is None or not vehicle.known.any()):
            return pa.nulls(self.rows, pa.int64())
        values, unknown = np.zeros(self.rows, np.int64), np.ones(self.rows, np.bool_)
        if vehicle is not None:
            values[self.vehicle], unknown[self.vehicle] = vehicle.values, ~vehicle.known
        for at, found in road:
            values[at], unknown[at] = found, False
        return pa.array(values, pa.int64(), mask=unknown)


def _places(of_frame: Ints, of_vehicles: int, road: Sequence[RoadRows]) -> _Places:
    """The rows of a frame stand together: its vehicle's first."""
    place = np.empty(len(of_frame), np.int64)
    place[np.argsort(of_frame, kind="stable")] = np.arange(len(of_frame))
    ends = np.cumsum([of_vehicles, *(len(rows.of_frame) for rows in road)])
    vehicle, *kinds = np.split(place, ends[:-1])
    return _Places(len(of_frame), vehicle, list(zip(kinds, road, strict=True)))
