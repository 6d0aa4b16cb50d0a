"""What is known of vehicles and of the roads they are on, in files beside the query: joined by frame.

Where ODOGRAPH_PATHS_LOOKUPS says, as Arrow files: vehicle.arrow, model, powertrain and class of each vehicle;
history.arrow, usual values of each vehicle and of its model; free_flow.arrow, free-flow speed by H3 cell and
direction. Maintenance replaces them whole; the stage looks with each batch of frames whether they are still
those that it read: what is learned is in force without a restart.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from h3ronpy.vector import coordinates_to_cells
from pyarrow import feather

from infra.settings.files import write_whole
from stream_jobs.frames.arrays import Floats, Ints
from stream_jobs.frames.lookup_files import Place, local
from stream_jobs.windows.places import RESOLUTION, UNKNOWN_SECTOR

COLUMNS: Final = ("model", "powertrain", "vehicle_class")
SCHEMA: Final = pa.schema([(name, pa.string()) for name in ("vehicle_id", *COLUMNS)])
FREE_FLOW: Final = "free_flow_kmh"
USUAL: Final = ("usual_coolant_c", "usual_battery_v", "model_coolant_c", "model_battery_v")
"""Medians of hours: the vehicle's own, and of the vehicles of its model."""
HISTORY: Final = (FREE_FLOW, *USUAL)  # numbers for rules of the query ``vehicles``, null where not known
USUAL_SCHEMA: Final = pa.schema([("vehicle_id", pa.string()), *((name, pa.float64()) for name in USUAL)])
PLACE_SCHEMA: Final = pa.schema([("place", pa.int64()), (FREE_FLOW, pa.float64())])
SECTORS: Final = 8  # a place is its cell times this, plus its sector: H3 leaves the upper bits free
VEHICLE_FILE, USUAL_FILE, FREE_FLOW_FILE = "vehicle.arrow", "history.arrow", "free_flow.arrow"
Version = tuple[int, int]


def write(path: Path, table: pa.Table, schema: pa.Schema = SCHEMA) -> bool:
    """Put ``table`` in the file's place at once, unless it holds the same; whether it did."""
    table = table.cast(schema)
    if path.exists() and read(path, schema).equals(table):
        return False
    feather.write_feather(table, sink := pa.BufferOutputStream(), compression="uncompressed")
    write_whole(path, sink.getvalue())
    return True


def read(path: Path, schema: pa.Schema = SCHEMA) -> pa.Table:
    """The table in the file; empty where there is none yet, or one of another version of this program."""
    try:
        found = feather.read_table(path, memory_map=False)
    except FileNotFoundError:
        return schema.empty_table()
    return found if found.schema.equals(schema) else schema.empty_table()


def version(path: Path) -> Version:
    """Another one whenever the file was replaced."""
    try:
        stat = path.stat()
    except FileNotFoundError:
        return (0, 0)
    return stat.st_mtime_ns, stat.st_ino


@dataclass(frozen=True, slots=True)
class Lookups:
    """The files as they were at their last changes; places of free flow are in order."""

    vehicles: pa.Table
    usual: pa.Table
    places: Ints
    free_flow_kmh: Floats

    def of_vehicles(self, vehicles: pa.Array) -> dict[str, pa.Array]:
        """COLUMNS for each of ``vehicles``, null where not known."""
        return _taken(self.vehicles, COLUMNS, vehicles)

    def history(
        self, names: Collection[str], vehicles: pa.Array, where: tuple[Floats, Floats, Floats]
    ) -> dict[str, pa.Array]:
        """Those of HISTORY among ``names``; ``where``: latitude, longitude, heading of frames, degrees."""
        usual = [name for name in names if name in USUAL]
        columns = _taken(self.usual, usual, vehicles) if usual else {}
        if FREE_FLOW in names:
            wanted = places_at(*where)
            columns[FREE_FLOW] = pa.nulls(len(wanted), pa.float64())
            if len(self.places):
                at = np.minimum(np.searchsorted(self.places, wanted), len(self.places) - 1)
                columns[FREE_FLOW] = pa.array(self.free_flow_kmh[at], mask=self.places[at] != wanted)
        return columns


def _taken(table: pa.Table, names: Sequence[str], vehicles: pa.Array) -> dict[str, pa.Array]:
    rows = pc.index_in(vehicles, value_set=table["vehicle_id"].combine_chunks())
    return {name: table[name].combine_chunks().take(rows) for name in names}


def current(place: Place) -> Lookups:
    """What the files there say now; read again only when one was replaced."""
    files = tuple(local(place, name) for name in (VEHICLE_FILE, USUAL_FILE, FREE_FLOW_FILE))
    return _held(files, tuple(map(version, files)))


@lru_cache(maxsize=4)
def _held(files: tuple[Path, ...], _versions: tuple[Version, ...]) -> Lookups:
    vehicles, usual, flow = map(read, files, (SCHEMA, USUAL_SCHEMA, PLACE_SCHEMA))
    flow = flow.sort_by("place")
    return Lookups(vehicles, usual, flow["place"].to_numpy(), flow[FREE_FLOW].to_numpy())


def index_among(words: pa.Array, known: tuple[str, ...]) -> Floats:
    """The place of each word among ``known`` ones, NaN where it is none of them."""
    found = pc.index_in(words, value_set=pa.array(known, pa.string()))
    return np.asarray(found.to_numpy(zero_copy_only=False), np.float64)


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
