"""How the electric side was in a window: the 12 V system at rest and running, traction pack and motor.

Units: V, mV, degC. Unknown is null.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from infra.contract.signals import BY_NAME
from stream_jobs.frames.arrays import Flags, Frames, Known
from stream_jobs.windows import columns
from stream_jobs.windows.columns import VALUE_BITS, Quantity
from stream_jobs.windows.health import LOWEST_RPM, RUNS
from stream_jobs.windows.measures import (
    Combined,
    Measure,
    divided,
    largest,
    least,
    mean,
    mean_of,
    quotient,
    samples_of,
    steps_per_unit,
    whole,
)

RESTING_A: Final = 5
"""Pack current below which the cells count as at rest (eng.): under load they part by their resistances."""
MS_PER_MINUTE: Final = 60_000


def measures() -> tuple[Measure, ...]:
    """Electric columns of odograph.vehicle_window."""
    volts = steps_per_unit("battery_voltage_v")
    return (
        mean_of("battery_voltage_v").named("battery_mean_v"),
        samples_of(columns.signal("battery_voltage_v")).named("battery_n"),
        least("battery_voltage_v").named("battery_min_v"),
        mean(_REST, volts).named("battery_rest_v"),
        samples_of(_REST).named("battery_rest_n"),
        mean(_RUNNING, volts).named("battery_running_v"),
        samples_of(_RUNNING).named("battery_running_n"),
        divided(columns.least(_ON), volts).named("battery_on_min_v"),
        whole(columns.largest(_CELL_SPREAD), "double").named("cell_spread_max_mv"),
        whole(columns.largest(_SPREAD_AT_REST), "double").named("cell_spread_rest_mv"),
        least("cell_temp_min_c").named("cell_temp_min_c"),
        largest("cell_temp_max_c").named("cell_temp_max_c"),
        _cell_temp_rate(),
        least("pack_voltage_v").named("pack_voltage_min_v"),
        largest("motor_temp_c").named("motor_temp_max_c"),
    )


def _cell_temp_rate() -> Measure:
    """The hottest cell's last temperature less its first, over the time between; null without two times."""
    hottest = columns.signal("cell_temp_max_c")
    first, last = columns.first(hottest), columns.last(hottest)
    low_bits = (1 << VALUE_BITS) - 1

    def rate(of: Combined) -> pa.Array:
        start, end = of[first.name], of[last.name]
        rise = (end.values & low_bits) - (start.values & low_bits)
        time_ms = (end.values >> VALUE_BITS) - (start.values >> VALUE_BITS)
        apart = time_ms * steps_per_unit("cell_temp_max_c")
        return quotient(rise * MS_PER_MINUTE, apart, end.known & (time_ms > 0))

    return Measure("cell_temp_rate_c_min", (first, last), rate)


def _ignition(frames: Frames, on: bool) -> Flags:
    ignition = frames.slow["ignition_on"]
    is_so: Flags = ignition.known & (ignition.values == int(on))
    return is_so


def _at_rest(frames: Frames) -> Known:
    """12 V system with ignition off."""
    return frames.slow["battery_voltage_v"].only(_ignition(frames, on=False))


def _on(frames: Frames) -> Known:
    """12 V system with ignition on: a start shows as the lowest of it."""
    return frames.slow["battery_voltage_v"].only(_ignition(frames, on=True))


def _running(frames: Frames) -> Known:
    """12 V system with ignition on, the engine running all through the frame or not there."""
    engineless = ~LOWEST_RPM.known(frames).known
    return _on(frames).only(RUNS.known(frames).known | engineless)


def _cell_spread(frames: Frames) -> Known:
    """The cells' difference, mV."""
    high, low = frames.slow["cell_voltage_max_v"], frames.slow["cell_voltage_min_v"]
    return Known(high.values - low.values, high.known & low.known)


def _spread_at_rest(frames: Frames) -> Known:
    current = frames.slow["pack_current_a"]
    resting = np.abs(current.values) < RESTING_A * BY_NAME["pack_current_a"].steps_per_unit
    return _CELL_SPREAD.known(frames).only(current.known & resting)


_REST: Final = Quantity("battery_rest", _at_rest, by_sample=False)
_ON: Final = Quantity("battery_on", _on, by_sample=False)
_RUNNING: Final = Quantity("battery_running", _running, by_sample=False)
_CELL_SPREAD: Final = Quantity("cell_spread_mv", _cell_spread, by_sample=False)
_SPREAD_AT_REST: Final = Quantity("cell_spread_rest_mv", _spread_at_rest, by_sample=False)
