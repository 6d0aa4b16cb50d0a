"""What the vehicle did in a window: speed, distance, time moving and idle, hard acceleration, fuel, energy.

Units: km/h, m, s, m/s^2, l, kWh. A sample stands for the ``dt_ms`` after it. Unknown is null, never 0: a
window in which no sample has what a measure needs has no such measure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from infra.contract.signals import BY_NAME
from stream_jobs.frames.arrays import Flags, Frames, Known
from stream_jobs.windows import columns
from stream_jobs.windows.columns import Quantity, integral, time_where, total
from stream_jobs.windows.measures import (
    Measure,
    divided,
    largest,
    last,
    last_flag,
    last_steps,
    least,
    mean_of,
    samples_of,
    steps_per_unit,
)

MOVING_KMH: Final = 1
SPEEDING_MARGIN_KMH: Final = 5
SPEEDING_BANDS_KMH: Final = (10, 20, 30)
MS_PER_S: Final = 1000.0
MS_PER_HOUR: Final = 3_600_000.0


def measures() -> tuple[Measure, ...]:
    """Driving columns of odograph.vehicle_window."""
    return (
        mean_of("speed_kmh").named("speed_mean_kmh"),
        samples_of(columns.signal("speed_kmh")).named("speed_n"),
        largest("speed_kmh").named("speed_max_kmh"),
        divided(total(SPEED_OVER_TIME), STEP_MS_PER_M).named("distance_m"),
        divided(total(time_where("moving_ms", _moving)), MS_PER_S).named("moving_s"),
        divided(total(time_where("idle_ms", _idle)), MS_PER_S).named("idle_s"),
        divided(total(time_where("speeding_ms", _above(SPEEDING_MARGIN_KMH))), MS_PER_S).named("speeding_s"),
        *(_band(margin_kmh) for margin_kmh in SPEEDING_BANDS_KMH),
        largest("accel_long_mps2").named("accel_long_max_mps2"),
        least("accel_long_mps2").named("accel_long_min_mps2"),
        divided(columns.largest(_LATERAL), steps_per_unit("accel_lat_mps2")).named("accel_lat_max_mps2"),
        divided(total(_FUEL), steps_per_unit("fuel_rate_lph") * MS_PER_HOUR).named("fuel_l"),
        divided(total(_IDLE_FUEL), steps_per_unit("fuel_rate_lph") * MS_PER_HOUR).named("idle_fuel_l"),
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


def _idle_fuel(frames: Frames) -> Known:
    """Fuel rate times time where the vehicle idles; 0 where it is known not to."""
    idles, not_so = _idle(frames)
    rate = frames.on_samples("fuel_rate_lph")
    burnt = np.where(idles, rate.values * frames.sample_ms, 0)
    return Known(burnt, rate.known & (idles | not_so))


def _excess(frames: Frames) -> Known:
    """Speed above the known limit, in steps of speed."""
    speed, limit = frames.fast["speed_kmh"], frames.on_samples("speed_limit_kmh")
    finer = BY_NAME["speed_kmh"].steps_per_unit // BY_NAME["speed_limit_kmh"].steps_per_unit
    return Known(speed.values - limit.values * finer, speed.known & limit.known)


def _above(margin_kmh: int) -> Callable[[Frames], tuple[Flags, Flags]]:
    """Where the speed is more than ``margin_kmh`` above the limit."""

    def holds(frames: Frames) -> tuple[Flags, Flags]:
        excess = _EXCESS.known(frames)
        above = excess.values > margin_kmh * BY_NAME["speed_kmh"].steps_per_unit
        return excess.known & above, excess.known & ~above

    return holds


def _band(margin_kmh: int) -> Measure:
    """Time further than ``margin_kmh`` above the limit."""
    time = time_where(f"speeding_{margin_kmh}_ms", _above(margin_kmh))
    return divided(total(time), MS_PER_S).named(f"speeding_{margin_kmh}_s")


SPEED_OVER_TIME: Final = integral("speed_over_time", lambda f: f.fast["speed_kmh"], by_sample=True)
STEP_MS_PER_M: Final = steps_per_unit("speed_kmh") * MS_PER_HOUR / 1000
"""km/h times ms, over 3.6e6 ms in an hour, times 1000 m."""
_FUEL: Final = integral("fuel_over_time", lambda f: f.slow["fuel_rate_lph"], by_sample=False)
_IDLE_FUEL: Final = Quantity("idle_fuel_over_time", _idle_fuel, by_sample=True)
_EXCESS: Final = Quantity("excess", _excess, by_sample=True)
_ENERGY: Final = integral("energy_over_time", _power, by_sample=False)
_STEPS_PER_WATT: Final = steps_per_unit("pack_voltage_v") * steps_per_unit("pack_current_a")
_LATERAL: Final = Quantity("accel_lat_size", _lateral, by_sample=True)
