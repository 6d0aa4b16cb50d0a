"""Partial rows of road cells: runs of samples of one frame in one H3 cell, direction and window.

Only samples with ignition on, a position and a speed count: of others no cell is computed. A vehicle that
comes back into a cell within a frame gives two rows: they are summed later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from h3ronpy.vector import coordinates_to_cells

from infra.contract.signals import BY_NAME
from stream_jobs.partials.frames import Frames, Ints, Known

RESOLUTION: Final = 9
"""Of H3: cells of 0.105 km2 and 0.2 km of edge."""
UNKNOWN_SECTOR: Final = -1
PARTS: Final = ("samples", "time_ms_sum", "speed_over_time_sum")
"""All of them are sums."""


@dataclass(frozen=True, slots=True)
class RoadRows:
    """Partial rows, a value each: the frame, the keys, and ``sums`` by the names in ``PARTS``."""

    of_frame: Ints
    cell: Ints
    sector: Ints
    start_ms: Ints
    sums: Mapping[str, Ints]


def road_rows(frames: Frames, window_ms: int) -> RoadRows:
    """The partial rows of a batch, in the order of its frames."""
    ignition = frames.on_samples("ignition_on")
    lat, lon, speed = (frames.fast[name] for name in ("lat_deg", "lon_deg", "speed_kmh"))
    counts = ignition.known & (ignition.values == 1) & lat.known & lon.known & speed.known
    at = np.flatnonzero(counts)
    cell = _cell(lat.values[at], lon.values[at])
    sector = _sector(frames.fast["heading_deg"], at)
    start_ms = frames.event_ms[at] - frames.event_ms[at] % window_ms
    keys = (frames.of_sample[at], cell, sector, start_ms)
    begins = np.flatnonzero(np.logical_or.reduce([np.diff(key, prepend=key[:1] - 1) != 0 for key in keys]))
    dt_ms = frames.sample_ms[at]
    values = (np.ones(len(at), np.int64), dt_ms, speed.values[at] * dt_ms)
    sums = {name: np.add.reduceat(v, begins) if len(at) else v for name, v in zip(PARTS, values, strict=True)}
    of_frame, cells, sectors, starts_ms = (key[begins] for key in keys)
    return RoadRows(of_frame, cells, sectors, starts_ms, sums)


def _cell(lat_steps: Ints, lon_steps: Ints) -> Ints:
    """Index of the H3 cell of each position."""
    lat_deg = lat_steps / BY_NAME["lat_deg"].steps_per_unit
    lon_deg = lon_steps / BY_NAME["lon_deg"].steps_per_unit
    cells: Ints = coordinates_to_cells(lat_deg, lon_deg, RESOLUTION).to_numpy().astype(np.int64)
    return cells


def _sector(heading: Known, at: Ints) -> Ints:
    """0 north, 1 east, 2 south, 3 west; -1 where the heading is not known."""
    per_degree = BY_NAME["heading_deg"].steps_per_unit
    quarter = (heading.values[at] + 45 * per_degree) // (90 * per_degree) % 4
    return np.where(heading.known[at], quarter, UNKNOWN_SECTOR)
