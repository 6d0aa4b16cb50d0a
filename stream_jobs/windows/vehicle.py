"""The measures of odograph.vehicle_window: how the vehicle was driven, its machinery, its electric side.

A sample stands for the ``dt_ms`` after it. Unknown is null, never 0. To add a measure, add its line to
MEASURES and its column to the tables of windows and roll-ups (or its name to maintenance.rollups.NOT_ROLLED):
the rest follows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from infra.contract.signals import WHEELS
from stream_jobs.frames.arrays import Flags, Frames, Ints, Known, always
from stream_jobs.windows.measures import (
    LOW_BITS,
    VALUE_BITS,
    Combined,
    Measure,
    Quantity,
    integral,
    last,
    mean,
    part,
    quantity,
    quotient,
    scaled,
    steps,
    time_where,
    whole,
)

MOVING_KMH: Final = 1
SPEEDING_MARGIN_KMH: Final = 5
SPEEDING_BANDS_KMH: Final = (10, 20, 30)
MS_PER_HOUR: Final = 3_600_000.0
MS_PER_MINUTE: Final = 60_000
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
RESTING_A: Final = 5
"""Pack current below which the cells count as at rest (eng.): under load they part by their resistances."""


def moving(frames: Frames) -> tuple[Flags, Flags]:
    """Where the vehicle is known to move, and where to stand."""
    speed = frames.fast["speed_kmh"]
    moves = speed.values >= steps("speed_kmh", MOVING_KMH)
    return speed.known & moves, speed.known & ~moves


def _idle(frames: Frames) -> tuple[Flags, Flags]:
    """Standing with ignition on; known not to be where either is known not to be."""
    moves, stands = moving(frames)
    ignition = frames.on_samples("ignition_on")
    on = ignition.values == 1
    return stands & ignition.known & on, moves | (ignition.known & ~on)


def above_limit(margin_kmh: int, frames: Frames) -> tuple[Flags, Flags]:
    """Where the speed is more than ``margin_kmh`` above the limit, and where not."""
    excess = EXCESS.known(frames)
    above = excess.values > steps("speed_kmh", margin_kmh)
    return excess.known & above, excess.known & ~above


def _idle_fuel(frames: Frames) -> Known:
    """Fuel rate times time where the vehicle idles; 0 where it is known not to."""
    idles, not_so = _idle(frames)
    rate = frames.on_samples("fuel_rate_lph")
    return Known(np.where(idles, rate.values * frames.sample_ms, 0), rate.known & (idles | not_so))


def _runs(frames: Frames) -> Known:
    """A frame's lowest engine speed, known where the engine runs all through the frame."""
    rpm = LOWEST_RPM.known(frames)
    return rpm.only(rpm.values > steps("engine_rpm", RUNNING_RPM))


def _oil_running(frames: Frames) -> Known:
    """Oil pressure at the samples above ``RUNNING_RPM``."""
    rpm, oil = frames.fast["engine_rpm"], frames.on_samples("oil_pressure_kpa")
    return oil.only(rpm.known & (rpm.values > steps("engine_rpm", RUNNING_RPM)))


def _oil_shortfall(frames: Frames) -> Known:
    """How far the oil pressure is below its floor at the frame's lowest engine speed; negative above.

    In steps of 1/300 kPa.
    """
    rpm, pressure = RUNS.known(frames), frames.slow["oil_pressure_kpa"]
    at = np.clip(np.where(rpm.known, rpm.values, FLOOR_FROM_RPM), FLOOR_FROM_RPM, FLOOR_TO_RPM)
    rise = (FLOOR_RATED_KPA - FLOOR_IDLE_KPA) * FLOOR_STEPS // (FLOOR_TO_RPM - FLOOR_FROM_RPM)
    floor: Ints = FLOOR_IDLE_KPA * FLOOR_STEPS + rise * (at - FLOOR_FROM_RPM)
    return Known(floor - pressure.values * FLOOR_STEPS, rpm.known & pressure.known)


def _oil_below(frames: Frames) -> Known:
    """Time below the floor, ms a sample."""
    shortfall = OIL_SHORTFALL.known(frames)
    return Known(np.where(shortfall.values > 0, frames.dt_ms, 0), shortfall.known)


