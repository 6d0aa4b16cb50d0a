"""Partial rows of roads: runs of samples of one frame in one window and H3 cell and direction, or edge.

Only samples with ignition on, a position and a speed count: of others no cell is computed. A vehicle that
comes back into a cell within a frame gives two rows: they are summed later. Rows of edges are made where a
road network is known; a sample that fits no edge clearly counts in a row of its own (see roads/matching.py).
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from h3ronpy.vector import coordinates_to_cells

from infra.contract.signals import BY_NAME
from stream_jobs.frames.arrays import Floats, Frames, Ints, Known
from stream_jobs.roads.matching import RoadIndex, match
from stream_jobs.windows.columns import COUNTS, Part, total
from stream_jobs.windows.driving import MS_PER_S, SPEED_OVER_TIME, STEP_MS_PER_M
from stream_jobs.windows.measures import Combined, Measure, divided, quotient, steps_per_unit, whole
from stream_jobs.windows.segments import always

RESOLUTION: Final = 9
"""Of H3: cells of 0.105 km2 and 0.2 km of edge."""
UNKNOWN_SECTOR: Final = -1
EDGE_BITS: Final = 32
"""An edge is written as its network's number * 2^32 + its id + 2, so that -1 and -2 have a place too."""
EDGE_OFFSET: Final = 2
PARTS: Final = ("samples", "time_ms_sum", "speed_over_time_sum")
"""All of them are sums."""


@dataclass(frozen=True, slots=True)
class RoadRows:
    """Partial rows: the frame of each, and their columns: keys, and sums by the names in ``PARTS``."""

    of_frame: Ints
    values: Mapping[str, Ints]


@dataclass(frozen=True, slots=True)
class Counted:
    """The samples that count on roads: where they stand among all, what they say, in whole steps."""

    at: Ints
    of_frame: Ints
    lat_deg: Floats
    lon_deg: Floats
    heading: Known
    start_ms: Ints
    values: tuple[Ints, ...]


def counted(frames: Frames, window_ms: int) -> Counted:
    """The samples with ignition on, a position and a speed."""
    ignition = frames.on_samples("ignition_on")
    lat, lon, speed = (frames.fast[name] for name in ("lat_deg", "lon_deg", "speed_kmh"))
    at = np.flatnonzero(ignition.known & (ignition.values == 1) & lat.known & lon.known & speed.known)
    dt_ms, event_ms = frames.sample_ms[at], frames.event_ms[at]
    heading = frames.fast["heading_deg"]
    return Counted(
        at=at,
        of_frame=frames.of_sample[at],
        lat_deg=lat.values[at] / BY_NAME["lat_deg"].steps_per_unit,
        lon_deg=lon.values[at] / BY_NAME["lon_deg"].steps_per_unit,
        heading=Known(heading.values[at], heading.known[at]),
        start_ms=event_ms - event_ms % window_ms,
        values=(np.ones(len(at), np.int64), dt_ms, speed.values[at] * dt_ms),
    )


def cell_rows(samples: Counted) -> RoadRows:
    """The partial rows of road cells, in the order of the frames."""
    cells = coordinates_to_cells(samples.lat_deg, samples.lon_deg, RESOLUTION).to_numpy().astype(np.int64)
    return _runs(samples, {"cell": cells, "heading_sector": _sector(samples.heading)})


def edge_rows(samples: Counted, roads: RoadIndex) -> RoadRows:
    """The partial rows of edges, in the order of the frames."""
    heading_deg = samples.heading.values / BY_NAME["heading_deg"].steps_per_unit
    found = match(roads, samples.lat_deg, samples.lon_deg, heading_deg, samples.heading.known)
    edge_id = np.where(found >= 0, roads.edge_id[found], found)
    return _runs(samples, {"edge": (roads.network << EDGE_BITS) + edge_id + EDGE_OFFSET})


def road_rows(frames: Frames, window_ms: int, roads: RoadIndex | None) -> list[RoadRows]:
    """Rows of cells, and of edges where ``roads`` are known."""
    samples = counted(frames, window_ms)
    return [cell_rows(samples)] + ([] if roads is None else [edge_rows(samples, roads)])


def _runs(samples: Counted, keys: Mapping[str, Ints]) -> RoadRows:
    """Sums over the runs of samples of one frame that have the same keys and window."""
    whole = {**keys, "start_ms": samples.start_ms}
    changes = [np.diff(key, prepend=key[:1] - 1) != 0 for key in (samples.of_frame, *whole.values())]
    begins = np.flatnonzero(np.logical_or.reduce(changes))
    sums = dict(zip(PARTS, _summed(samples.values, begins), strict=True))
    return RoadRows(samples.of_frame[begins], {name: key[begins] for name, key in whole.items()} | sums)


def _summed(values: Sequence[Ints], begins: Ints) -> list[Ints]:
    return [np.add.reduceat(v, begins) if len(begins) else v for v in values]


def _sector(heading: Known) -> Ints:
    """0 north, 1 east, 2 south, 3 west; -1 where the heading is not known."""
    per_degree = BY_NAME["heading_deg"].steps_per_unit
    quarter = (heading.values + 45 * per_degree) // (90 * per_degree) % 4
    return np.where(heading.known, quarter, UNKNOWN_SECTOR)


SAMPLES: Final = COUNTS[2]
TIME: Final = Part("time_ms_sum", "sum", lambda s: always(s.samples * s.frames.dt_ms[s.of_frame]))
STEPS_MS: Final = total(SPEED_OVER_TIME)
VEHICLES: Final = "vehicles"
"""How many vehicles were in a group, beside its sums: each is counted once, whatever its frames."""
VEHICLE_BITS: Final = 63
"""Bits of the set that tells vehicles apart across windows, by their ids' CRC-32; the sign stays free."""


def _edie_speed_kmh(of: Combined) -> pa.Array:
    over, time_ms = of[STEPS_MS.name], of[TIME.name]
    return quotient(over.values, time_ms.values * steps_per_unit("speed_kmh"), over.known)


MEASURES: Final = (
    whole(SAMPLES),
    divided(STEPS_MS, STEP_MS_PER_M).named("distance_m"),
    divided(TIME, MS_PER_S).named("time_s"),
    Measure("speed_kmh", (STEPS_MS, TIME), _edie_speed_kmh),
)
"""The measures of odograph.road_cell_window and .road_edge_window out of sums."""


def cell_names(cells: Ints) -> pa.Array:
    """Indices as H3 writes them."""
    return pa.array([f"{cell:x}" for cell in cells.tolist()], pa.string())


def edge_names(edges: Ints) -> tuple[pa.Array, pa.Array]:
    """The networks' numbers and the edges' ids."""
    return pa.array(edges >> EDGE_BITS), pa.array((edges & ((1 << EDGE_BITS) - 1)) - EDGE_OFFSET)


def vehicle_bits(vehicles: pa.StringArray) -> Ints:
    """The bit of each vehicle: a union of windows saw at least as many vehicles as it has bits."""
    coded = vehicles.dictionary_encode()
    bits = [1 << zlib.crc32(name.encode()) % VEHICLE_BITS for name in coded.dictionary.to_pylist()]
    found: Ints = np.array(bits, np.int64)[coded.indices.to_numpy()]
    return found
