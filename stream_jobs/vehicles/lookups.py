"""What is known of vehicles and of the roads they are on, in files beside the query: joined by frame.

Where ODOGRAPH_PATHS_LOOKUPS says, as Arrow files: vehicle.arrow, model, powertrain and class of each vehicle;
history.arrow, usual values of each vehicle and of its model; free_flow.arrow, free-flow speed by H3 cell and
direction. Maintenance replaces them whole; the stage looks with each batch of frames whether they are still
those that it read: what is learned is in force without a restart.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from h3ronpy.vector import coordinates_to_cells
from pyarrow import feather

from infra.settings.files import write_whole
from stream_jobs.frames.arrays import Floats, Ints
from stream_jobs.frames.lookup_files import Place, held
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


def write(path: Path, table: pa.Table, schema: pa.Schema = SCHEMA) -> bool:
    """Put ``table`` in the file's place at once, unless it holds the same; whether it did."""
    table = table.cast(schema)
    if path.exists() and read(path, schema).equals(table):
        return False
    feather.write_feather(table, sink := pa.BufferOutputStream(), compression="uncompressed")
    write_whole(path, sink.getvalue())
    return True


def read(path: Path, schema: pa.Schema = SCHEMA) -> pa.Table:
    """The table in the file, one chunk; empty where there is none yet, or one of another version of ours."""
    try:
        found = feather.read_table(path, memory_map=False)
    except FileNotFoundError:
        return schema.empty_table()
    if not found.num_rows or not found.schema.equals(schema):
        return schema.empty_table()  # a file without rows has no chunk
    return found.combine_chunks()


def of_vehicles(place: Place, vehicles: pa.Array) -> dict[str, pa.Array]:
    """COLUMNS for each of ``vehicles``, null where not known."""
    return _taken(held(place, VEHICLE_FILE, read), COLUMNS, vehicles)


def history(
    place: Place, names: Collection[str], vehicles: pa.Array, where: tuple[Floats, Floats, Floats]
) -> dict[str, pa.Array]:
    """Those of HISTORY among ``names``; ``where``: latitude, longitude, heading of frames, degrees."""
    usual = [name for name in names if name in USUAL]
    columns = _taken(held(place, USUAL_FILE, read, USUAL_SCHEMA), usual, vehicles) if usual else {}
    if FREE_FLOW in names:
        flow, wanted = held(place, FREE_FLOW_FILE, read, PLACE_SCHEMA), places_at(*where)
        known, kmh = (column.to_numpy() for column in flow.columns)  # in order of place
        columns[FREE_FLOW] = pa.nulls(len(wanted), pa.float64())
        if len(known):
            at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
            columns[FREE_FLOW] = pa.array(kmh[at], mask=known[at] != wanted)
    return columns


def _taken(table: pa.Table, names: Sequence[str], vehicles: pa.Array) -> dict[str, pa.Array]:
    rows = pc.index_in(vehicles, value_set=table["vehicle_id"].chunk(0))
    return {name: table[name].chunk(0).take(rows) for name in names}


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
