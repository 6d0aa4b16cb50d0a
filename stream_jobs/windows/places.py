"""Windows of road cells and edges: samples to partial rows, open windows a row a vehicle and place, shares.

Only samples with ignition on, a position and a speed count. A place is an H3 cell and a direction, or, where
a road network is known, an edge; a sample that fits no edge clearly counts in a row of its own (see
roads/network.py). Shares sum rows over the vehicles of one bucket; these are of no other, so shares add up.
"""

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from h3ronpy.vector import coordinates_to_cells

from stream_jobs.frames.arrays import Flags, Frames, Ints, run_begins
from stream_jobs.roads.network import RoadIndex, match
from stream_jobs.windows.block import enrolled
from stream_jobs.windows.vehicle import STEP_MS_PER_M, quotient, steps

RESOLUTION: Final = 9  # of H3: cells of 0.105 km2 and 0.2 km of edge
UNKNOWN_SECTOR: Final = -1
NO_SECTOR: Final = -2  # the sector of a place that has no direction: it is an edge
EDGE_BITS: Final = 32  # an edge is its network * 2^32 + its id + 2, so that -1 and -2 have a place too
EDGE_OFFSET: Final = 2
KEYS: Final = ("place", "heading_sector")
SUMS: Final = ("samples", "time_ms_sum", "speed_over_time_sum")
VEHICLES: Final = "vehicles"  # vehicles in a group, beside its sums: each counts once, whatever its frames
VEHICLE_BITS: Final = 63  # tells vehicles apart across windows, by CRC-32; the sign stays free
SHARE: Final = pa.schema(
    [(name, pa.int64()) for name in ("start_ms", *KEYS, *SUMS, VEHICLES, "vehicle_bits")]
)
"""Columns of shares: sums of windows of places over some vehicles, and how many vehicles they were."""

RoadRows = Mapping[str, Ints]
"""Partial rows by column: ``of_frame``, the frame of each, and SHARE's start, place, direction and sums."""


def road_rows(frames: Frames, window_ms: int, roads: RoadIndex | None) -> Iterator[RoadRows]:
    """Rows of cells, and of edges where ``roads`` are known: runs of samples of one frame, window and place.

    A vehicle that comes back into a cell within a frame gives two rows: they are summed later.
    """
    ignition = frames.on_samples("ignition_on")
    lat, lon, speed, heading = (frames.fast[n] for n in ("lat_deg", "lon_deg", "speed_kmh", "heading_deg"))
    at = np.flatnonzero(ignition.known & (ignition.values == 1) & lat.known & lon.known & speed.known)
    of_frame, event_ms = frames.of_sample[at], frames.event_ms[at]
    dt_ms, start_ms = frames.dt_ms[of_frame], event_ms - event_ms % window_ms
    sums = (np.ones(len(at), np.int64), dt_ms, speed.values[at] * dt_ms)
    lat_deg, lon_deg = lat.values[at] / steps("lat_deg"), lon.values[at] / steps("lon_deg")
    course, is_known = heading.values[at], heading.known[at]
    cells = coordinates_to_cells(lat_deg, lon_deg, RESOLUTION).to_numpy().astype(np.int64)
    quarter = (course + steps("heading_deg", 45)) // steps("heading_deg", 90) % 4
    places = [(cells, np.where(is_known, quarter, UNKNOWN_SECTOR))]
    if roads is not None:
        found = match(roads, lat_deg, lon_deg, course / steps("heading_deg"), is_known)
        edge_id = np.where(found >= 0, roads.edge_id.take(found, mode="clip"), found)
        edges = (roads.network << EDGE_BITS) + edge_id + EDGE_OFFSET
        places.append((edges, np.full(len(at), NO_SECTOR)))
    for keys in places:
        columns = dict(zip(("of_frame", "start_ms", *KEYS), (of_frame, start_ms, *keys), strict=True))
        begins = run_begins(*columns.values())
        values = {name: key[begins] for name, key in columns.items()}
        values |= {name: np.add.reduceat(each, begins) for name, each in zip(SUMS, sums, strict=True)}
        yield values


