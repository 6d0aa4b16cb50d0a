"""How the vehicle's machinery was in a window: engine, oil, coolant, gearbox, tyres, brakes, filter.

Units: rpm, %, degC, kPa gauge, Pa. Unknown is null. The electric side is in electrics.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa

from infra.contract.signals import BY_NAME, WHEELS
from stream_jobs.frames.arrays import Frames, Ints, Known
from stream_jobs.windows import columns
from stream_jobs.windows.columns import Part, Quantity, total
from stream_jobs.windows.measures import (
    Combined,
    Measure,
    divided,
    largest,
    mean,
    mean_of,
    quotient,
    samples_of,
    steps_per_unit,
    whole,
)
from stream_jobs.windows.segments import Segments

ATMOSPHERE_KPA: Final = 101.325
ZERO_C_IN_K: Final = 273.15
REFERENCE_K: Final = 293.15
KPA20_STEPS: Final = 10.0
"""Compensated pressures are held in steps of 0.1 kPa."""
RUNNING_RPM: Final = 500
FLOOR_STEPS: Final = 300
"""The oil floor rises by 138 kPa in 1800 rpm, so it is whole in steps of 1/300 kPa."""
FLOOR_IDLE_KPA, FLOOR_RATED_KPA = 69, 207
FLOOR_FROM_RPM, FLOOR_TO_RPM = 700, 2500
"""Cummins ISB: 69 kPa at idle, 207 at rated speed; linear from 700 to 2500 rpm, as in rules.yaml."""
WARM_C: Final = 70
"""Coolant from which on the fuel trims count (eng.)."""
GEARED_KMH: Final = 10
"""From here on engine speed over speed tells the gear: below it a clutch may slip rightly (eng.)."""


def measures() -> tuple[Measure, ...]:
    """Mechanical columns of odograph.vehicle_window but the electric ones."""
    return (
        mean_of("engine_rpm").named("rpm_mean"),
        samples_of(columns.signal("engine_rpm")).named("rpm_n"),
        largest("engine_rpm").named("rpm_max"),
        mean_of("engine_load_pct").named("engine_load_mean_pct"),
        samples_of(columns.signal("engine_load_pct")).named("engine_load_n"),
        mean_of("coolant_temp_c").named("coolant_mean_c"),
        samples_of(columns.signal("coolant_temp_c")).named("coolant_n"),
        largest("coolant_temp_c").named("coolant_max_c"),
        divided(_OIL_RUNNING, steps_per_unit("oil_pressure_kpa")).named("oil_pressure_min_kpa"),
        divided(columns.largest(_OIL_SHORTFALL), FLOOR_STEPS).named("oil_shortfall_max_kpa"),
        divided(total(_OIL_BELOW), 1000.0).named("oil_below_floor_s"),
        largest("oil_temp_c").named("oil_temp_max_c"),
        mean(_TRIM, steps_per_unit("fuel_trim_short_pct")).named("fuel_trim_mean_pct"),
        samples_of(_TRIM).named("fuel_trim_n"),
        largest("dpf_soot_pct").named("dpf_soot_max_pct"),
        largest("dpf_delta_pressure_pa").named("dpf_delta_p_max_pa"),
        *_gearbox(),
        *_wheels(),
        whole(columns.largest(columns.signal("dtc_codes"))).named("dtc_count"),
    )


def _gearbox() -> tuple[Measure, ...]:
    rpm, speed = total(_GEARED_RPM), total(_GEARED_SPEED)

    def ratio(of: Combined) -> pa.Array:
        over = of[rpm.name].values * steps_per_unit("speed_kmh")
        return quotient(over, of[speed.name].values, of[speed.name].known)

    return (
        whole(columns.least(_GEAR)).named("gear_min"),
        whole(columns.largest(_GEAR)).named("gear_max"),
        Measure("rpm_per_kmh", (rpm, speed), ratio),
    )


def _wheels() -> tuple[Measure, ...]:
    tyres = {wheel: _tyre(wheel) for wheel in WHEELS}
    wears = {wheel: columns.signal(f"brake_pad_wear_{wheel}_pct") for wheel in WHEELS}
    return (
        *(mean(tyre, KPA20_STEPS) for tyre in tyres.values()),
        *(samples_of(tyre).named(f"tyre_{wheel}_n") for wheel, tyre in tyres.items()),
        divided(columns.largest(_TYRE_TEMP), steps_per_unit("tyre_temp_fl_c")).named("tyre_temp_max_c"),
        *(largest(wear.name).named(wear.name) for wear in wears.values()),
        _worst_pad(tuple(columns.largest(wear) for wear in wears.values())),
    )


def _worst_pad(wears: tuple[Part, ...]) -> Measure:
    """The worst of the wheels that tell."""
    per_unit = steps_per_unit("brake_pad_wear_fl_pct")

    def worst(of: Combined) -> pa.Array:
        told = [of[wear.name] for wear in wears]
        values = np.max([np.where(t.known, t.values, 0) for t in told], axis=0)
        return quotient(values, per_unit, np.logical_or.reduce([t.known for t in told]))

    return Measure("brake_pad_wear_max_pct", wears, worst)


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


def _tyre_temp(frames: Frames) -> Known:
    """The hottest of the wheels that tell."""
    temps = [frames.slow[f"tyre_temp_{wheel}_c"] for wheel in WHEELS]
    least = columns.signal("tyre_temp_fl_c").floor
    values = np.max([np.where(t.known, t.values, least) for t in temps], axis=0)
    return Known(values, np.logical_or.reduce([t.known for t in temps]))


def _runs(frames: Frames) -> Known:
    """A frame's lowest engine speed, known where the engine runs all through the frame."""
    rpm = LOWEST_RPM.known(frames)
    return rpm.only(rpm.values > RUNNING_RPM * BY_NAME["engine_rpm"].steps_per_unit)


