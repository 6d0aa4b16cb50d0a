"""Traffic by road cell and by edge: how many vehicles, how fast, in which direction.

A cell is an H3 cell of resolution 9 (0.105 km2, edge about 0.2 km), written as H3 writes it, in hexadecimal.
Direction is one of four sectors of 90 degrees, centred on 0 north, 1 east, 2 south, 3 west; -1 where
the heading is not known. Only samples with ignition on, a position and a speed count (see roads.py).
An edge is directed and belongs to a network; -1 and -2 hold the samples that fit no edge clearly, or none.
Speed is Edie's space-mean speed: the distance travelled by all over the time spent by all (L. C. Edie, 1963).
"""

from __future__ import annotations

import zlib
from typing import Final

import numpy as np
import pyarrow as pa

from stream_jobs.frames.arrays import Ints
from stream_jobs.windows.columns import COUNTS, Part, total
from stream_jobs.windows.driving import MS_PER_S, SPEED_OVER_TIME, STEP_MS_PER_M
from stream_jobs.windows.measures import Combined, Measure, divided, quotient, steps_per_unit, whole
from stream_jobs.windows.roads import EDGE_BITS, EDGE_OFFSET
from stream_jobs.windows.segments import always

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
