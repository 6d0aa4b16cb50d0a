"""The windows as they must be, computed one sample at a time from the definitions, without the jobs' code.

Input: records as the log holds them, in the log's order, as (received_ms, payload bytes). Output: rows of
odograph.vehicle_window and odograph.road_cell_window as dicts by key, without the writer's columns. Values
are whole steps until the one division at the end, so they compare with ``==``.
"""

from __future__ import annotations

import json
import zlib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import h3

from infra.contract.signals import BY_NAME, SIGNALS, WHEELS

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Limits:
    """The settings that decide."""

    floor_ms: int = 1_420_070_400_000
    ahead_ms: int = 10_000
    lateness_ms: int = 30_000
    window_ms: int = 10_000
    road_window_ms: int = 60_000


@dataclass(slots=True)
class Expected:
    """What must be in the database."""

    vehicle: dict[tuple[str, datetime], Row] = field(default_factory=dict)
    road: dict[tuple[str, int, datetime], Row] = field(default_factory=dict)
    verdicts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    duplicates: int = 0


@dataclass(slots=True)
class Sample:
    """One sample: values in whole steps, None where not available."""

    event_ms: int
    dt_ms: int
    first: bool
    late: bool
    wrong: int
    values: dict[str, int | None]


def verdict(frame: Row | None, received_ms: int, limits: Limits) -> str:
    """What the clock rules say."""
    if frame is None:
        return "unreadable"
    last_ms = frame["t0_ms"] + (frame["n"] - 1) * frame["dt_ms"]
    if frame["t0_ms"] < limits.floor_ms:
        return "clock_unset"
    if last_ms > received_ms + limits.ahead_ms:
        return "clock_ahead"
    return "late" if received_ms - frame["t0_ms"] > limits.lateness_ms else "ok"


def expect(
    records: Iterable[tuple[int, bytes]], limits: Limits = Limits(), repaired: bool = True
) -> Expected:
    """Both tables; ``repaired`` says whether the batch layer has added the late frames already."""
    expected = Expected()
    chosen: dict[tuple[str, int, int], tuple[Row, str]] = {}
    for received_ms, payload in records:
        frame = _read(payload)
        word = verdict(frame, received_ms, limits)
        expected.verdicts[word] += 1
        if frame is None or word not in ("ok", "late"):
            continue
        identity = (frame["vehicle_id"], frame["boot_id"], frame["seq"])
        before = chosen.get(identity)
        expected.duplicates += word == "ok" and before is not None and before[1] == "ok"
        if before is None or (word == "ok" and before[1] == "late"):
            chosen[identity] = (frame, word)
    _windows(expected, chosen.values(), limits, repaired)
    return expected


def _read(payload: bytes) -> Row | None:
    def refuse(word: str) -> None:
        raise ValueError(word)

    try:
        frame = json.loads(payload, parse_constant=refuse)
    except ValueError:
        return None
    head = ("boot_id", "seq", "t0_ms", "dt_ms", "n")
    if not isinstance(frame, dict) or not isinstance(frame.get("vehicle_id"), str):
        return None
    return frame if all(type(frame.get(k)) is int for k in head) else None


def _windows(expected: Expected, frames: Iterable[tuple[Row, str]], limits: Limits, repaired: bool) -> None:
    by_vehicle: dict[tuple[str, int], list[Sample]] = defaultdict(list)
    by_cell: dict[tuple[str, int, int], list[tuple[str, Sample]]] = defaultdict(list)
    for frame, word in frames:
        if word == "late" and not repaired:
            continue
        for sample in samples(frame, word == "late"):
            start = sample.event_ms // limits.window_ms * limits.window_ms
            by_vehicle[frame["vehicle_id"], start].append(sample)
            place = cell_of(sample)
            if place is not None:
                road_start = sample.event_ms // limits.road_window_ms * limits.road_window_ms
                by_cell[*place, road_start].append((frame["vehicle_id"], sample))
    for (vehicle_id, start), found in by_vehicle.items():
        expected.vehicle[vehicle_id, _time(start)] = _vehicle_row(found, limits)
    for (cell, sector, start), members in by_cell.items():
        expected.road[cell, sector, _time(start)] = _road_row(members, limits)


