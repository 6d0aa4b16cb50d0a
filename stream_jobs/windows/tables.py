"""The tables of windows: their columns, and how rows follow from combined parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from infra.settings.settings import Settings
from stream_jobs.roads.matching import RoadLookup, lookup_of
from stream_jobs.windows import driving, electrics, health, roads
from stream_jobs.windows.columns import COUNTS
from stream_jobs.windows.measures import Combined, moment, parts_of, results, whole
from stream_jobs.windows.segments import always

_FRAMES, _LATE, _SAMPLES, _WRONG, _FIRST, _LAST = COUNTS
MEASURES: Final = (
    whole(_FRAMES),
    whole(_LATE),
    whole(_SAMPLES),
    whole(_WRONG),
    moment(_FIRST).named("first_event"),
    moment(_LAST).named("last_event"),
    *driving.measures(),
    *health.measures(),
    *electrics.measures(),
    *driving.last_known(),
)
"""The measures of odograph.vehicle_window."""
PARTS: Final = parts_of(MEASURES)
"""What is kept of a window of a vehicle while it is open."""
VEHICLE_COLUMNS: Final = ("vehicle_id", "window_start", "window_s", *(m.name for m in MEASURES))
_ROAD_MEASURES: Final = (
    *("window_start", "window_s", roads.VEHICLES, "vehicle_bits"),
    *(m.name for m in roads.MEASURES),
)
ROAD_COLUMNS: Final = ("cell", "heading_sector", *_ROAD_MEASURES)
EDGE_COLUMNS: Final = ("network_no", "edge_id", *_ROAD_MEASURES)
NO_SECTOR: Final = -2
"""The sector of a place that has no direction: it is an edge."""
LATEST: Final = {
    "event_time": "last_event",
    "lat_deg": "lat_deg",
    "lon_deg": "lon_deg",
    "heading_deg": "heading_deg",
    "speed_kmh": "speed_last_kmh",
    "speed_limit_kmh": "speed_limit_kmh",
    "odometer_m": "odometer_m",
    "ignition_on": "ignition_on",
    "coolant_c": "coolant_mean_c",
    "battery_v": "battery_mean_v",
    "fuel_level_pct": "fuel_level_pct",
    "soc_pct": "soc_pct",
}
"""Columns of odograph.vehicle_latest and those of the newest window that they are; the worst tyre besides."""
_TYRES: Final = ("tyre_fl_kpa20", "tyre_fr_kpa20", "tyre_rl_kpa20", "tyre_rr_kpa20")
_OF_LATEST: Final = tuple(m for m in MEASURES if m.name in {*LATEST.values(), *_TYRES})


@dataclass(frozen=True, slots=True)
class Lengths:
    """Lengths of the windows of vehicles and roads, s.

    ``roads`` is where the network in use is found; None: no windows by edge.
    """

    window_s: int
    road_window_s: int
    roads: RoadLookup | None = None


def lengths_of(settings: Settings) -> Lengths:
    """The lengths in force."""
    return Lengths(settings.jobs.window_s, settings.jobs.road_window_s, lookup_of(settings))


def vehicle_rows(vehicles: pa.StringArray, start_ms: int, window_s: int, parts: Combined) -> pa.Table:
    """Rows of odograph.vehicle_window that begin at one moment."""
    starts = pa.array(np.full(len(vehicles), start_ms)).cast(pa.timestamp("ms", tz="UTC"))
    keys = {"vehicle_id": vehicles, "window_start": starts, "window_s": np.full(len(vehicles), window_s)}
    return pa.table(keys | results(MEASURES, parts))


NO_WINDOWS: Final = vehicle_rows(
    pa.array([], pa.string()), 0, 0, {part.name: always(np.zeros(0, np.int64)) for part in PARTS}
)
"""A table of windows by vehicle without a row."""


def newest_rows(vehicles: pa.StringArray, start_ms: int, parts: Combined) -> pa.Table:
    """As ``vehicle_rows``, but only what ``latest_of`` asks for."""
    starts = pa.array(np.full(len(vehicles), start_ms)).cast(pa.timestamp("ms", tz="UTC"))
    return pa.table({"vehicle_id": vehicles, "window_start": starts} | results(_OF_LATEST, parts))


def latest_of(rows: pa.Table) -> pa.Table:
    """Rows of odograph.vehicle_latest: what each vehicle's newest of these windows says."""
    rows = rows.sort_by([("window_start", "descending")])
    codes = rows["vehicle_id"].combine_chunks().dictionary_encode().indices.to_numpy()
    newest = rows.take(pa.array(np.unique(codes, return_index=True)[1]))
    worst = pc.min_element_wise(*(newest[name] for name in _TYRES))
    of = {name: newest[column] for name, column in LATEST.items()}
    return pa.table({"vehicle_id": newest["vehicle_id"]} | of | {"tyre_min_kpa20": worst})


def place_rows(sums: pa.Table, window_s: int) -> tuple[pa.Table, pa.Table]:
    """Rows of odograph.road_cell_window and .road_edge_window out of places.SHARE summed."""
    edges = pc.equal(sums["heading_sector"], NO_SECTOR)
    cell, edge = sums.filter(pc.invert(edges)), sums.filter(edges)
    network_no, edge_id = roads.edge_names(edge["place"].to_numpy())
    cells = {"cell": roads.cell_names(cell["place"].to_numpy()), "heading_sector": cell["heading_sector"]}
    return (
        pa.table(cells | _measured(cell, window_s)).select([*ROAD_COLUMNS]),
        pa.table({"network_no": network_no, "edge_id": edge_id} | _measured(edge, window_s)).select(
            [*EDGE_COLUMNS]
        ),
    )


def _measured(sums: pa.Table, window_s: int) -> dict[str, pa.Array]:
    parts = {name: always(sums[name].to_numpy()) for name in sums.column_names}
    start = sums["start_ms"].cast(pa.timestamp("ms", tz="UTC"))
    window = pa.array(np.full(sums.num_rows, window_s))
    counts = {name: sums[name] for name in (roads.VEHICLES, "vehicle_bits")}
    return {"window_start": start, "window_s": window} | counts | results(roads.MEASURES, parts)