def _trim(frames: Frames) -> Known:
    """Short-term and long-term fuel trim together, engine warm and running."""
    trim, coolant = frames.slow["fuel_trim_short_pct"], frames.slow["coolant_temp_c"]
    warm = coolant.known & (coolant.values >= steps("coolant_temp_c", WARM_C))
    return (trim + frames.slow["fuel_trim_long_pct"]).only(warm & RUNS.known(frames).known)


def _geared(frames: Frames) -> Known:
    """Speed of the samples in a forward gear at ``GEARED_KMH`` or more, engine speed known."""
    speed, rpm, gear = frames.fast["speed_kmh"], frames.fast["engine_rpm"], frames.on_samples("gear")
    driven = speed.values >= steps("speed_kmh", GEARED_KMH)
    return speed.only(driven & rpm.known & gear.known & (gear.values > 0))


def _kpa20(wheel: str, frames: Frames) -> Known:
    """A tyre's pressure brought to 20 degC, in steps of 0.1 kPa."""
    names = f"tyre_pressure_{wheel}_kpa", f"tyre_temp_{wheel}_c"
    pressure, temp = (frames.slow[name] for name in names)
    absolute_kpa = pressure.values / steps(names[0]) + ATMOSPHERE_KPA
    temp_k = temp.values / steps(names[1]) + ZERO_C_IN_K
    compensated_kpa = absolute_kpa * REFERENCE_K / temp_k - ATMOSPHERE_KPA  # the ideal gas law
    return Known(np.rint(compensated_kpa * KPA20_STEPS).astype(np.int64), pressure.known & temp.known)


def _tyre_temp(frames: Frames) -> Known:
    """The hottest of the wheels that tell."""
    temps = [frames.slow[f"tyre_temp_{wheel}_c"] for wheel in WHEELS]
    floor = quantity("tyre_temp_fl_c").floor
    values = np.max([np.where(t.known, t.values, floor) for t in temps], axis=0)
    return Known(values, np.logical_or.reduce([t.known for t in temps]))


def _battery(frames: Frames, ignition_on: bool) -> Known:
    """12 V system with the ignition so: a start shows as the lowest of it being on."""
    ignition = frames.slow["ignition_on"]
    return frames.slow["battery_voltage_v"].only(ignition.known & (ignition.values == int(ignition_on)))


def _battery_running(frames: Frames) -> Known:
    """12 V system with ignition on, the engine running all through the frame or not there."""
    engineless = ~LOWEST_RPM.known(frames).known
    return _battery(frames, True).only(RUNS.known(frames).known | engineless)


def _spread_at_rest(frames: Frames) -> Known:
    current = frames.slow["pack_current_a"]
    resting = np.abs(current.values) < steps("pack_current_a", RESTING_A)
    return CELL_SPREAD.known(frames).only(current.known & resting)


def _of_signal(signal: str, name: str, of: Callable[[Frames], Known], by_sample: bool = False) -> Quantity:
    """Something in the steps of a signal."""
    return Quantity(name, of, by_sample, float(steps(signal)))


