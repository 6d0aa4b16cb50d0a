"""The measures of odograph.vehicle_window: how the vehicle was driven, its machinery, its electric side.

A ``Quantity`` is a signal or follows from signals; a ``Part`` is what a window keeps of it: a whole number,
so that parts combine exactly, in any order; a ``Measure`` is a column of the table, with the one division at
the end. A sample stands for the ``dt_ms`` after it. Unknown is null, never 0: no sample has what it needs.
To add a measure, add its line to measures.txt and its column to the tables of windows and roll-ups (or its
name to maintenance.rollups.NOT_ROLLED): the rest follows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from infra.contract.signals import BY_NAME, WHEELS
from stream_jobs.frames.arrays import Frames, Ints, Known, always

Kind = Literal["sum", "count", "max", "min", "first", "last"]
How = Literal["sum", "max", "min"]
HOW: Final[dict[Kind, How]] = {
    "sum": "sum", "count": "sum", "max": "max", "last": "max", "min": "min", "first": "min",
}  # fmt: skip
"""How parts of each kind combine: the first and the last value are packed behind their times."""
VALUE_BITS: Final = 32  # the widest signal, the odometer, has fewer than 2^32 steps
LOW_BITS: Final = (1 << VALUE_BITS) - 1


@dataclass(frozen=True, slots=True)
class Quantity:
    """Whole numbers out of frames, one a sample (``by_sample``) or one a frame.

    ``per_unit``: steps in a unit of the measure; ``floor``: the least value.
    """

    name: str
    of: Callable[[Frames], Known]
    by_sample: bool
    per_unit: float = 1.0
    floor: int = 0

    def known(self, frames: Frames) -> Known:
        """``of`` these frames, computed once."""
        if self.name not in frames.made:
            frames.made[self.name] = self.of(frames)
        return frames.made[self.name]


@dataclass(frozen=True, slots=True)
class Part:
    """What a window keeps of a quantity: over its samples that have it the sum, their count, and so on."""

    kind: Kind
    quantity: Quantity

    @property
    def name(self) -> str:
        return f"{self.quantity.name}_{self.kind}"


@dataclass(frozen=True, slots=True)
class Measure:
    """A column of a table of windows, which ``of`` makes of its parts; all of shape [n_windows]."""

    name: str
    parts: tuple[Part, ...]
    of: Callable[..., pa.Array]


def steps(signal: str, value: float = 1.0) -> int:
    """``value`` in whole steps of a signal."""
    return round(value * BY_NAME[signal].steps_per_unit)


def integral(name: str, of: Callable[[Frames], Known], by_sample: bool, per_unit: float = 1.0) -> Quantity:
    """A value times the time it stands for, step-ms; of 1 and 0 the time at 1, ms."""
    return Quantity(name, lambda f: of(f) * (f.sample_ms if by_sample else f.dt_ms), by_sample, per_unit)


def quotient(over: Any, under: Any, known: Any) -> pa.Array:
    """``over / under`` where ``known``, in double precision; null where not, or where ``under`` is 0."""
    divisor = np.broadcast_to(np.asarray(under, np.float64), np.shape(over))
    there = known & (divisor != 0)
    found = np.divide(over, divisor, out=np.zeros(len(there)), where=there)
    return pa.array(found, pa.float64(), mask=~there)


MOVING_KMH: Final = 1
SPEEDING_MARGIN_KMH: Final = 5
SPEEDING_BANDS_KMH: Final = (10, 20, 30)
MS_PER_S: Final = 1000.0
MS_PER_HOUR: Final = 3_600_000.0
MS_PER_MINUTE: Final = 60_000
ATMOSPHERE_KPA: Final = 101.325
ZERO_C_IN_K: Final = 273.15
REFERENCE_K: Final = 293.15
KPA20_STEPS: Final = 10.0  # compensated pressures are held in steps of 0.1 kPa
RUNNING_RPM: Final = 500
FLOOR_STEPS: Final = 300  # the oil floor rises by 138 kPa in 1800 rpm, so it is whole in steps of 1/300 kPa
FLOOR_IDLE_KPA, FLOOR_RATED_KPA = 69, 207
FLOOR_FROM_RPM, FLOOR_TO_RPM = 700, 2500
"""Cummins ISB: 69 kPa at idle, 207 at rated speed; linear from 700 to 2500 rpm, as in rules.yaml."""
WARM_C: Final = 70  # coolant from which on the fuel trims count (eng.)
GEARED_KMH: Final = 10  # from here engine speed over speed tells the gear: below it a clutch may slip (eng.)
RESTING_A: Final = 5  # below it the cells count as at rest (eng.): under load they part by their resistances
STEP_MS_PER_M: Final = steps("speed_kmh") * MS_PER_HOUR / 1000  # km/h * ms over 3.6e6 ms an hour, * 1000 m


def moving(frames: Frames) -> Known:
    """1 where the vehicle moves, 0 where it stands."""
    return frames.fast["speed_kmh"].above(steps("speed_kmh", MOVING_KMH) - 1)


def _idle(frames: Frames) -> Known:
    """1 where it stands with ignition on; known, too, where one of both is known not to be so."""
    moves, ignition = moving(frames), frames.on_samples("ignition_on")
    moved, off = moves.known & (moves.values == 1), ignition.known & (ignition.values == 0)
    idles = moves.known & ignition.known & ~moved & ~off
    return Known(idles.astype(np.int64), idles | moved | off)


def _speeding(margin_kmh: int, frames: Frames) -> Known:
    """1 where the speed is more than ``margin_kmh`` above the limit, else 0."""
    return quantity("excess").known(frames).above(steps("speed_kmh", margin_kmh))


def _runs(frames: Frames) -> Known:
    """A frame's lowest engine speed, known where the engine runs all through the frame."""
    rpm = quantity("lowest_rpm").known(frames)
    return rpm.only(rpm.values > steps("engine_rpm", RUNNING_RPM))


