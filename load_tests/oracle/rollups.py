"""Minutes, hours and days of a vehicle from the definitions: out of all samples of the bucket.

Only what is said of a window as such comes from windows: the fastest rise of a cell's temperature in one of
them, the largest of their odometers, and the mean of their last ambient temperatures.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Literal
from zoneinfo import ZoneInfo

from load_tests.oracle.samples import Limits, Row, Sample, samples, time_of
from load_tests.oracle.tables import USUAL, Expected, counted
from load_tests.oracle.vehicle import vehicle_row

Unit = Literal["minute", "hour", "day"]
LAST = ("lat_deg", "lon_deg", "heading_deg", "speed_last_kmh", "speed_limit_kmh", "ignition_on")
NOT_ROLLED_UP = (
    *(*LAST, "fuel_level_pct", "soc_pct", "ambient_temp_c", "brake_pad_wear_max_pct", "window_s"),
    *("gear_min", "gear_max", "rpm_per_kmh"),
)


def expect_rollup(
    records: Iterable[tuple[int, bytes]], unit: Unit, tz: str, limits: Limits = USUAL
) -> dict[tuple[str, datetime], Row]:
    """The rows of a level, late frames repaired."""
    grouped: dict[tuple[str, datetime], list[list[Sample]]] = defaultdict(list)
    by_window: dict[tuple[str, datetime], list[Sample]] = defaultdict(list)
    for frame, word in counted(Expected(), records, limits):
        for sample in samples(frame, word == "late"):
            start = time_of(sample.event_ms // limits.window_ms * limits.window_ms)
            by_window[frame["vehicle_id"], start].append(sample)
    for (vehicle_id, start), found in by_window.items():
        grouped[vehicle_id, floor(start, unit, tz)].append(found)
    return {key: _row(found, limits) for key, found in grouped.items()}


def floor(at: datetime, unit: Unit, tz: str) -> datetime:
    """The start of the bucket of a moment: by the wall clock of the zone."""
    local = at.astimezone(ZoneInfo(tz))
    if unit == "day":
        return local.replace(hour=0, minute=0, second=0, microsecond=0).astimezone(at.tzinfo)
    into = timedelta(minutes=local.minute if unit == "hour" else 0, seconds=local.second)
    return at - into - timedelta(microseconds=local.microsecond)


def _row(windows: list[list[Sample]], limits: Limits) -> Row:
    together = [sample for window in windows for sample in window]
    row = vehicle_row(together, limits)
    each = [vehicle_row(window, limits) for window in windows]
    rises = [rise for r in each if (rise := r["cell_temp_rate_c_min"]) is not None]
    ambient = [round(a * 10) for r in each if (a := r["ambient_temp_c"]) is not None]
    changed = {
        "windows": len(windows),
        "odometer_m": max((o for r in each if (o := r["odometer_m"]) is not None), default=None),
        "cell_temp_rate_c_min": max(rises, default=None),
        "ambient_mean_c": sum(ambient) / (len(ambient) * 10) if ambient else None,
        "ambient_n": len(ambient),
    }
    return {name: value for name, value in (row | changed).items() if name not in NOT_ROLLED_UP}