def _oil_running(s: Segments) -> Known:
    """Oil pressure of the segments with a sample above ``RUNNING_RPM``."""
    rpm = s.frames.fast["engine_rpm"]
    running = rpm.known & (rpm.values > RUNNING_RPM * BY_NAME["engine_rpm"].steps_per_unit)
    return s.of_frames(s.frames.slow["oil_pressure_kpa"]).only(s.any(running))


def _oil_shortfall(frames: Frames) -> Known:
    """How far the oil pressure is below its floor at the frame's lowest engine speed; negative above."""
    rpm, pressure = RUNS.known(frames), frames.slow["oil_pressure_kpa"]
    floor = _floor(np.where(rpm.known, rpm.values, FLOOR_FROM_RPM))
    return Known(floor - pressure.values * FLOOR_STEPS, rpm.known & pressure.known)


def _floor(rpm: Ints) -> Ints:
    """The floor of oil pressure in steps of 1/300 kPa."""
    rise = (FLOOR_RATED_KPA - FLOOR_IDLE_KPA) * FLOOR_STEPS // (FLOOR_TO_RPM - FLOOR_FROM_RPM)
    floor: Ints = FLOOR_IDLE_KPA * FLOOR_STEPS + rise * (
        np.clip(rpm, FLOOR_FROM_RPM, FLOOR_TO_RPM) - FLOOR_FROM_RPM
    )
    return floor


def _oil_below(frames: Frames) -> Known:
    """Time below the floor, ms a sample."""
    shortfall = _OIL_SHORTFALL.known(frames)
    return Known(np.where(shortfall.values > 0, frames.dt_ms, 0), shortfall.known)


def _trim(frames: Frames) -> Known:
    """Short-term and long-term fuel trim together, engine warm and running."""
    short, long = frames.slow["fuel_trim_short_pct"], frames.slow["fuel_trim_long_pct"]
    coolant = frames.slow["coolant_temp_c"]
    warm = coolant.known & (coolant.values >= WARM_C * BY_NAME["coolant_temp_c"].steps_per_unit)
    return Known(short.values + long.values, short.known & long.known & warm & RUNS.known(frames).known)


def _gear(frames: Frames) -> Known:
    """Forward gears only."""
    gear = frames.slow["gear"]
    return gear.only(gear.values > 0)


def _geared(frames: Frames) -> Known:
    """Speed of the samples in a forward gear at ``GEARED_KMH`` or more, engine speed known."""
    speed, rpm, gear = frames.fast["speed_kmh"], frames.fast["engine_rpm"], frames.on_samples("gear")
    driven = speed.values >= GEARED_KMH * BY_NAME["speed_kmh"].steps_per_unit
    return speed.only(driven & rpm.known & gear.known & (gear.values > 0))


def _geared_speed(frames: Frames) -> Known:
    speed = _GEARED.known(frames)
    return Known(speed.values * frames.sample_ms, speed.known)


def _geared_rpm(frames: Frames) -> Known:
    return Known(frames.fast["engine_rpm"].values * frames.sample_ms, _GEARED.known(frames).known)


LOWEST_RPM: Final = Quantity("lowest_rpm", lambda frames: frames.lowest("engine_rpm"), by_sample=False)
RUNS: Final = Quantity("runs", _runs, by_sample=False)
_OIL_RUNNING: Final = Part("oil_pressure_running_min", "min", _oil_running)
_OIL_SHORTFALL: Final = Quantity("oil_shortfall", _oil_shortfall, by_sample=False)
_OIL_BELOW: Final = Quantity("oil_below_ms", _oil_below, by_sample=False)
_TRIM: Final = Quantity("fuel_trim", _trim, by_sample=False)
_GEAR: Final = Quantity("forward_gear", _gear, by_sample=False)
_GEARED: Final = Quantity("geared", _geared, by_sample=True)
_GEARED_SPEED: Final = Quantity("geared_speed_over_time", _geared_speed, by_sample=True)
_GEARED_RPM: Final = Quantity("geared_rpm_over_time", _geared_rpm, by_sample=True)
_TYRE_TEMP: Final = Quantity("tyre_temp", _tyre_temp, by_sample=False)
