"""Traffic by road cell and by edge: how many vehicles, how fast, in which direction.

A cell is an H3 cell of resolution 9 (0.105 km2, edge about 0.2 km), written as H3 writes it, in hexadecimal.
Direction is one of four sectors of 90 degrees, centred on 0 north, 1 east, 2 south, 3 west; -1 where
the heading is not known. Only samples with ignition on, a position and a speed count (see partials/roads.py).
An edge is directed and belongs to a network; -1 and -2 hold the samples that fit no edge clearly, or none.
Speed is Edie's space-mean speed: the distance travelled by all over the time spent by all (L. C. Edie, 1963).
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  Spark's own convention

from stream_jobs.aggregates import Measure, divided, steps_per_unit, whole
from stream_jobs.driving import MS_PER_S, SPEED_OVER_TIME, STEP_MS_PER_M
from stream_jobs.partials.columns import COUNTS, VISITS, Part, total
from stream_jobs.partials.roads import EDGE_BITS, EDGE_OFFSET
from stream_jobs.partials.segments import always, unknown

SAMPLES: Final = COUNTS[2]
_TIME: Final = Part("time_ms_sum", "sum", lambda s: always(s.samples * s.frames.dt_ms[s.of_frame]))
_STEPS_MS: Final = total(SPEED_OVER_TIME)


_VISITS: Final = Part(VISITS, "sum", lambda s: unknown(s.begins))


def _edie_speed_kmh() -> Column:
    return F.col(_STEPS_MS.name) / (F.col(_TIME.name) * steps_per_unit("speed_kmh"))


MEASURES: Final = (
    whole(_VISITS, "int").named("vehicles"),
    whole(SAMPLES, "int"),
    divided(_STEPS_MS, STEP_MS_PER_M).named("distance_m"),
    divided(_TIME, MS_PER_S).named("time_s"),
    Measure("speed_kmh", (_STEPS_MS, _TIME), _edie_speed_kmh),
)
"""The measures of odograph.road_cell_window and .road_edge_window."""
VEHICLE_BITS: Final = 63
"""Bits of the set that tells vehicles apart across windows, by their ids' CRC-32; the sign stays free."""


def cell_name() -> Column:
    """The cell's index as H3 writes it; null where there is none."""
    return F.lower(F.hex("cell")).alias("cell")


def edge_names() -> tuple[Column, Column]:
    """The network's number and the edge's id; null where there is no edge."""
    edge_id = F.col("edge").bitwiseAND((1 << EDGE_BITS) - 1) - EDGE_OFFSET
    network = F.shiftright("edge", EDGE_BITS)
    return network.cast("int").alias("network_no"), edge_id.cast("int").alias("edge_id")


def vehicle_bit() -> Column:
    """The bit of a row's vehicle: a union of windows saw at least as many vehicles as it has bits."""
    return F.expr(f"shiftleft(1L, cast(crc32(encode(vehicle_id, 'UTF-8')) % {VEHICLE_BITS} AS int))")
