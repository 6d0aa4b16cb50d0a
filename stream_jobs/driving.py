"""What the vehicle did in a window: speed, distance, time moving and idle, hard acceleration, fuel, energy.

Units: km/h, m, s, m/s^2, l, kWh. A sample stands for the ``dt_ms`` after it. Unknown is null, never 0: a
window in which no sample has what a measure needs has no such measure.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  Spark's own convention

from infra.contract.signals import BY_NAME
from stream_jobs.aggregates import (
    in_unit,
    largest,
    last,
    last_steps,
    last_value,
    least,
    mean,
    seconds,
    steps_per_unit,
)

MOVING_KMH: Final = 1
SPEEDING_MARGIN_KMH: Final = 5
MS_PER_HOUR: Final = 3_600_000.0


def measures() -> list[Column]:
    """Driving columns of odograph.vehicle_window."""
    return [
        mean("speed_kmh").alias("speed_mean_kmh"),
        largest("speed_kmh").alias("speed_max_kmh"),
        distance_m().alias("distance_m"),
        seconds(_dt_where(_moving())).alias("moving_s"),
        seconds(_dt_where(~_moving() & F.col("ignition_on"))).alias("idle_s"),
        seconds(_dt_where(_speeding())).alias("speeding_s"),
        largest("accel_long_mps2").alias("accel_long_max_mps2"),
        least("accel_long_mps2").alias("accel_long_min_mps2"),
        in_unit(F.max(F.abs("accel_lat_mps2")), "accel_lat_mps2").alias("accel_lat_max_mps2"),
        fuel_l().alias("fuel_l"),
        energy_kwh().alias("energy_kwh"),
    ]


def last_known(window_ms: int) -> list[Column]:
    """Columns of odograph.vehicle_window with the last known value in the window."""
    return [
        last_value("lat_deg", window_ms).alias("lat_deg"),
        last_value("lon_deg", window_ms).alias("lon_deg"),
        last_value("heading_deg", window_ms).alias("heading_deg"),
        last_value("speed_kmh", window_ms).alias("speed_last_kmh"),
        last_value("speed_limit_kmh", window_ms).alias("speed_limit_kmh"),
        last_steps("odometer_m", window_ms).alias("odometer_m"),
        last("ignition_on", window_ms).cast("boolean").alias("ignition_on"),
        last_value("fuel_level_pct", window_ms).alias("fuel_level_pct"),
        last_value("soc_pct", window_ms).alias("soc_pct"),
        last_value("ambient_temp_c", window_ms).alias("ambient_temp_c"),
    ]


def distance_m() -> Column:
    """Integral of speed, m: km/h times ms, over 3.6e6 ms in an hour, times 1000 m."""
    steps_ms = F.sum(F.col("speed_kmh") * F.col("dt_ms"))
    return steps_ms / (steps_per_unit("speed_kmh") * MS_PER_HOUR / 1000)


def fuel_l() -> Column:
    """Integral of the fuel rate, l."""
    return F.sum(F.col("fuel_rate_lph") * F.col("dt_ms")) / (steps_per_unit("fuel_rate_lph") * MS_PER_HOUR)


def energy_kwh() -> Column:
    """Integral of pack voltage times current, kWh, discharge positive: W times ms, over 3.6e9 in a kWh."""
    power = F.col("pack_voltage_v") * F.col("pack_current_a")
    per_watt = steps_per_unit("pack_voltage_v") * steps_per_unit("pack_current_a")
    return F.sum(power * F.col("dt_ms")) / (per_watt * MS_PER_HOUR * 1000)


def _moving() -> Column:
    return F.col("speed_kmh") >= MOVING_KMH * BY_NAME["speed_kmh"].steps_per_unit


def _speeding() -> Column:
    limit = F.col("speed_limit_kmh") + SPEEDING_MARGIN_KMH * BY_NAME["speed_limit_kmh"].steps_per_unit
    finer = BY_NAME["speed_kmh"].steps_per_unit // BY_NAME["speed_limit_kmh"].steps_per_unit
    return F.col("speed_kmh") > limit * finer


def _dt_where(holds: Column) -> Column:
    """The sample's time where ``holds``, 0 where it does not, null where that is unknown."""
    return F.when(holds, F.col("dt_ms")).when(~holds, F.lit(0))