def samples(frame: Row, late: bool) -> list[Sample]:
    """The samples of a frame."""
    slow, slow_wrong = _clean({s.name: frame.get(s.name) for s in SIGNALS if s.rate == "slow"})
    slow |= _derived(slow, frame)
    out = []
    for i in range(frame["n"]):
        fast = {s.name: _at(frame.get(s.name), i) for s in SIGNALS if s.rate == "fast"}
        values, wrong = _clean(fast)
        if fast["lat_deg"] == 0 and fast["lon_deg"] == 0:
            values |= {"lat_deg": None, "lon_deg": None}
            wrong += 2
        wrong += slow_wrong if i == 0 else 0
        event_ms = frame["t0_ms"] + i * frame["dt_ms"]
        out.append(Sample(event_ms, frame["dt_ms"], i == 0, late, wrong, slow | values))
    return out


def _at(values: list[float] | None, i: int) -> float | None:
    return values[i] if values is not None and i < len(values) else None


def _clean(raw: Row) -> tuple[dict[str, int | None], int]:
    values: dict[str, int | None] = {}
    wrong = 0
    for name, value in raw.items():
        signal = BY_NAME[name]
        if value is None or signal.kind == "codes":
            values[name] = None
        elif signal.kind == "flag":
            values[name] = int(value)
        elif signal.minimum <= value <= signal.maximum:
            values[name] = round(value * signal.steps_per_unit)
        else:
            values[name] = None
            wrong += 1
    return values, wrong


def _derived(slow: dict[str, int | None], frame: Row) -> dict[str, int | None]:
    """Values that follow from slow ones: compensated tyres, cell spread, worst pad, number of codes."""
    out: dict[str, int | None] = {}
    for wheel in WHEELS:
        pressure, temp = slow[f"tyre_pressure_{wheel}_kpa"], slow[f"tyre_temp_{wheel}_c"]
        out[f"tyre_{wheel}"] = (
            None
            if pressure is None or temp is None
            else round(((pressure / 10 + 101.325) * 293.15 / (temp / 10 + 273.15) - 101.325) * 10)
        )
    high, low = slow["cell_voltage_max_v"], slow["cell_voltage_min_v"]
    out["cell_spread_mv"] = None if high is None or low is None else high - low
    pads = [p for w in WHEELS if (p := slow[f"brake_pad_wear_{w}_pct"]) is not None]
    out["pad_wear"] = max(pads) if pads else None
    codes = frame.get("dtc_codes")
    out["dtc_count"] = None if codes is None else len(codes)
    return out


def cell_of(sample: Sample) -> tuple[str, int] | None:
    """Road cell and direction of a sample; None where it does not count."""
    v = sample.values
    lat, lon, heading = v["lat_deg"], v["lon_deg"], v["heading_deg"]
    if not v["ignition_on"] or lat is None or lon is None or v["speed_kmh"] is None:
        return None
    sector = -1 if heading is None else (heading + 450) // 900 % 4
    return h3.latlng_to_cell(lat / 1e6, lon / 1e6, 9), sector