STEP_MS_PER_M: Final = steps("speed_kmh") * MS_PER_HOUR / 1000
"""km/h times ms, over 3.6e6 ms in an hour, times 1000 m."""
_FINER: Final = steps("speed_kmh") // steps("speed_limit_kmh")
_STEP_MS_PER_L: Final = steps("fuel_rate_lph") * MS_PER_HOUR
_STEP_MS_PER_KWH: Final = float(steps("pack_voltage_v")) * steps("pack_current_a") * MS_PER_HOUR * 1000
FRAMES: Final = Quantity("frames", lambda f: always((f.index == 0).astype(np.int64)), by_sample=True)
FRAMES_LATE: Final = Quantity("frames_late", lambda f: FRAMES.known(f) * f.late[f.of_sample], by_sample=True)
SAMPLES: Final = Quantity("samples", lambda f: always(f.n), by_sample=False)
OUT_OF_RANGE: Final = Quantity(
    "out_of_range", lambda f: always(f.fast_wrong) + FRAMES.known(f) * f.slow_wrong[f.of_sample], True
)
"""Fast values count each, slow ones once a frame, with its first sample."""
EVENT_MS: Final = Quantity("event_ms", lambda f: always(f.event_ms), by_sample=True)
SPEED_OVER_TIME: Final = integral("speed_over_time", lambda f: f.fast["speed_kmh"], True, STEP_MS_PER_M)
FUEL: Final = integral("fuel_over_time", lambda f: f.slow["fuel_rate_lph"], False, _STEP_MS_PER_L)
IDLE_FUEL: Final = Quantity("idle_fuel_over_time", _idle_fuel, True, _STEP_MS_PER_L)
ENERGY: Final = integral(
    "energy_over_time", lambda f: f.slow["pack_voltage_v"] * f.slow["pack_current_a"], False, _STEP_MS_PER_KWH
)
"""Of the pack's power, discharge positive."""
EXCESS: Final = Quantity(
    "excess", lambda f: f.fast["speed_kmh"] - f.on_samples("speed_limit_kmh") * _FINER, by_sample=True
)
"""Speed above the known limit, in steps of speed."""
LATERAL: Final = _of_signal(
    "accel_lat_mps2", "accel_lat_size", lambda f: abs(f.fast["accel_lat_mps2"]), by_sample=True
)
LOWEST_RPM: Final = Quantity("lowest_rpm", lambda f: f.lowest("engine_rpm"), by_sample=False)
RUNS: Final = Quantity("runs", _runs, by_sample=False)
OIL_RUNNING: Final = _of_signal("oil_pressure_kpa", "oil_pressure_running", _oil_running, by_sample=True)
OIL_SHORTFALL: Final = Quantity("oil_shortfall", _oil_shortfall, False, FLOOR_STEPS)
OIL_BELOW: Final = Quantity("oil_below_ms", _oil_below, False, 1000.0)
TRIM: Final = _of_signal("fuel_trim_short_pct", "fuel_trim", _trim)
GEAR: Final = Quantity("forward_gear", lambda f: f.slow["gear"].only(f.slow["gear"].values > 0), False)
GEARED: Final = Quantity("geared", _geared, by_sample=True)
GEARED_RPM: Final = integral(
    "geared_rpm_over_time", lambda f: f.fast["engine_rpm"].only(GEARED.known(f).known), by_sample=True
)
GEARED_SPEED: Final = integral("geared_speed_over_time", GEARED.known, by_sample=True)
TYRES: Final = {
    f"tyre_{w}_kpa20": Quantity(f"tyre_{w}_kpa20", partial(_kpa20, w), False, KPA20_STEPS) for w in WHEELS
}
TYRE_TEMP: Final = _of_signal("tyre_temp_fl_c", "tyre_temp", _tyre_temp)
REST: Final = _of_signal("battery_voltage_v", "battery_rest", partial(_battery, ignition_on=False))
RUNNING: Final = _of_signal("battery_voltage_v", "battery_running", _battery_running)
ON: Final = _of_signal("battery_voltage_v", "battery_on", partial(_battery, ignition_on=True))
CELL_SPREAD: Final = Quantity(
    "cell_spread_mv", lambda f: f.slow["cell_voltage_max_v"] - f.slow["cell_voltage_min_v"], by_sample=False
)
SPREAD_AT_REST: Final = Quantity("cell_spread_rest_mv", _spread_at_rest, by_sample=False)


def _rpm_per_kmh() -> Measure:
    rpm, speed = part("sum", GEARED_RPM), part("sum", GEARED_SPEED)

    def ratio(w: Combined) -> pa.Array:
        return quotient(w[rpm.name].values * steps("speed_kmh"), w[speed.name].values, w[speed.name].known)

    return Measure("rpm_per_kmh", (rpm, speed), ratio)


def _worst_pad() -> Measure:
    """The worst of the wheels that tell."""
    pads = tuple(part("max", f"brake_pad_wear_{wheel}_pct") for wheel in WHEELS)

    def worst(w: Combined) -> pa.Array:
        told = [w[pad.name] for pad in pads]
        values = np.max([np.where(t.known, t.values, 0) for t in told], axis=0)
        return quotient(values, pads[0].quantity.per_unit, np.logical_or.reduce([t.known for t in told]))

    return Measure("brake_pad_wear_max_pct", pads, worst)