def _oil_running(frames: Frames) -> Known:
    rpm, oil = frames.fast["engine_rpm"], frames.on_samples("oil_pressure_kpa")
    return oil.only(rpm.known & (rpm.values > steps("engine_rpm", RUNNING_RPM)))


def _oil_shortfall(frames: Frames) -> Known:
    """How far the oil pressure is below its floor at the frame's lowest engine speed; negative above.

    In steps of 1/300 kPa.
    """
    rpm, pressure = quantity("runs").known(frames), frames.slow["oil_pressure_kpa"]
    at = np.clip(np.where(rpm.known, rpm.values, FLOOR_FROM_RPM), FLOOR_FROM_RPM, FLOOR_TO_RPM)
    rise = (FLOOR_RATED_KPA - FLOOR_IDLE_KPA) * FLOOR_STEPS // (FLOOR_TO_RPM - FLOOR_FROM_RPM)
    floor: Ints = FLOOR_IDLE_KPA * FLOOR_STEPS + rise * (at - FLOOR_FROM_RPM)
    return Known(floor - pressure.values * FLOOR_STEPS, rpm.known & pressure.known)


def _trim(frames: Frames) -> Known:
    """Short-term and long-term fuel trim together, engine warm and running."""
    trim, coolant = frames.slow["fuel_trim_short_pct"], frames.slow["coolant_temp_c"]
    warm = coolant.known & (coolant.values >= steps("coolant_temp_c", WARM_C))
    return (trim + frames.slow["fuel_trim_long_pct"]).only(warm & quantity("runs").known(frames).known)


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
    engineless = ~quantity("lowest_rpm").known(frames).known
    return _battery(frames, True).only(quantity("runs").known(frames).known | engineless)


def _spread_at_rest(frames: Frames) -> Known:
    current = frames.slow["pack_current_a"]
    resting = np.abs(current.values) < steps("pack_current_a", RESTING_A)
    return quantity("cell_spread_mv").known(frames).only(current.known & resting)


@cache
def quantity(name: str) -> Quantity:
    """A derived one, or a signal in whole steps; codes count, flags are 0 or 1."""
    if name in _BY_NAME:
        return _BY_NAME[name]
    s = BY_NAME[name]
    is_fast, floor = s.rate == "fast", steps(name, s.minimum)
    return Quantity(
        name, lambda frames: (frames.fast if is_fast else frames.slow)[name], is_fast,
        float(s.steps_per_unit), floor,
    )  # fmt: skip


