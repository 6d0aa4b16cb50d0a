"""What history says of a vehicle and of the road it is on, in files beside the query: joined by frame.

In ``<home>/lookups``: history.arrow, usual values of each vehicle and of its model; free_flow.arrow,
free-flow speed by H3 cell and direction. Maintenance replaces them whole; the stage looks with each batch of
frames whether they are still those that it read: what is learned is in force without a restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from h3ronpy.vector import coordinates_to_cells

from stream_jobs.frames.arrays import Floats, Ints
from stream_jobs.vehicles.lookups import Version, read, version
from stream_jobs.windows.places import RESOLUTION, UNKNOWN_SECTOR

FREE_FLOW: Final = "free_flow_kmh"
USUAL: Final = ("usual_coolant_c", "usual_battery_v", "model_coolant_c", "model_battery_v")
"""Medians of hours: the vehicle's own, and of the vehicles of its model."""
HISTORY: Final = (FREE_FLOW, *USUAL)
"""Columns for rules of the query ``vehicles``: numbers, null where history says nothing."""
USUAL_SCHEMA: Final = pa.schema([("vehicle_id", pa.string()), *((name, pa.float64()) for name in USUAL)])
PLACE_SCHEMA: Final = pa.schema([("place", pa.int64()), (FREE_FLOW, pa.float64())])
SECTORS: Final = 8
"""A place is its cell times this, plus its sector: H3 leaves the upper bits free."""


def usual_file(lookups: Path) -> Path:
    """Where the usual values lie, in the folder of lookups."""
    return lookups / "history.arrow"


def free_flow_file(lookups: Path) -> Path:
    """Where the free-flow speeds lie."""
    return lookups / "free_flow.arrow"


def words_of(words: Iterable[str]) -> tuple[str, ...]:
    """The columns of HISTORY among ``words``."""
    wanted = set(words)
    return tuple(name for name in HISTORY if name in wanted)


def places(cells: Ints, sectors: Ints) -> Ints:
    """One number for each cell and direction."""
    return cells * SECTORS + sectors - UNKNOWN_SECTOR


def places_at(lat_deg: Floats, lon_deg: Floats, heading_deg: Floats) -> Ints:
    """The places of positions, 0 where there is none; directions as in road_cell_window."""
    known = ~(np.isnan(lat_deg) | np.isnan(lon_deg))
    found = np.zeros(len(lat_deg), np.int64)
    if not known.any():
        return found
    cells = coordinates_to_cells(lat_deg[known], lon_deg[known], RESOLUTION).to_numpy().astype(np.int64)
    heading = heading_deg[known]
    sector = np.where(np.isnan(heading), UNKNOWN_SECTOR, (np.nan_to_num(heading) + 45) // 90 % 4)
    found[known] = places(cells, sector.astype(np.int64))
    return found


@dataclass(frozen=True, slots=True)
class History:
    """Both files as they were at their last changes; the places are in order."""

    versions: tuple[Version, Version]
    usual: pa.Table
    places: Ints
    free_flow_kmh: Floats

    def of(
        self, names: Sequence[str], vehicles: pa.Array, where: tuple[Floats, Floats, Floats]
    ) -> dict[str, pa.Array]:
        """Columns ``names`` of HISTORY for frames; ``where``: latitude, longitude, heading in degrees."""
        columns = {}
        if set(names) & set(USUAL):
            rows = pc.index_in(vehicles, value_set=self.usual["vehicle_id"].combine_chunks())
            columns = {name: self.usual[name].combine_chunks().take(rows) for name in names if name in USUAL}
        if FREE_FLOW in names:
            columns[FREE_FLOW] = self._free_flow(places_at(*where))
        return columns

    def _free_flow(self, wanted: Ints) -> pa.Array:
        if not len(self.places):
            return pa.nulls(len(wanted), pa.float64())
        at = np.minimum(np.searchsorted(self.places, wanted), len(self.places) - 1)
        return pa.array(self.free_flow_kmh[at], mask=self.places[at] != wanted)


def current(lookups: Path) -> History:
    """What both files say now; they are read again only when one was replaced."""
    return _held(lookups, (version(usual_file(lookups)), version(free_flow_file(lookups))))


@lru_cache(maxsize=4)
def _held(lookups: Path, versions: tuple[Version, Version]) -> History:
    usual = read(usual_file(lookups), USUAL_SCHEMA)
    flow = read(free_flow_file(lookups), PLACE_SCHEMA).sort_by("place")
    return History(versions, usual, flow["place"].to_numpy(), flow[FREE_FLOW].to_numpy())