def _cell_temp_rate() -> Measure:
    """The hottest cell's last temperature less its first, over the time between; null without two times."""
    first, final = part("first", "cell_temp_max_c"), part("last", "cell_temp_max_c")

    def rate(w: Combined) -> pa.Array:
        start, end = w[first.name], w[final.name]
        rise = (end.values & LOW_BITS) - (start.values & LOW_BITS)
        time_ms = (end.values >> VALUE_BITS) - (start.values >> VALUE_BITS)
        return quotient(rise * MS_PER_MINUTE, time_ms * final.quantity.per_unit, end.known & (time_ms > 0))

    return Measure("cell_temp_rate_c_min", (first, final), rate)


_TIME: Final = pa.timestamp("ms", tz="UTC")
MEASURES: Final = (
    whole("frames", "sum", FRAMES),
    whole("frames_late", "sum", FRAMES_LATE),
    whole("samples", "count", SAMPLES),
    whole("out_of_range", "sum", OUT_OF_RANGE),
    whole("first_event", "min", EVENT_MS, _TIME),
    whole("last_event", "max", EVENT_MS, _TIME),
    mean("speed_mean_kmh", "speed_kmh"),
    whole("speed_n", "count", "speed_kmh"),
    scaled("speed_max_kmh", "max", "speed_kmh"),
    scaled("distance_m", "sum", SPEED_OVER_TIME),
    scaled("moving_s", "sum", time_where("moving_ms", moving)),
    scaled("idle_s", "sum", time_where("idle_ms", _idle)),
    scaled("speeding_s", "sum", time_where("speeding_ms", partial(above_limit, SPEEDING_MARGIN_KMH))),
    *(
        scaled(f"speeding_{kmh}_s", "sum", time_where(f"speeding_{kmh}_ms", partial(above_limit, kmh)))
        for kmh in SPEEDING_BANDS_KMH
    ),
    scaled("accel_long_max_mps2", "max", "accel_long_mps2"),
    scaled("accel_long_min_mps2", "min", "accel_long_mps2"),
    scaled("accel_lat_max_mps2", "max", LATERAL),
    scaled("fuel_l", "sum", FUEL),
    scaled("idle_fuel_l", "sum", IDLE_FUEL),
    scaled("energy_kwh", "sum", ENERGY),
    mean("rpm_mean", "engine_rpm"),
    whole("rpm_n", "count", "engine_rpm"),
    scaled("rpm_max", "max", "engine_rpm"),
    mean("engine_load_mean_pct", "engine_load_pct"),
    whole("engine_load_n", "count", "engine_load_pct"),
    mean("coolant_mean_c", "coolant_temp_c"),
    whole("coolant_n", "count", "coolant_temp_c"),
    scaled("coolant_max_c", "max", "coolant_temp_c"),
    scaled("oil_pressure_min_kpa", "min", OIL_RUNNING),
    scaled("oil_shortfall_max_kpa", "max", OIL_SHORTFALL),
    scaled("oil_below_floor_s", "sum", OIL_BELOW),
    scaled("oil_temp_max_c", "max", "oil_temp_c"),
    mean("fuel_trim_mean_pct", TRIM),
    whole("fuel_trim_n", "count", TRIM),
    scaled("dpf_soot_max_pct", "max", "dpf_soot_pct"),
    scaled("dpf_delta_p_max_pa", "max", "dpf_delta_pressure_pa"),
    whole("gear_min", "min", GEAR),
    whole("gear_max", "max", GEAR),
    _rpm_per_kmh(),
    *(mean(name, tyre) for name, tyre in TYRES.items()),
    *(whole(f"tyre_{wheel}_n", "count", tyre) for wheel, tyre in zip(WHEELS, TYRES.values(), strict=True)),
    scaled("tyre_temp_max_c", "max", TYRE_TEMP),
    *(scaled(f"brake_pad_wear_{w}_pct", "max", f"brake_pad_wear_{w}_pct") for w in WHEELS),
    _worst_pad(),
    whole("dtc_count", "max", "dtc_codes"),
    mean("battery_mean_v", "battery_voltage_v"),
    whole("battery_n", "count", "battery_voltage_v"),
    scaled("battery_min_v", "min", "battery_voltage_v"),
    mean("battery_rest_v", REST),
    whole("battery_rest_n", "count", REST),
    mean("battery_running_v", RUNNING),
    whole("battery_running_n", "count", RUNNING),
    scaled("battery_on_min_v", "min", ON),
    scaled("cell_spread_max_mv", "max", CELL_SPREAD),
    scaled("cell_spread_rest_mv", "max", SPREAD_AT_REST),
    scaled("cell_temp_min_c", "min", "cell_temp_min_c"),
    scaled("cell_temp_max_c", "max", "cell_temp_max_c"),
    _cell_temp_rate(),
    scaled("pack_voltage_min_v", "min", "pack_voltage_v"),
    scaled("motor_temp_max_c", "max", "motor_temp_c"),
    last("lat_deg"),
    last("lon_deg"),
    last("heading_deg"),
    last("speed_last_kmh", "speed_kmh"),
    last("speed_limit_kmh"),
    last("odometer_m", arrow=pa.int64()),
    last("ignition_on", arrow=pa.bool_()),
    last("fuel_level_pct"),
    last("soc_pct"),
    last("ambient_temp_c"),
)
"""Units: km/h, m, s, m/s^2, l, kWh, rpm, %, degC, kPa gauge, Pa, V, mV."""
PARTS: Final = tuple({each.name: each for measure in MEASURES for each in measure.parts}.values())
"""What is kept of a window of a vehicle while it is open."""
VEHICLE_COLUMNS: Final = ("vehicle_id", "window_start", "window_s", *(m.name for m in MEASURES))
LATEST: Final = {
    "event_time": "last_event", "lat_deg": "lat_deg", "lon_deg": "lon_deg", "heading_deg": "heading_deg",
    "speed_kmh": "speed_last_kmh", "speed_limit_kmh": "speed_limit_kmh", "odometer_m": "odometer_m",
    "ignition_on": "ignition_on", "coolant_c": "coolant_mean_c", "battery_v": "battery_mean_v",
    "fuel_level_pct": "fuel_level_pct", "soc_pct": "soc_pct",
}  # fmt: skip
"""Columns of odograph.vehicle_latest and those of the newest window that they are; the worst tyre besides."""
OF_LATEST: Final = tuple(m for m in MEASURES if m.name in {*LATEST.values(), *TYRES})


