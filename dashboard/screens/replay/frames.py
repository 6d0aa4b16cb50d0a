"""A stretch of a day as the player takes it: places of all vehicles in steps, as small arrays. Pure.

Times are epoch milliseconds. A stretch of ``steps`` steps has ``steps + 1`` columns: its last is the first
one of the next stretch, so that vehicles move smoothly across.
"""

import base64
import math
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from dashboard.shared import text
from dashboard.shared.text import Columns, Record, moment, rows_of

PLACES_A_STRETCH: Final = 60_000  # places that are asked for and sent at once
STEPS_MOST: Final = 60
STEPS_S: Final = (10, 30, 60, 120, 300, 600)
STEPS_A_SECOND: Final = 2  # places of a vehicle that are shown a second; between them it moves along a line
DEGREE: Final = 1e6  # whole numbers a degree: 0.1 m
UNKNOWN_PLACE: Final = -(2**31)
UNKNOWN: Final = 255
STATES: Final = ("moving", "idling", "parked", "unknown")
MOVING_KMH: Final = 1.0

Bytes = npt.NDArray[np.uint8]


class Plan(NamedTuple):
    """How a day is cut: ``step_ms`` between places, ``stretch_ms`` a question."""

    step_ms: int
    stretch_ms: int

    @property
    def steps(self) -> int:
        return self.stretch_ms // self.step_ms


def plan(speed: int, vehicles: int, window_s: int) -> Plan:
    """The cut for a fleet at a speed (seconds of the day a second); steps are whole windows."""
    wanted = max(window_s, speed / STEPS_A_SECOND)
    whole = math.ceil(wanted / window_s) * window_s
    step_s = next((s for s in STEPS_S if s >= wanted and s % window_s == 0), whole)
    steps = min(STEPS_MOST, max(2, PLACES_A_STRETCH // max(1, vehicles)))
    return Plan(step_s * 1000, step_s * 1000 * steps)


def start_of(at_ms: float, cut: Plan) -> int:
    """Begin of the stretch that a moment lies in."""
    return int(at_ms // cut.stretch_ms * cut.stretch_ms)


def stretch(
    places: pd.DataFrame, before: pd.DataFrame, alerts: pd.DataFrame, start_ms: int, cut: Plan
) -> Record:
    """What the player is given of one stretch; arrays are [vehicles, steps + 1], row after row, as base64.

    ``before`` has row, time, place and state of each vehicle's last place before the stretch.
    """
    ids = sorted({*places["vehicle_id"], *before["vehicle_id"]})
    row_of = {vehicle: row for row, vehicle in enumerate(ids)}
    rows = places["vehicle_id"].map(row_of).to_numpy(np.int64, na_value=0)
    columns = ((places["at_ms"].to_numpy(np.int64) - start_ms) // cut.step_ms).astype(np.int64)
    inside = (columns >= 0) & (columns <= cut.steps)
    grids = {}
    for name, (values, empty) in _columns(places).items():
        grid = np.full((len(ids), cut.steps + 1), empty, values.dtype)
        grid[rows[inside], columns[inside]] = values[inside]
        grids[name] = base64.b64encode(grid.tobytes()).decode()
    known = states(before["speed_kmh"].to_numpy(float, na_value=np.nan), before["ignition_on"])
    last = [
        [row_of[row["vehicle_id"]], row["at_ms"], row["lat_deg"], row["lon_deg"], int(state)]
        for row, state in zip(rows_of(before), known, strict=True)
    ]
    cells = {"start_ms": start_ms, "step_ms": cut.step_ms, "steps": cut.steps, "ids": ids}
    return cells | {"before": last, "alerts": rows_of(alerts)} | grids


def _columns(places: pd.DataFrame) -> dict[str, tuple[npt.NDArray[Any], int]]:
    """Each array with the value that stands for nothing."""
    speed = places["speed_kmh"].to_numpy(float, na_value=np.nan)
    turn = places["heading_deg"].to_numpy(float, na_value=np.nan)
    return {
        "lat": (np.round(places["lat_deg"].to_numpy(float) * DEGREE).astype(np.int32), UNKNOWN_PLACE),
        "lon": (np.round(places["lon_deg"].to_numpy(float) * DEGREE).astype(np.int32), UNKNOWN_PLACE),
        "speed": (_small(np.minimum(np.round(speed), UNKNOWN - 1)), UNKNOWN),
        "heading": (_small(np.floor(turn % 360 / 360 * UNKNOWN)), UNKNOWN),
        "state": (states(speed, places["ignition_on"]), UNKNOWN),
    }


def _small(values: npt.NDArray[np.float64]) -> Bytes:
    return np.where(np.isnan(values), UNKNOWN, values).astype(np.uint8)


def states(speed_kmh: npt.NDArray[np.float64], ignition_on: pd.Series) -> Bytes:
    """Places in STATES, as serving.fleet_latest judges a vehicle that is not silent."""
    off = (ignition_on == False).to_numpy(bool)  # noqa: E712  an unknown ignition is not off
    moving = np.nan_to_num(speed_kmh, nan=0.0) >= MOVING_KMH
    return np.select([off, moving, np.isnan(speed_kmh)], [2, 0, 3], default=1).astype(np.uint8)


RUNS: Final[Columns] = {
    "Run": "run_id",
    "Table": "table_name",
    "Verdict": ("equal", {True: "✓ equal", False: "✗ different"}.get),
    "Rows live": "live_rows",
    "Rows run": "run_rows",
    "Differ": "rows_differing",
    "From": ("since", moment),
    "To": ("until", moment),
    "Vehicles": ("vehicles", lambda v: "all" if text.missing(v) else text.number(v)),
    "Changed settings": "changed",
    "Read": "read_by_serving",
    "Compared": ("compared_at", moment),
}
"""Comparisons of shadow runs with live: a row a run and table, equal or different, by how many rows."""


def difference(row: Record) -> str:
    """The columns that differ most and the first row that does."""
    most = sorted(row["by_column"].items(), key=lambda item: (-item[1], item[0]))
    columns = ", ".join(f"{name} in {count:,} rows" for name, count in most)
    return f"{columns}\nfirst: {row['first_difference']}" if row["first_difference"] else columns
