"""How the vehicle's machinery was in a window: engine, oil, coolant, battery, tyres, brakes, pack.

Units: rpm, %, degC, kPa gauge, V, mV. Unknown is null.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  Spark's own convention

from infra.contract.signals import BY_NAME, WHEELS
from stream_jobs.aggregates import largest, least, mean, steps_per_unit

ATMOSPHERE_KPA: Final = 101.325
ZERO_C_IN_K: Final = 273.15
REFERENCE_K: Final = 293.15
KPA20_STEPS: Final = 10.0
"""Compensated pressures are held in steps of 0.1 kPa."""
RUNNING_RPM: Final = 500
WEARS: Final = tuple(f"brake_pad_wear_{w}_pct" for w in WHEELS)


def measures() -> list[Column]:
    """Mechanical columns of odograph.vehicle_window."""
    running = F.col("engine_rpm") > RUNNING_RPM * BY_NAME["engine_rpm"].steps_per_unit
    return [
        mean("engine_rpm").alias("rpm_mean"),
        largest("engine_rpm").alias("rpm_max"),
        mean("engine_load_pct").alias("engine_load_mean_pct"),
        mean("coolant_temp_c").alias("coolant_mean_c"),
        largest("coolant_temp_c").alias("coolant_max_c"),
        least("oil_pressure_kpa", only=running).alias("oil_pressure_min_kpa"),
        largest("oil_temp_c").alias("oil_temp_max_c"),
        mean("battery_voltage_v").alias("battery_mean_v"),
        least("battery_voltage_v").alias("battery_min_v"),
        *(mean(f"tyre_{w}_kpa20", KPA20_STEPS).alias(f"tyre_{w}_kpa20") for w in WHEELS),
        (F.max("brake_pad_wear") / steps_per_unit(WEARS[0])).alias("brake_pad_wear_max_pct"),
        largest("dpf_soot_pct").alias("dpf_soot_max_pct"),
        F.max("cell_spread_mv").cast("double").alias("cell_spread_max_mv"),
        largest("cell_temp_max_c").alias("cell_temp_max_c"),
        largest("motor_temp_c").alias("motor_temp_max_c"),
        F.max("dtc_count").alias("dtc_count"),
    ]


def with_derived(frames: DataFrame) -> DataFrame:
    """Frames (slow values in steps) with what is derived from slow values, once a frame."""
    tyres = {f"tyre_{w}_kpa20": tyre_kpa20_steps(w) for w in WHEELS}
    spread = F.col("cell_voltage_max_v") - F.col("cell_voltage_min_v")
    derived = {"cell_spread_mv": spread, "brake_pad_wear": F.greatest(*WEARS)}
    return frames.withColumns(tyres | derived)


def tyre_kpa20_steps(wheel: str) -> Column:
    """A tyre's pressure brought to 20 degC by the ideal gas law, in steps of 0.1 kPa gauge."""
    pressure, temp = f"tyre_pressure_{wheel}_kpa", f"tyre_temp_{wheel}_c"
    absolute_kpa = F.col(pressure) / steps_per_unit(pressure) + ATMOSPHERE_KPA
    temp_k = F.col(temp) / steps_per_unit(temp) + ZERO_C_IN_K
    compensated_kpa = absolute_kpa * REFERENCE_K / temp_k - ATMOSPHERE_KPA
    return F.rint(compensated_kpa * KPA20_STEPS).cast("bigint")