_FINER: Final = steps("speed_kmh") // steps("speed_limit_kmh")
_STEP_MS_PER_L: Final = steps("fuel_rate_lph") * MS_PER_HOUR
_STEP_MS_PER_KWH: Final = float(steps("pack_voltage_v")) * steps("pack_current_a") * MS_PER_HOUR * 1000
_DERIVED: Final = (
    Quantity("frames", lambda f: always((f.index == 0).astype(np.int64)), by_sample=True),
    Quantity("frames_late", lambda f: quantity("frames").known(f) * f.late[f.of_sample], by_sample=True),
    Quantity("samples", lambda f: always(f.n), by_sample=False),
    # fast values count each, slow ones once a frame, with its first sample
    Quantity(
        "out_of_range",
        lambda f: always(f.fast_wrong) + quantity("frames").known(f) * f.slow_wrong[f.of_sample], True,
    ),
    Quantity("event_ms", lambda f: always(f.event_ms), by_sample=True),
    integral("speed_over_time", lambda f: f.fast["speed_kmh"], True, STEP_MS_PER_M),
    integral("moving_ms", moving, True, MS_PER_S),
    integral("idle_ms", _idle, True, MS_PER_S),
    integral("speeding_ms", partial(_speeding, SPEEDING_MARGIN_KMH), True, MS_PER_S),
    *(integral(f"speeding_{kmh}_ms", partial(_speeding, kmh), True, MS_PER_S) for kmh in SPEEDING_BANDS_KMH),
    integral("fuel_over_time", lambda f: f.slow["fuel_rate_lph"], False, _STEP_MS_PER_L),
    integral("idle_fuel_over_time", lambda f: _idle(f) * f.on_samples("fuel_rate_lph"), True, _STEP_MS_PER_L),
    # of the pack's power, discharge positive
    integral(
        "energy_over_time", lambda f: f.slow["pack_voltage_v"] * f.slow["pack_current_a"], False,
        _STEP_MS_PER_KWH,
    ),
    # speed above the known limit, in steps of speed
    Quantity("excess", lambda f: f.fast["speed_kmh"] - f.on_samples("speed_limit_kmh") * _FINER, True),
    Quantity("accel_lat_size", lambda f: abs(f.fast["accel_lat_mps2"]), True, steps("accel_lat_mps2")),
    Quantity("lowest_rpm", lambda f: f.lowest("engine_rpm"), by_sample=False),
    Quantity("runs", _runs, by_sample=False),
    Quantity("oil_pressure_running", _oil_running, True, steps("oil_pressure_kpa")),
    Quantity("oil_shortfall", _oil_shortfall, False, FLOOR_STEPS),
    integral("oil_below_ms", lambda f: quantity("oil_shortfall").known(f).above(0), False, MS_PER_S),
    Quantity("fuel_trim", _trim, False, steps("fuel_trim_short_pct")),
    Quantity("forward_gear", lambda f: f.slow["gear"].only(f.slow["gear"].values > 0), by_sample=False),
    Quantity("geared", _geared, by_sample=True),
    integral(
        "geared_rpm_over_time",
        lambda f: f.fast["engine_rpm"].only(quantity("geared").known(f).known), True,
    ),
    integral("geared_speed_over_time", lambda f: quantity("geared").known(f), True),
    *(Quantity(f"tyre_{w}_kpa20", partial(_kpa20, w), False, KPA20_STEPS) for w in WHEELS),
    Quantity("tyre_temp", _tyre_temp, False, steps("tyre_temp_fl_c")),
    Quantity("battery_rest", partial(_battery, ignition_on=False), False, steps("battery_voltage_v")),
    Quantity("battery_running", _battery_running, False, steps("battery_voltage_v")),
    Quantity("battery_on", partial(_battery, ignition_on=True), False, steps("battery_voltage_v")),
    Quantity("cell_spread_mv", lambda f: f.slow["cell_voltage_max_v"] - f.slow["cell_voltage_min_v"], False),
    Quantity("cell_spread_rest_mv", _spread_at_rest, by_sample=False),
)  # fmt: skip
_BY_NAME: Final[dict[str, Quantity]] = {each.name: each for each in _DERIVED}


def _mean(per_unit: float, whole: Known, n: Known) -> pa.Array:
    return quotient(whole.values, n.values * per_unit, whole.known)


def _single(kind: Kind, of: Quantity, arrow: pa.DataType | None, found: Known) -> pa.Array:
    """One part in its unit, or as ``arrow`` in whole steps; of last values at one millisecond the largest."""
    values = (found.values & LOW_BITS) + of.floor if kind == "last" else found.values
    if arrow is None:
        return quotient(values, of.per_unit, found.known)
    return pa.array(values, mask=~found.known).cast(arrow)


def _rpm_per_kmh(rpm: Known, speed: Known) -> pa.Array:
    return quotient(rpm.values * steps("speed_kmh"), speed.values, speed.known)


def _worst_pad(*pads: Known) -> pa.Array:
    worst = np.max([np.where(pad.known, pad.values, 0) for pad in pads], axis=0)
    return quotient(worst, steps(PADS[0]), np.logical_or.reduce([pad.known for pad in pads]))


