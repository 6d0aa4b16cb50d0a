"""A vehicle's window from the definitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from infra.contract.signals import WHEELS
from load_tests.oracle.samples import Limits, Row, Sample, time_of


@dataclass(frozen=True, slots=True)
class Found:
    """The samples in a window."""

    samples: list[Sample]

    def known(self, name: str) -> list[tuple[Sample, int]]:
        """The samples that have a value, with it."""
        return [(s, v) for s in self.samples if (v := s.values[name]) is not None]

    def n(self, name: str) -> int:
        """How many have it."""
        return len(self.known(name))

    def mean(self, name: str, per_unit: int) -> float | None:
        """The arithmetic mean."""
        values = [v for _, v in self.known(name)]
        return sum(values) / (len(values) * per_unit) if values else None

    def peak(self, name: str, per_unit: float, choose: Any = max) -> float | None:
        """The largest, or what ``choose`` takes."""
        values = [v for _, v in self.known(name)]
        return choose(values) / per_unit if values else None

    def last(self, name: str) -> int | None:
        """The last known value; of several at one millisecond the largest."""
        values = self.known(name)
        return max(values, key=lambda sv: (sv[0].event_ms, sv[1]))[1] if values else None

    def last_in(self, name: str, per_unit: float) -> float | None:
        """The last known value in its unit."""
        value = self.last(name)
        return None if value is None else value / per_unit

    def integral(self, name: str, divisor: float) -> float | None:
        """The value times the time that each sample stands for."""
        values = self.known(name)
        return sum(v * s.dt_ms for s, v in values) / divisor if values else None


def vehicle_row(samples: list[Sample], limits: Limits) -> Row:
    """The row of a vehicle and a window out of its samples."""
    found = Found(samples)
    head = {
        "window_s": limits.window_ms // 1000,
        "frames": sum(s.first for s in samples),
        "frames_late": sum(s.first and s.late for s in samples),
        "samples": len(samples),
        "out_of_range": sum(s.wrong for s in samples),
        "first_event": time_of(min(s.event_ms for s in samples)),
        "last_event": time_of(max(s.event_ms for s in samples)),
    }
    return head | _driving(found) | _engine(found) | _wheels(found) | _electrics(found) | _last(found)


def _driving(found: Found) -> Row:
    lateral = [abs(v) for _, v in found.known("accel_lat_mps2")]
    power = [
        (v["pack_voltage_v"] * v["pack_current_a"] * s.dt_ms)
        for s in found.samples
        if (v := s.values)["pack_voltage_v"] is not None and v["pack_current_a"] is not None
    ]
    return {
        "speed_mean_kmh": found.mean("speed_kmh", 100),
        "speed_n": found.n("speed_kmh"),
        "speed_max_kmh": found.peak("speed_kmh", 100),
        "distance_m": found.integral("speed_kmh", 360_000),
        **_times(found.samples),
        "idle_fuel_l": _idle_fuel(found.samples),
        "accel_long_max_mps2": found.peak("accel_long_mps2", 100),
        "accel_long_min_mps2": found.peak("accel_long_mps2", 100, min),
        "accel_lat_max_mps2": max(lateral) / 100 if lateral else None,
        "fuel_l": found.integral("fuel_rate_lph", 360_000_000),
        "energy_kwh": sum(power) / 360_000_000_000 if power else None,
    }


def idles(s: Sample) -> bool | None:
    """Standing with ignition on; None where that is not known."""
    speed, on = s.values["speed_kmh"], s.values["ignition_on"]
    if (speed is not None and speed >= 100) or on == 0:
        return False
    return None if speed is None or on is None else True


def _times(samples: list[Sample]) -> dict[str, float | None]:
    """Seconds moving, idle and above the limit by more than so many km/h; None where no sample tells."""
    names = ("moving_s", "idle_s", "speeding_s", "speeding_10_s", "speeding_20_s", "speeding_30_s")
    times: dict[str, list[int]] = {name: [] for name in names}
    for s in samples:
        speed, limit = s.values["speed_kmh"], s.values["speed_limit_kmh"]
        if speed is not None:
            times["moving_s"].append(s.dt_ms if speed >= 100 else 0)
        if (idle := idles(s)) is not None:
            times["idle_s"].append(s.dt_ms if idle else 0)
        if speed is not None and limit is not None:
            for name, margin in zip(names[2:], (5, 10, 20, 30), strict=True):
                times[name].append(s.dt_ms if speed > (limit + margin) * 100 else 0)
    return {name: sum(t) / 1000 if t else None for name, t in times.items()}


def _idle_fuel(samples: list[Sample]) -> float | None:
    burnt = [
        rate * s.dt_ms if idle else 0
        for s in samples
        if (rate := s.values["fuel_rate_lph"]) is not None and (idle := idles(s)) is not None
    ]
    return sum(burnt) / 360_000_000 if burnt else None


def _engine(found: Found) -> Row:
    oil = [v for s, v in found.known("oil_pressure_kpa") if (s.values["engine_rpm"] or 0) > 500]
    below = [s.dt_ms if v > 0 else 0 for s, v in found.known("oil_shortfall_300")]
    return {
        "rpm_mean": found.mean("engine_rpm", 1),
        "rpm_n": found.n("engine_rpm"),
        "rpm_max": found.peak("engine_rpm", 1),
        "engine_load_mean_pct": found.mean("engine_load_pct", 10),
        "engine_load_n": found.n("engine_load_pct"),
        "coolant_mean_c": found.mean("coolant_temp_c", 10),
        "coolant_n": found.n("coolant_temp_c"),
        "coolant_max_c": found.peak("coolant_temp_c", 10),
        "oil_pressure_min_kpa": min(oil) / 1 if oil else None,
        "oil_shortfall_max_kpa": found.peak("oil_shortfall_300", 300),
        "oil_below_floor_s": sum(below) / 1000 if below else None,
        "oil_temp_max_c": found.peak("oil_temp_c", 10),
        "fuel_trim_mean_pct": found.mean("fuel_trim", 10),
        "fuel_trim_n": found.n("fuel_trim"),
        "dpf_soot_max_pct": found.peak("dpf_soot_pct", 10),
        "dpf_delta_p_max_pa": found.peak("dpf_delta_pressure_pa", 1),
        "dtc_count": max((v for _, v in found.known("dtc_count")), default=None),
        "gear_min": min((v for _, v in found.known("forward_gear")), default=None),
        "gear_max": max((v for _, v in found.known("forward_gear")), default=None),
        "rpm_per_kmh": _rpm_per_kmh(found),
    }


def _rpm_per_kmh(found: Found) -> float | None:
    """Engine speed over speed in a forward gear at 10 km/h or more, both weighted by time."""
    rpm = speed = 0
    for s, _ in found.known("forward_gear"):
        turns, runs = s.values["engine_rpm"], s.values["speed_kmh"]
        if turns is not None and runs is not None and runs >= 1000:
            rpm += turns * s.dt_ms
            speed += runs * s.dt_ms
    return rpm * 100 / speed if speed else None


def _wheels(found: Found) -> Row:
    return {
        **{f"tyre_{w}_kpa20": found.mean(f"tyre_{w}", 10) for w in WHEELS},
        **{f"tyre_{w}_n": found.n(f"tyre_{w}") for w in WHEELS},
        "tyre_temp_max_c": found.peak("tyre_temp", 10),
        **{f"brake_pad_wear_{w}_pct": found.peak(f"brake_pad_wear_{w}_pct", 10) for w in WHEELS},
        "brake_pad_wear_max_pct": found.peak("pad_wear", 10),
    }


def _electrics(found: Found) -> Row:
    return {
        "battery_mean_v": found.mean("battery_voltage_v", 100),
        "battery_n": found.n("battery_voltage_v"),
        "battery_min_v": found.peak("battery_voltage_v", 100, min),
        "battery_rest_v": found.mean("battery_rest", 100),
        "battery_rest_n": found.n("battery_rest"),
        "battery_running_v": found.mean("battery_running", 100),
        "battery_running_n": found.n("battery_running"),
        "battery_on_min_v": found.peak("battery_on", 100, min),
        "cell_spread_max_mv": found.peak("cell_spread_mv", 1),
        "cell_spread_rest_mv": found.peak("spread_at_rest", 1),
        "cell_temp_min_c": found.peak("cell_temp_min_c", 10, min),
        "cell_temp_max_c": found.peak("cell_temp_max_c", 10),
        "cell_temp_rate_c_min": _cell_temp_rate(found),
        "pack_voltage_min_v": found.peak("pack_voltage_v", 10, min),
        "motor_temp_max_c": found.peak("motor_temp_c", 10),
    }


def _cell_temp_rate(found: Found) -> float | None:
    """Hottest cell: last less first, by the time between. A frame says it once, at its last sample here."""
    frames: dict[tuple[int, int], tuple[int, int]] = {}
    for s, v in found.known("cell_temp_max_c"):
        frames[s.frame] = max(frames.get(s.frame, (0, 0)), (s.event_ms, v))
    if not frames:
        return None
    first, last = min(frames.values()), max(frames.values())
    rise, time_ms = last[1] - first[1], last[0] - first[0]
    return rise * 60_000 / (time_ms * 10) if time_ms else None


def _last(found: Found) -> Row:
    ignition = found.last("ignition_on")
    return {
        "lat_deg": found.last_in("lat_deg", 1e6),
        "lon_deg": found.last_in("lon_deg", 1e6),
        "heading_deg": found.last_in("heading_deg", 10),
        "speed_last_kmh": found.last_in("speed_kmh", 100),
        "speed_limit_kmh": found.last_in("speed_limit_kmh", 1),
        "odometer_m": found.last("odometer_m"),
        "ignition_on": None if ignition is None else bool(ignition),
        "fuel_level_pct": found.last_in("fuel_level_pct", 10),
        "soc_pct": found.last_in("soc_pct", 100),
        "ambient_temp_c": found.last_in("ambient_temp_c", 10),
    }
