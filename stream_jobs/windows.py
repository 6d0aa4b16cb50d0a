"""Windows by vehicle, road cell and edge: frames with partial rows -> rows of all tables in one aggregation.

A group is a vehicle and a window, or a road cell, a direction and a window, or an edge and a window: one
aggregation and one state for all, because all come out of the same frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  Spark's own convention

from infra.contract.settings import Settings
from stream_jobs import driving, electrics, health, routing
from stream_jobs.aggregates import combined, moment, parts_of, results, whole
from stream_jobs.partials.columns import COUNTS, VISITS
from stream_jobs.roads.matching import RoadLookup, lookup_of

_FRAMES, _LATE, _SAMPLES, _WRONG, _FIRST, _LAST = COUNTS
MEASURES: Final = (
    whole(_FRAMES, "int"),
    whole(_LATE, "int"),
    whole(_SAMPLES, "int"),
    whole(_WRONG, "int"),
    moment(_FIRST).named("first_event"),
    moment(_LAST).named("last_event"),
    *driving.measures(),
    *health.measures(),
    *electrics.measures(),
    *driving.last_known(),
)
"""The measures of odograph.vehicle_window."""
PARTS: Final = parts_of((*MEASURES, *routing.MEASURES))
"""The columns of a partial row: those of vehicles hold what road cells need, and the time."""
WATERMARK_METADATA: Final = "spark.watermarkDelayMs"
_GROUP: Final = ("vehicle", "cell", "heading_sector", "edge", "window_end")


@dataclass(frozen=True, slots=True)
class Lengths:
    """Lengths of the windows of vehicles and roads and the delay of the watermark, s.

    ``roads`` is where the stages find the network in use; None: no windows by edge.
    """

    window_s: int
    road_window_s: int
    watermark_s: int
    roads: RoadLookup | None = None


def lengths_of(settings: Settings) -> Lengths:
    """The lengths in force."""
    jobs = settings.jobs
    return Lengths(jobs.window_s, jobs.road_window_s, jobs.watermark_s, lookup_of(settings))


def all_windows(frames: DataFrame, lengths: Lengths) -> DataFrame:
    """A row a window of any table: the columns of all, null where they are another's.

    Spark forgets that a column derived from the watermarked one still is event time, and would keep every
    window for ever; the column's metadata says it (as ``withWatermark`` would, which may stand only once).
    """
    rows = frames.select("vehicle_id", F.inline("partials"))
    of_vehicle = _of_vehicle()
    length_ms = F.when(of_vehicle, lengths.window_s * 1000).otherwise(lengths.road_window_s * 1000)
    window_end = F.timestamp_millis(F.col("start_ms") + length_ms)
    keyed = rows.select(
        F.when(of_vehicle, F.col("vehicle_id")).alias("vehicle"),
        "cell",
        "heading_sector",
        "edge",
        window_end.alias("window_end", metadata=event_time(lengths.watermark_s)),
        F.when(F.col(VISITS) > 0, routing.vehicle_bit()).alias("vehicle_bit"),
        *(part.name for part in PARTS),
    )
    vehicle_bits = F.bit_or("vehicle_bit").alias("vehicle_bits")
    grouped = keyed.groupBy(*_GROUP).agg(*combined(PARTS), vehicle_bits)
    return _named(grouped.where(F.col(routing.SAMPLES.name).isNotNull()), lengths)


def event_time(watermark_s: int) -> dict[str, int]:
    """Metadata of a column that is event time behind a watermark of this delay."""
    return {WATERMARK_METADATA: watermark_s * 1000}


def _named(grouped: DataFrame, lengths: Lengths) -> DataFrame:
    window = F.when(_of_vehicle(), lengths.window_s).otherwise(lengths.road_window_s)
    start = F.timestamp_millis(F.unix_millis("window_end") - window * 1000)
    own = [m for m in routing.MEASURES if m.name not in {v.name for v in MEASURES}]
    return grouped.select(
        F.col("vehicle").alias("vehicle_id"),
        routing.cell_name(),
        F.col("heading_sector").cast("smallint").alias("heading_sector"),
        *routing.edge_names(),
        start.alias("window_start"),
        window.alias("window_s"),
        "vehicle_bits",
        *results(MEASURES),
        *results(own),
    )


def _of_vehicle() -> Column:
    return F.col("cell").isNull() & F.col("edge").isNull()


def vehicle_windows(windows: DataFrame) -> DataFrame:
    """Those of ``all_windows`` that are rows of odograph.vehicle_window."""
    return windows.where(F.col("vehicle_id").isNotNull()).select(*VEHICLE_COLUMNS)


def road_windows(windows: DataFrame) -> DataFrame:
    """Those of ``all_windows`` that are rows of odograph.road_cell_window."""
    return windows.where(F.col("cell").isNotNull()).select(*ROAD_COLUMNS)


def edge_windows(windows: DataFrame) -> DataFrame:
    """Those of ``all_windows`` that are rows of odograph.road_edge_window."""
    return windows.where(F.col("edge_id").isNotNull()).select(*EDGE_COLUMNS)


def split(rows: pa.Table, tags: Sequence[str] = ()) -> tuple[pa.Table, pa.Table, pa.Table]:
    """Rows of ``all_windows`` as those of odograph.vehicle_window, .road_cell_window and .road_edge_window.

    All keep the columns ``tags``.
    """
    kinds = (("vehicle_id", VEHICLE_COLUMNS), ("cell", ROAD_COLUMNS), ("edge_id", EDGE_COLUMNS))
    vehicle, cell, edge = (
        rows.filter(pc.is_valid(rows[key])).select([*columns, *tags]) for key, columns in kinds
    )
    return vehicle, cell, edge


VEHICLE_COLUMNS: Final = ("vehicle_id", "window_start", "window_s", *(m.name for m in MEASURES))
_ROAD_MEASURES: Final = (
    *("window_start", "window_s", "vehicle_bits"),
    *(m.name for m in routing.MEASURES),
)
ROAD_COLUMNS: Final = ("cell", "heading_sector", *_ROAD_MEASURES)
EDGE_COLUMNS: Final = ("network_no", "edge_id", *_ROAD_MEASURES)
