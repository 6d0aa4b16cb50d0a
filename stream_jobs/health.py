"""How the vehicle's machinery was in a window: engine, oil, coolant, battery, tyres, brakes, pack.

Units: rpm, %, degC, kPa gauge, V, mV. Unknown is null.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from infra.contract.signals import BY_NAME, WHEELS
from stream_jobs.aggregates import Measure, divided, largest, least, mean, mean_of, steps_per_unit, whole
from stream_jobs.partials import columns
from stream_jobs.partials.columns import Part, Quantity
from stream_jobs.partials.frames import Frames, Known
from stream_jobs.partials.segments import Segments

ATMOSPHERE_KPA: Final = 101.325
ZERO_C_IN_K: Final = 273.15
REFERENCE_K: Final = 293.15
KPA20_STEPS: Final = 10.0
"""Compensated pressures are held in steps of 0.1 kPa."""
RUNNING_RPM: Final = 500
WEARS: Final = tuple(f"brake_pad_wear_{w}_pct" for w in WHEELS)


def measures() -> tuple[Measure, ...]:
    """Mechanical columns of odograph.vehicle_window."""
    return (
        mean_of("engine_rpm").named("rpm_mean"),
        largest("engine_rpm").named("rpm_max"),
        mean_of("engine_load_pct").named("engine_load_mean_pct"),
        mean_of("coolant_temp_c").named("coolant_mean_c"),
        largest("coolant_temp_c").named("coolant_max_c"),
        divided(_OIL_RUNNING, steps_per_unit("oil_pressure_kpa")).named("oil_pressure_min_kpa"),
        largest("oil_temp_c").named("oil_temp_max_c"),
        mean_of("battery_voltage_v").named("battery_mean_v"),
        least("battery_voltage_v").named("battery_min_v"),
        *(mean(_tyre(wheel), KPA20_STEPS) for wheel in WHEELS),
        divided(columns.largest(_PAD_WEAR), steps_per_unit(WEARS[0])).named("brake_pad_wear_max_pct"),
        largest("dpf_soot_pct").named("dpf_soot_max_pct"),
        whole(columns.largest(_CELL_SPREAD), "double").named("cell_spread_max_mv"),
        largest("cell_temp_max_c").named("cell_temp_max_c"),
        largest("motor_temp_c").named("motor_temp_max_c"),
        whole(columns.largest(columns.signal("dtc_codes")), "int").named("dtc_count"),
    )


def _tyre(wheel: str) -> Quantity:
    """A tyre's pressure brought to 20 degC, in steps of 0.1 kPa."""
    return Quantity(f"tyre_{wheel}_kpa20", _compensated(wheel), by_sample=False)


def _compensated(wheel: str) -> Callable[[Frames], Known]:
    pressure_name, temp_name = f"tyre_pressure_{wheel}_kpa", f"tyre_temp_{wheel}_c"

    def steps(frames: Frames) -> Known:
        pressure, temp = frames.slow[pressure_name], frames.slow[temp_name]
        absolute_kpa = pressure.values / steps_per_unit(pressure_name) + ATMOSPHERE_KPA
        temp_k = temp.values / steps_per_unit(temp_name) + ZERO_C_IN_K
        compensated_kpa = absolute_kpa * REFERENCE_K / temp_k - ATMOSPHERE_KPA  # the ideal gas law
        rounded = np.rint(compensated_kpa * KPA20_STEPS).astype(np.int64)
        return Known(rounded, pressure.known & temp.known)

    return steps


def _cell_spread_mv(frames: Frames) -> Known:
    high, low = frames.slow["cell_voltage_max_v"], frames.slow["cell_voltage_min_v"]
    return Known(high.values - low.values, high.known & low.known)


def _pad_wear(frames: Frames) -> Known:
    """The worst of the wheels that tell."""
    wears = [frames.slow[name] for name in WEARS]
    values = np.max([np.where(w.known, w.values, -1) for w in wears], axis=0)
    return Known(values, values >= 0)


def _oil_running(s: Segments) -> Known:
    """Oil pressure of the segments with a sample above ``RUNNING_RPM``."""
    rpm = s.frames.fast["engine_rpm"]
    running = rpm.known & (rpm.values > RUNNING_RPM * BY_NAME["engine_rpm"].steps_per_unit)
    return s.of_frames(s.frames.slow["oil_pressure_kpa"]).only(s.any(running))


_OIL_RUNNING: Final = Part("oil_pressure_running_min", "min", _oil_running)
_PAD_WEAR: Final = Quantity("brake_pad_wear", _pad_wear, by_sample=False)
_CELL_SPREAD: Final = Quantity("cell_spread_mv", _cell_spread_mv, by_sample=False)
