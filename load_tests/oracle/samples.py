"""Frames and their samples from the definitions: values in whole steps, None where not known."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

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
class Sample:
    """One sample: values in whole steps, None where not available."""

    event_ms: int
    dt_ms: int
    first: bool
    late: bool
    wrong: int
    values: dict[str, int | None]
    frame: tuple[int, int]
    """Boot id and sequence of its frame."""


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


def read(payload: bytes) -> Row | None:
    """The frame in a record; None where it cannot be read."""

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


def samples(frame: Row, late: bool) -> list[Sample]:
    """The samples of a frame."""
    slow, slow_wrong = _clean({s.name: frame.get(s.name) for s in SIGNALS if s.rate == "slow"})
    slow |= _derived(slow, frame) | _engine(slow, frame)
    out = []
    for i in range(frame["n"]):
        fast = {s.name: _at(frame.get(s.name), i) for s in SIGNALS if s.rate == "fast"}
        values, wrong = _clean(fast)
        if fast["lat_deg"] == 0 and fast["lon_deg"] == 0:
            values |= {"lat_deg": None, "lon_deg": None}
            wrong += 2
        wrong += slow_wrong if i == 0 else 0
        event_ms = frame["t0_ms"] + i * frame["dt_ms"]
        identity = (frame["boot_id"], frame["seq"])
        out.append(Sample(event_ms, frame["dt_ms"], i == 0, late, wrong, slow | values, identity))
    if _jumps(out):
        for sample in out:
            sample.wrong += sum(sample.values[name] is not None for name in ("lat_deg", "lon_deg"))
            sample.values |= {"lat_deg": None, "lon_deg": None}
    return out


def _jumps(of_frame: list[Sample]) -> bool:
    """Whether fixes lie further apart than 1 km and what is driven at 250 km/h, by north or by east."""
    lats, lons = ([v for s in of_frame if (v := s.values[k]) is not None] for k in ("lat_deg", "lon_deg"))
    north, east = (max(each, default=0) - min(each, default=0) for each in (lats, lons))
    hours = (of_frame[-1].event_ms - of_frame[0].event_ms) / 3_600_000
    reach = (1000 + 250_000 * hours) / 111_195 * 1e6
    return north > reach or reach < east < 360e6 - reach


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
    """Values that follow from slow ones: compensated tyres, the worst wheel, cells, number of codes."""
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
    temps = [t for w in WHEELS if (t := slow[f"tyre_temp_{w}_c"]) is not None]
    out["tyre_temp"] = max(temps) if temps else None
    current = slow["pack_current_a"]
    out["spread_at_rest"] = out["cell_spread_mv"] if current is not None and abs(current) < 50 else None
    gear = slow["gear"]
    out["forward_gear"] = gear if gear is not None and gear > 0 else None
    codes = frame.get("dtc_codes")
    out["dtc_count"] = None if codes is None else len(codes)
    return out


def _engine(slow: dict[str, int | None], frame: Row) -> dict[str, int | None]:
    """What hangs on whether the engine runs: it does where no known sample is at 500 rpm or below."""
    told = [_at(frame.get("engine_rpm"), i) for i in range(frame["n"])]
    rpm = [round(v) for v in told if v is not None and 0 <= v <= 8000]
    runs = bool(rpm) and min(rpm) > 500
    oil, volts, on = slow["oil_pressure_kpa"], slow["battery_voltage_v"], slow["ignition_on"]
    short, long, coolant = slow["fuel_trim_short_pct"], slow["fuel_trim_long_pct"], slow["coolant_temp_c"]
    floor = 69 * 300 + 23 * (min(max(min(rpm), 700), 2500) - 700) if runs else 0
    warm = runs and coolant is not None and coolant >= 700
    return {
        "oil_shortfall_300": floor - oil * 300 if runs and oil is not None else None,
        "fuel_trim": short + long if warm and short is not None and long is not None else None,
        "battery_rest": volts if on == 0 else None,
        "battery_on": volts if on == 1 else None,
        "battery_running": volts if on == 1 and (runs or not rpm) else None,
    }


def time_of(ms: int) -> datetime:
    """Milliseconds since 1970 as a time."""
    return datetime.fromtimestamp(ms // 1000, UTC).replace(microsecond=ms % 1000 * 1000)