@dataclass(slots=True)
class Places:
    """Vehicles on places in windows that begin at one moment.

    ``rows``: [vehicle, *KEYS, *SUMS, changed] by n; vehicle is a place among ``vehicles``, changed is 1 where
    a place was not given out since it changed.
    """

    vehicles: pa.StringArray = field(default_factory=lambda: pa.array([], pa.string()))
    rows: Ints = field(default_factory=lambda: np.zeros((2 + len(KEYS) + len(SUMS), 0), np.int64))

    def add(self, vehicles: pa.StringArray, of_frame: Ints, rows: RoadRows, chosen: Flags) -> None:
        """Take over the chosen ``rows``, at least one: one a vehicle and place, a vehicle's there added up.

        ``of_frame``: the place of each frame's vehicle among ``vehicles``.
        """
        self.vehicles, at = enrolled(self.vehicles, vehicles)
        columns = [rows[name][chosen] for name in (*KEYS, *SUMS)]
        vehicle, keys = at[of_frame[rows["of_frame"][chosen]]], 1 + len(KEYS)
        more = np.vstack([vehicle, *columns, np.ones(len(vehicle), np.int64)])
        both = np.concatenate([self.rows, more], axis=1)
        order, begins = _runs([*both[:keys]])
        both = both[:, order]
        self.rows = np.concatenate([both[:keys, begins], np.add.reduceat(both[keys:], begins, axis=1)])
        self.rows[-1] = self.rows[-1] > 0

    def given_out(self, start_ms: int) -> pa.Table | None:
        """The sums of all places that changed (SHARE), None without any; they are given out now."""
        if not self.rows[-1].any():
            return None
        vehicle, place, sector, *sums, changed = self.rows
        # The bit of each vehicle: a union of windows saw at least as many vehicles as it has bits.
        of_vehicles = [1 << zlib.crc32(name.encode()) % VEHICLE_BITS for name in self.vehicles.to_pylist()]
        bits, keys = np.array(of_vehicles, np.int64)[vehicle], [np.full_like(place, start_ms), place, sector]
        *columns, told, bits = _totals(keys, [*sums, np.ones_like(vehicle), changed], bits)
        self.rows[-1] = 0
        return pa.table([column[told > 0] for column in (*columns, bits)], schema=SHARE)

    def part(self, chosen: Callable[[str], bool]) -> "Places":
        """The rows of the ``chosen`` vehicles, all of them to be given out."""
        stays = np.array([*map(chosen, self.vehicles.to_pylist())], np.bool_)
        rows = self.rows[:, stays[self.rows[0]]]
        rows[0], rows[-1] = (np.cumsum(stays) - 1)[rows[0]], 1
        return Places(self.vehicles.filter(pa.array(stays)), rows)


def summed(shares: pa.Table) -> pa.Table:
    """Shares of several buckets as one row a window of a place."""
    start_ms, place, sector, *sums, bits = (shares[name].to_numpy() for name in SHARE.names)
    return pa.table(_totals([start_ms, place, sector], sums, bits), schema=SHARE)


def _totals(keys: Sequence[Ints], sums: Sequence[Ints], bits: Ints) -> list[Ints]:
    """Of each group of equal ``keys``: these, the sums, and the union of the bits."""
    order, begins = _runs(keys)
    totals = [np.add.reduceat(each[order], begins) for each in sums]
    return [*(key[order[begins]] for key in keys), *totals, np.bitwise_or.reduceat(bits[order], begins)]


def place_rows(sums: pa.Table, window_s: int) -> tuple[pa.Table, pa.Table]:
    """Rows of odograph.road_cell_window and .road_edge_window out of ``summed`` shares."""
    time_ms, speed = sums["time_ms_sum"].to_numpy(), sums["speed_over_time_sum"].to_numpy()
    place, known = sums["place"].to_numpy(), np.ones(sums.num_rows, np.bool_)
    rows = pa.table({
        "place": place, "heading_sector": sums["heading_sector"], "network_no": place >> EDGE_BITS,
        "edge_id": (place & ((1 << EDGE_BITS) - 1)) - EDGE_OFFSET,
        "window_start": sums["start_ms"].cast(pa.timestamp("ms", tz="UTC")),
        "window_s": np.full(sums.num_rows, window_s), VEHICLES: sums[VEHICLES],
        "vehicle_bits": sums["vehicle_bits"], "samples": sums["samples"],
        "distance_m": quotient(speed, STEP_MS_PER_M, known),
        "time_s": quotient(time_ms, 1000.0, known),
        "speed_kmh": quotient(speed, time_ms * steps("speed_kmh"), known),
    })  # fmt: skip
    is_edge = pc.equal(rows["heading_sector"], NO_SECTOR)
    edges, cells = (rows.filter(chosen) for chosen in (is_edge, pc.invert(is_edge)))
    names = pa.array([f"{cell:x}" for cell in cells["place"].to_pylist()], pa.string())
    cells = cells.append_column("cell", names).drop_columns(["place", "network_no", "edge_id"])
    return cells, edges.drop_columns(["place", "heading_sector"])


def _runs(keys: Sequence[Ints]) -> tuple[Ints, Ints]:
    """The order that brings equal ``keys`` together, and where each run of them begins."""
    order = np.lexsort(list(reversed(keys)))
    return order, run_begins(*(key[order] for key in keys))