def _vehicle_row(found: list[Sample], limits: Limits) -> Row:
    def known(name: str) -> list[tuple[Sample, int]]:
        return [(s, v) for s in found if (v := s.values[name]) is not None]

    def mean(name: str, per_unit: int) -> float | None:
        values = [v for _, v in known(name)]
        return sum(values) / (len(values) * per_unit) if values else None

    def peak(name: str, per_unit: float, choose: Any = max) -> float | None:
        values = [v for _, v in known(name)]
        return choose(values) / per_unit if values else None

    def last(name: str) -> int | None:
        values = known(name)
        return max(values, key=lambda sv: (sv[0].event_ms, sv[1]))[1] if values else None

    def last_in(name: str, per_unit: float) -> float | None:
        value = last(name)
        return None if value is None else value / per_unit

    def integral(name: str, divisor: float) -> float | None:
        values = known(name)
        return sum(v * s.dt_ms for s, v in values) / divisor if values else None

    moving, idle, speeding = _times(found)
    lateral = [abs(v) for _, v in known("accel_lat_mps2")]
    power = [
        (v["pack_voltage_v"] * v["pack_current_a"] * s.dt_ms)
        for s in found
        if (v := s.values)["pack_voltage_v"] is not None and v["pack_current_a"] is not None
    ]
    oil = [v for s, v in known("oil_pressure_kpa") if (s.values["engine_rpm"] or 0) > 500]
    ignition = last("ignition_on")
    return {
        "window_s": limits.window_ms // 1000,
        "frames": sum(s.first for s in found),
        "frames_late": sum(s.first and s.late for s in found),
        "samples": len(found),
        "out_of_range": sum(s.wrong for s in found),
        "first_event": _time(min(s.event_ms for s in found)),
        "last_event": _time(max(s.event_ms for s in found)),
        "speed_mean_kmh": mean("speed_kmh", 100),
        "speed_max_kmh": peak("speed_kmh", 100),
        "distance_m": integral("speed_kmh", 360_000),
        "moving_s": moving,
        "idle_s": idle,
        "speeding_s": speeding,
        "accel_long_max_mps2": peak("accel_long_mps2", 100),
        "accel_long_min_mps2": peak("accel_long_mps2", 100, min),
        "accel_lat_max_mps2": max(lateral) / 100 if lateral else None,
        "fuel_l": integral("fuel_rate_lph", 360_000_000),
        "energy_kwh": sum(power) / 360_000_000_000 if power else None,
        "rpm_mean": mean("engine_rpm", 1),
        "rpm_max": peak("engine_rpm", 1),
        "engine_load_mean_pct": mean("engine_load_pct", 10),
        "coolant_mean_c": mean("coolant_temp_c", 10),
        "coolant_max_c": peak("coolant_temp_c", 10),
        "oil_pressure_min_kpa": min(oil) / 1 if oil else None,
        "oil_temp_max_c": peak("oil_temp_c", 10),
        "battery_mean_v": mean("battery_voltage_v", 100),
        "battery_min_v": peak("battery_voltage_v", 100, min),
        **{f"tyre_{w}_kpa20": mean(f"tyre_{w}", 10) for w in WHEELS},
        "brake_pad_wear_max_pct": peak("pad_wear", 10),
        "dpf_soot_max_pct": peak("dpf_soot_pct", 10),
        "cell_spread_max_mv": peak("cell_spread_mv", 1),
        "cell_temp_max_c": peak("cell_temp_max_c", 10),
        "motor_temp_max_c": peak("motor_temp_c", 10),
        "dtc_count": max((v for _, v in known("dtc_count")), default=None),
        "lat_deg": last_in("lat_deg", 1e6),
        "lon_deg": last_in("lon_deg", 1e6),
        "heading_deg": last_in("heading_deg", 10),
        "speed_last_kmh": last_in("speed_kmh", 100),
        "speed_limit_kmh": last_in("speed_limit_kmh", 1),
        "odometer_m": last("odometer_m"),
        "ignition_on": None if ignition is None else bool(ignition),
        "fuel_level_pct": last_in("fuel_level_pct", 10),
        "soc_pct": last_in("soc_pct", 100),
        "ambient_temp_c": last_in("ambient_temp_c", 10),
    }


def _times(found: list[Sample]) -> tuple[float | None, float | None, float | None]:
    """Seconds moving, idle and speeding; None where no sample tells."""
    moving: list[int] = []
    idle: list[int] = []
    speeding: list[int] = []
    for s in found:
        speed, on, limit = s.values["speed_kmh"], s.values["ignition_on"], s.values["speed_limit_kmh"]
        if speed is not None:
            moving.append(s.dt_ms if speed >= 100 else 0)
        stands = None if speed is None else speed < 100
        if stands is False or on == 0:
            idle.append(0)
        elif stands and on:
            idle.append(s.dt_ms)
        if speed is not None and limit is not None:
            speeding.append(s.dt_ms if speed > (limit + 5) * 100 else 0)
    first, second, third = (sum(t) / 1000 if t else None for t in (moving, idle, speeding))
    return first, second, third


def _road_row(members: list[tuple[str, Sample]], limits: Limits) -> Row:
    steps_ms = sum((s.values["speed_kmh"] or 0) * s.dt_ms for _, s in members)
    time_ms = sum(s.dt_ms for _, s in members)
    return {
        "window_s": limits.road_window_ms // 1000,
        "vehicles": len({vehicle for vehicle, _ in members}),
        "vehicle_bits": sum({1 << zlib.crc32(vehicle.encode()) % 63 for vehicle, _ in members}),
        "samples": len(members),
        "distance_m": steps_ms / 360_000,
        "time_s": time_ms / 1000,
        "speed_kmh": steps_ms / (time_ms * 100),
    }


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms // 1000, UTC).replace(microsecond=ms % 1000 * 1000)
