"""What the vehicle did in a window: speed, distance, time moving and idle, hard acceleration, fuel, energy.

Units: km/h, m, s, m/s^2, l, kWh. A sample stands for the ``dt_ms`` after it. Unknown is null, never 0: a
window in which no sample has what a measure needs has no such measure.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from infra.contract.signals import BY_NAME
from stream_jobs.aggregates import (
    Measure,
    divided,
    largest,
    last,
    last_flag,
    last_steps,
    least,
    mean_of,
    steps_per_unit,
)
from stream_jobs.partials import columns
from stream_jobs.partials.columns import Quantity, integral, time_where, total
from stream_jobs.partials.frames import Flags, Frames, Known

MOVING_KMH: Final = 1
SPEEDING_MARGIN_KMH: Final = 5
MS_PER_S: Final = 1000.0
MS_PER_HOUR: Final = 3_600_000.0


def measures() -> tuple[Measure, ...]:
    """Driving columns of odograph.vehicle_window."""
    return (
        mean_of("speed_kmh").named("speed_mean_kmh"),
        largest("speed_kmh").named("speed_max_kmh"),
        divided(total(SPEED_OVER_TIME), STEP_MS_PER_M).named("distance_m"),
        divided(total(time_where("moving_ms", _moving)), MS_PER_S).named("moving_s"),
        divided(total(time_where("idle_ms", _idle)), MS_PER_S).named("idle_s"),
        divided(total(time_where("speeding_ms", _speeding)), MS_PER_S).named("speeding_s"),
        largest("accel_long_mps2").named("accel_long_max_mps2"),
        least("accel_long_mps2").named("accel_long_min_mps2"),
        divided(columns.largest(_LATERAL), steps_per_unit("accel_lat_mps2")).named("accel_lat_max_mps2"),
        divided(total(_FUEL), steps_per_unit("fuel_rate_lph") * MS_PER_HOUR).named("fuel_l"),
        divided(total(_ENERGY), _STEPS_PER_WATT * MS_PER_HOUR * 1000).named("energy_kwh"),
    )


def last_known() -> tuple[Measure, ...]:
    """Columns of odograph.vehicle_window with the last known value in the window."""
    return (
        last("lat_deg"),
        last("lon_deg"),
        last("heading_deg"),
        last("speed_kmh").named("speed_last_kmh"),
        last("speed_limit_kmh"),
        last_steps("odometer_m"),
        last_flag("ignition_on"),
        last("fuel_level_pct"),
        last("soc_pct"),
        last("ambient_temp_c"),
    )


def _power(frames: Frames) -> Known:
    """Pack voltage times current, discharge positive."""
    voltage, current = frames.slow["pack_voltage_v"], frames.slow["pack_current_a"]
    return Known(voltage.values * current.values, voltage.known & current.known)


def _lateral(frames: Frames) -> Known:
    lateral = frames.fast["accel_lat_mps2"]
    return Known(np.abs(lateral.values), lateral.known)


def _moving(frames: Frames) -> tuple[Flags, Flags]:
    speed = frames.fast["speed_kmh"]
    moving = speed.values >= MOVING_KMH * BY_NAME["speed_kmh"].steps_per_unit
    return speed.known & moving, speed.known & ~moving


def _idle(frames: Frames) -> tuple[Flags, Flags]:
    """Standing with ignition on; known not to be where either is known not to be."""
    moves, stands = _moving(frames)
    ignition = frames.on_samples("ignition_on")
    on = ignition.values == 1
    return stands & ignition.known & on, moves | (ignition.known & ~on)


def _speeding(frames: Frames) -> tuple[Flags, Flags]:
    speed, limit = frames.fast["speed_kmh"], frames.on_samples("speed_limit_kmh")
    margin = SPEEDING_MARGIN_KMH * BY_NAME["speed_limit_kmh"].steps_per_unit
    finer = BY_NAME["speed_kmh"].steps_per_unit // BY_NAME["speed_limit_kmh"].steps_per_unit
    both, above = speed.known & limit.known, speed.values > (limit.values + margin) * finer
    return both & above, both & ~above


SPEED_OVER_TIME: Final = integral("speed_over_time", lambda f: f.fast["speed_kmh"], by_sample=True)
STEP_MS_PER_M: Final = steps_per_unit("speed_kmh") * MS_PER_HOUR / 1000
"""km/h times ms, over 3.6e6 ms in an hour, times 1000 m."""
_FUEL: Final = integral("fuel_over_time", lambda f: f.slow["fuel_rate_lph"], by_sample=False)
_ENERGY: Final = integral("energy_over_time", _power, by_sample=False)
_STEPS_PER_WATT: Final = steps_per_unit("pack_voltage_v") * steps_per_unit("pack_current_a")
_LATERAL: Final = Quantity("accel_lat_size", _lateral, by_sample=True)