def _cell_temp_rate(first: Known, last: Known) -> pa.Array:
    """The hottest cell's last temperature less its first, over the time between; null without two times."""
    rise = (last.values & LOW_BITS) - (first.values & LOW_BITS)
    time_ms = (last.values >> VALUE_BITS) - (first.values >> VALUE_BITS)
    return quotient(rise * MS_PER_MINUTE, time_ms * steps("cell_temp_max_c"), last.known & (time_ms > 0))


PADS: Final = tuple(f"brake_pad_wear_{wheel}_pct" for wheel in WHEELS)
_TIME: Final = pa.timestamp("ms", tz="UTC")
_ARROW: Final = {"int": pa.int64(), "bool": pa.bool_(), "time": _TIME}
_HOTTEST: Final = quantity("cell_temp_max_c")
_OWN: Final[dict[str, tuple[Callable[..., pa.Array], tuple[Part, ...]]]] = {
    "rpm_per_kmh": (
        _rpm_per_kmh, tuple(Part("sum", quantity(f"geared_{of}_over_time")) for of in ("rpm", "speed"))
    ),
    "brake_pad_wear_max_pct": (_worst_pad, tuple(Part("max", quantity(pad)) for pad in PADS)),
    "cell_temp_rate_c_min": (_cell_temp_rate, (Part("first", _HOTTEST), Part("last", _HOTTEST))),
}  # fmt: skip


def _measure(name: str, how: Any, of: str = "", kind: str = "") -> Measure:
    if how == "own":
        own, parts = _OWN[name]
        return Measure(name, parts, own)
    q = quantity(of)
    if how == "mean":
        return Measure(name, (Part("sum", q), Part("count", q)), partial(_mean, q.per_unit))
    return Measure(name, (Part(how, q),), partial(_single, how, q, _ARROW.get(kind)))


_LINES: Final = Path(__file__).with_name("measures.txt").read_text().splitlines()
MEASURES: Final = tuple(_measure(*line.split()) for line in _LINES if not line.startswith("#"))
PARTS: Final = tuple({each.name: each for measure in MEASURES for each in measure.parts}.values())
"""What is kept of a window of a vehicle while it is open."""
LATEST: Final = {
    "event_time": "last_event", "lat_deg": "lat_deg", "lon_deg": "lon_deg", "heading_deg": "heading_deg",
    "speed_kmh": "speed_last_kmh", "speed_limit_kmh": "speed_limit_kmh", "odometer_m": "odometer_m",
    "ignition_on": "ignition_on", "coolant_c": "coolant_mean_c", "battery_v": "battery_mean_v",
    "fuel_level_pct": "fuel_level_pct", "soc_pct": "soc_pct",
}  # fmt: skip
"""Columns of odograph.vehicle_latest and those of the newest window that they are; the worst tyre besides."""
_TYRES: Final = tuple(f"tyre_{wheel}_kpa20" for wheel in WHEELS)
OF_LATEST: Final = tuple(m for m in MEASURES if m.name in {*LATEST.values(), *_TYRES})


def vehicle_rows(
    vehicles: pa.StringArray, start_ms: Ints, window_s: int, known: Callable[[str], Known],
    measures: tuple[Measure, ...] = MEASURES,
) -> pa.Table:  # fmt: skip
    """Rows of odograph.vehicle_window; ``vehicles``, ``start_ms`` and each part ``known``: [n_windows]."""
    lengths = np.full(len(vehicles), window_s)
    keys = {"vehicle_id": vehicles, "window_start": pa.array(start_ms).cast(_TIME), "window_s": lengths}
    return pa.table(keys | {m.name: m.of(*(known(part.name) for part in m.parts)) for m in measures})


def latest_of(rows: pa.Table) -> pa.Table:
    """Rows of odograph.vehicle_latest: what each vehicle's newest of these windows says."""
    rows = rows.sort_by([("window_start", "descending")])
    codes = rows["vehicle_id"].combine_chunks().dictionary_encode().indices.to_numpy()
    newest = rows.take(pa.array(np.unique(codes, return_index=True)[1]))
    worst = pc.min_element_wise(*(newest[name] for name in _TYRES))
    of = {name: newest[column] for name, column in LATEST.items()}
    return pa.table({"vehicle_id": newest["vehicle_id"]} | of | {"tyre_min_kpa20": worst})


NO_WINDOWS: Final = vehicle_rows(
    pa.array([], pa.string()), np.zeros(0, np.int64), 0, lambda _: always(np.zeros(0, np.int64))
)
"""A table of windows by vehicle without a row."""