def vehicle_rows(
    vehicles: pa.StringArray, start_ms: Ints, window_s: int, parts: Combined,
    measures: tuple[Measure, ...] = MEASURES,
) -> pa.Table:  # fmt: skip
    """Rows of odograph.vehicle_window; ``vehicles``, ``start_ms`` and ``parts``: [n_windows]."""
    lengths = np.full(len(vehicles), window_s)
    keys = {"vehicle_id": vehicles, "window_start": pa.array(start_ms).cast(_TIME), "window_s": lengths}
    return pa.table(keys | {measure.name: measure.result(parts) for measure in measures})


def latest_of(rows: pa.Table) -> pa.Table:
    """Rows of odograph.vehicle_latest: what each vehicle's newest of these windows says."""
    rows = rows.sort_by([("window_start", "descending")])
    codes = rows["vehicle_id"].combine_chunks().dictionary_encode().indices.to_numpy()
    newest = rows.take(pa.array(np.unique(codes, return_index=True)[1]))
    worst = pc.min_element_wise(*(newest[name] for name in TYRES))
    of = {name: newest[column] for name, column in LATEST.items()}
    return pa.table({"vehicle_id": newest["vehicle_id"]} | of | {"tyre_min_kpa20": worst})


NO_WINDOWS: Final = vehicle_rows(
    pa.array([], pa.string()),
    np.zeros(0, np.int64),
    0,
    {each.name: always(np.zeros(0, np.int64)) for each in PARTS},
)
"""A table of windows by vehicle without a row."""
