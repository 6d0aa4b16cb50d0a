"""Partial rows as Arrow: for each frame a list of structs, those of its vehicle, of road cells and of edges.

A row with a ``cell`` belongs to a road cell, one with an ``edge`` to an edge, one with neither to its frame's
vehicle. All have the same columns; what a road does not need is null there.

Visits stand beside the frames in rows of their own, each under an identity that is the same in whatever frame
the vehicle is seen there: what drops copies of frames then counts each vehicle once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_jobs.partials.columns import VISITS, Part
from stream_jobs.partials.frames import Frames, Ints, Known
from stream_jobs.partials.roads import RoadRows
from stream_jobs.partials.segments import always, cut

KEYS: Final = ("cell", "heading_sector", "edge", "start_ms")
NO_SECTOR: Final = -2
"""Stands where a group has no direction."""


def partials_type(parts: Sequence[Part]) -> pa.ListType:
    """The type of the column of partial rows."""
    names = (*KEYS, *(part.name for part in parts))
    return pa.list_(pa.field("element", pa.struct([(name, pa.int64()) for name in names])))


def partials(frames: Frames, parts: Sequence[Part], window_ms: int, road: Sequence[RoadRows]) -> pa.ListArray:
    """The partial rows of each frame, those of roads at the end; there is at least one frame."""
    vehicle = cut(frames, window_ms)
    of_frame = np.concatenate([vehicle.of_frame, *(rows.of_frame for rows in road)])
    places = _places(of_frame, len(vehicle.begins), road)
    columns = [
        *(places.column(always(vehicle.start_ms) if key == "start_ms" else None, key) for key in KEYS),
        *(places.column(part.of(vehicle), part.name) for part in parts),
    ]
    return _lists(columns, np.bincount(of_frame, minlength=len(frames.n)), parts)


def visit_columns(road: Sequence[RoadRows], parts: Sequence[Part]) -> tuple[Ints, dict[str, pa.Array]]:
    """Visits as rows beside the frames: the frame that each was seen in, identity and partial rows.

    ``boot_id`` and ``seq`` hold the place and the direction, ``visit_ms`` the start of the window.
    """
    of_frame = np.concatenate([rows.of_frame for rows in road])
    found = {name: _stacked(road, name) for name in KEYS}
    one = pa.array(np.ones(len(of_frame), np.int64))
    nothing = pa.nulls(len(of_frame), pa.int64())
    columns = [
        *(found[key] for key in KEYS),
        *(one if part.name == VISITS else nothing for part in parts),
    ]
    return of_frame, {
        "boot_id": pc.coalesce(found["cell"], found["edge"]),
        "seq": pc.fill_null(found["heading_sector"], NO_SECTOR),
        "visit_ms": found["start_ms"],
        "partials": _lists(columns, np.ones(len(of_frame), np.int64), parts),
    }


def _stacked(road: Sequence[RoadRows], name: str) -> pa.Array:
    """A column of all kinds of road rows one after the other, null where a kind has none of it."""
    kinds = [
        pa.array(r.values[name]) if name in r.values else pa.nulls(len(r.of_frame), pa.int64()) for r in road
    ]
    return pa.concat_arrays(kinds)


def _lists(columns: Sequence[pa.Array], lengths: Ints, parts: Sequence[Part]) -> pa.ListArray:
    """Columns of partial rows as lists of so many."""
    kind = partials_type(parts)
    structs = pa.StructArray.from_arrays(columns, fields=list(kind.value_type))
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
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
