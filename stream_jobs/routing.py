"""Traffic by road cell: how many vehicles, how fast, in which direction.

A cell is a Web Mercator tile of zoom 17 (about 250 m at 35 degrees of latitude), written ``17/x/y``.
Direction is one of four sectors of 90 degrees, centred on 0 north, 1 east, 2 south, 3 west; -1 where
the heading is not known. Only samples with ignition on, a position and a speed count. Speed is Edie's
space-mean speed: the distance travelled by all over the time spent by all (L. C. Edie, 1963).
"""

from __future__ import annotations

import math
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  Spark's own convention

from infra.contract.signals import BY_NAME
from stream_jobs.aggregates import in_unit, steps_per_unit
from stream_jobs.driving import distance_m
from stream_jobs.quality import clean_slow
from stream_jobs.samples import explode

ZOOM: Final = 17
TILES: Final = 1 << ZOOM
MAX_LAT_DEG: Final = 85.05
"""Web Mercator ends at 85.0511 degrees; beyond is taken for the outermost row."""
UNKNOWN_SECTOR: Final = -1
SIGNALS: Final = tuple(BY_NAME[s] for s in ("speed_kmh", "lat_deg", "lon_deg", "heading_deg", "ignition_on"))


def samples_of(frames: DataFrame, watermark_s: int) -> DataFrame:
    """Samples of judged frames that tell of traffic, each with its ``tile`` and ``heading_sector``."""
    on = clean_slow(frames.where("ignition_on"))
    known = [F.col(s).isNotNull() for s in ("lat_deg", "lon_deg", "speed_kmh")]
    placed = explode(on, watermark_s).where(known[0] & known[1] & known[2])
    return placed.withColumns({"tile": tile(), "heading_sector": heading_sector()})


def road_cell_windows(samples: DataFrame, window_s: int) -> DataFrame:
    """One row a cell, direction and window of event time, as in odograph.road_cell_window."""
    window = F.window("event_time", f"{window_s} seconds")
    grouped = samples.groupBy("tile", "heading_sector", window).agg(
        F.size(F.collect_set(F.xxhash64("vehicle_id"))).alias("vehicles"),
        F.count(F.lit(1)).cast("int").alias("samples"),
        distance_m().alias("distance_m"),
        (F.sum("dt_ms") / 1000.0).alias("time_s"),
        _edie_speed_kmh().alias("speed_kmh"),
    )
    start = F.col("window.start").alias("window_start")
    measures = ("vehicles", "samples", "distance_m", "time_s", "speed_kmh")
    return grouped.select(cell_name(), "heading_sector", start, F.lit(window_s).alias("window_s"), *measures)


def tile() -> Column:
    """The sample's tile as x * 2^17 + y."""
    lat_deg, lon_deg = in_unit(F.col("lat_deg"), "lat_deg"), in_unit(F.col("lon_deg"), "lon_deg")
    x = F.floor((lon_deg + 180) / 360 * TILES)
    lat_rad = F.greatest(F.least(lat_deg, F.lit(MAX_LAT_DEG)), F.lit(-MAX_LAT_DEG)) * (math.pi / 180)
    mercator = F.log(F.tan(lat_rad) + 1 / F.cos(lat_rad))
    y = F.floor((1 - mercator / math.pi) / 2 * TILES)
    return F.least(x, F.lit(TILES - 1)) * TILES + y


def cell_name() -> Column:
    """``zoom/x/y`` out of the tile's number."""
    x, y = F.shiftright("tile", ZOOM), F.col("tile").bitwiseAND(TILES - 1)
    return F.concat_ws("/", F.lit(str(ZOOM)), x.cast("string"), y.cast("string")).alias("cell")


def heading_sector() -> Column:
    """0 north, 1 east, 2 south, 3 west; -1 where the heading is not known."""
    per_degree = BY_NAME["heading_deg"].steps_per_unit
    quarter = F.floor((F.col("heading_deg") + 45 * per_degree) / (90.0 * per_degree)) % 4
    return F.coalesce(quarter, F.lit(UNKNOWN_SECTOR)).cast("smallint")


def _edie_speed_kmh() -> Column:
    steps_ms = F.sum(F.col("speed_kmh") * F.col("dt_ms"))
    return steps_ms / (F.sum("dt_ms") * steps_per_unit("speed_kmh"))
