"""The fleet in figures: vehicles, their newest state, an hour of windows; one vehicle abroad, long ago."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

from tests.rows.found import alerts
from tests.rows.town import (
    HOSTILE_MODEL,
    MODELS,
    ROVER,
    ROVER_START,
    STATES,
    WINDOWS,
    Row,
    place,
    roads,
    vehicle_id,
)

SILENT_FROM = 1000


def vehicles(now: datetime) -> list[Row]:
    return [_status(vehicle_id(n), _model(n), now) for n in range(len(STATES))]


def _model(n: int) -> tuple[str, str, str]:
    return (HOSTILE_MODEL, "petrol", "car") if n == 23 else MODELS[n % len(MODELS)]


def _status(vehicle: str, model: tuple[str, str, str], at: datetime) -> Row:
    name, powertrain, kind = model
    return {
        "vehicle_id": vehicle,
        "model": name,
        "powertrain": powertrain,
        "vehicle_class": kind,
        "state": "online",
        "state_at": at,
        "boot_id": 1,
    }


def speed_kmh(n: int) -> float:
    return 20.0 + n


def latest(now: datetime, edges: list[Row]) -> list[Row]:
    return [_latest(n, state, now, edges) for n, state in enumerate(STATES)]


def _latest(n: int, state: str, now: datetime, edges: list[Row]) -> Row:
    lat, lon, heading = place(edges, n, (n * 0.37) % 1)
    electric = _model(n)[1] == "electric"
    return {
        "vehicle_id": vehicle_id(n),
        "event_time": now - (timedelta(minutes=20) if state == "silent" else timedelta(seconds=1 + n % 3)),
        "lat_deg": lat,
        "lon_deg": lon,
        "heading_deg": heading,
        "speed_kmh": {"moving": speed_kmh(n), "unknown": None}.get(state, 0.0),
        "speed_limit_kmh": 50.0,
        "odometer_m": 20_000_000 + n * 1000,
        "ignition_on": state != "parked",
        "coolant_c": None if electric else 112.5 if n == 0 else 88.0 + n % 4,
        "battery_v": 11.9 if n == 25 else 13.8,
        "tyre_min_kpa20": 171.0 if n == 3 else 228.0 + n % 5,
        "fuel_level_pct": None if electric else 30.0 + n,
        "soc_pct": 40.0 + n if electric else None,
    }


def silence(now: datetime) -> dict[str, list[Row]]:
    """By table: 400 vehicles more, all over the town, who have not been heard of for ten minutes."""
    edges, at = roads(), now - timedelta(minutes=10)
    fleet = range(SILENT_FROM, SILENT_FROM + 400)
    alert = alerts(now)[0] | {
        "rule": "vehicle_silent",
        "severity": "MINOR",
        "message": "Nothing received for 5 minutes",
    }
    opened = [now - timedelta(minutes=5, seconds=n % 60) for n in fleet]
    return {
        "vehicle": [_status(vehicle_id(n), _model(0), at) for n in fleet],
        "vehicle_latest": [_latest(n, "moving", now, edges) | {"event_time": at} for n in fleet],
        "alert": [
            alert | {"vehicle_id": vehicle_id(n), "opened_at": t, "first_alert_id": f"silent-{n}"}
            for n, t in zip(fleet, opened, strict=True)
        ],
    }


def windows(now: datetime, edges: list[Row]) -> list[Row]:
    """The hour before ``now`` in whole windows; a silent vehicle stops 20 minutes early; vehicle 1 has a
    gap.
    """
    end = datetime.fromtimestamp(now.timestamp() // 10 * 10, UTC)
    return [
        _window(n, state, end - timedelta(seconds=10 * (WINDOWS - k)), k, edges)
        for n, state in enumerate(STATES)
        for k in range(WINDOWS - (120 if state == "silent" else 0))
        if not (n == 1 and 200 <= k < 230)
    ]


def _window(n: int, state: str, start: datetime, k: int, edges: list[Row]) -> Row:
    moving = state in {"moving", "silent"}
    speed = max(0.0, speed_kmh(n) + 14 * math.sin(k / 9 + n) - 6 * math.cos(k / 31)) if moving else 0.0
    lat, lon, heading = place(edges, n + (k // 24 if moving else 0), (k % 24) / 24 if moving else 0.5)
    warm = min(1.0, k / 60)
    row = empty_window(vehicle_id(n), start) | {
        "speed_mean_kmh": None if state == "unknown" else speed,
        "speed_max_kmh": None if state == "unknown" else speed + 4,
        "speed_last_kmh": None if state == "unknown" else speed,
        "speed_n": 0 if state == "unknown" else 100,
        "speed_limit_kmh": 50.0,
        "distance_m": speed / 3.6 * 10,
        "moving_s": 10.0 if speed >= 1 else 0.0,
        "idle_s": 10.0 if state == "idling" else 0.0,
        "speeding_s": 10.0 if speed > 55 else 0.0,
        "battery_mean_v": 13.8 - (1.6 * warm if n == 25 else 0) + 0.05 * math.sin(k / 5),
        "battery_n": 100,
        "battery_min_v": 13.6 - (1.7 * warm if n == 25 else 0),
        "lat_deg": lat,
        "lon_deg": lon,
        "heading_deg": heading,
        "odometer_m": 20_000_000 + n * 1000 + k * 90,
        "ignition_on": state != "parked",
        "ambient_temp_c": 18.0,
        "out_of_range": 3 if n == 0 and k == 100 else 0,
        "frames_late": 4 if n == 0 and k == 120 else 0,
        "revision": 1 if n == 0 and k == 120 else 0,
        "restated_at": start + timedelta(seconds=90) if n == 0 and k == 120 else None,
    }
    for wheel, ratio in (("fl", 1.0), ("fr", 0.995), ("rl", 1.03), ("rr", 1.02)):
        leak = 0.16 * k if n == 3 and wheel == "rl" else 0.0
        row[f"tyre_{wheel}_n"] = 100
        row[f"tyre_{wheel}_kpa20"] = 226 * ratio - leak + 0.8 * math.sin(k / 13)
    return row | (_electric(n, k, warm, speed) if _model(n)[1] == "electric" else _engine(n, k, warm, speed))


def _engine(n: int, k: int, warm: float, speed: float) -> Row:
    hot = max(0, k - 240) * 0.2 if n == 0 else 0.0
    coolant = 18 + 70 * warm + 1.5 * math.sin(k / 17) + hot
    return {
        "coolant_mean_c": coolant,
        "coolant_n": 100,
        "coolant_max_c": coolant + 0.8,
        "oil_temp_max_c": 18 + 78 * min(1.0, k / 110),
        "oil_pressure_min_kpa": 120 + 2.2 * speed,
        "rpm_mean": 800 + 28 * speed,
        "rpm_max": 950 + 30 * speed,
        "engine_load_mean_pct": 25 + speed / 4,
        "fuel_l": 0.002 + speed * 0.0001,
        "fuel_level_pct": 64 - k * 0.01,
        "brake_pad_wear_max_pct": 41.0,
        "dpf_soot_max_pct": 35 + k * 0.05 if _model(n)[1] == "diesel" else None,
    }


def _electric(n: int, k: int, warm: float, speed: float) -> Row:
    return {
        "soc_pct": 78 - k * 0.03 - n * 0.1,
        "energy_kwh": 0.0004 * speed,
        "cell_temp_max_c": 20 + 11 * warm + 0.02 * k,
        "cell_spread_max_mv": 18 + 4 * math.sin(k / 20),
        "motor_temp_max_c": 25 + 45 * warm + speed / 6,
        "brake_pad_wear_max_pct": 22.0,
    }


WINDOW_MEASURES = """
speed_mean_kmh speed_max_kmh distance_m moving_s idle_s speeding_s accel_long_max_mps2
accel_long_min_mps2 accel_lat_max_mps2 fuel_l energy_kwh rpm_mean rpm_max engine_load_mean_pct
coolant_mean_c coolant_max_c oil_pressure_min_kpa oil_temp_max_c battery_mean_v battery_min_v
tyre_fl_kpa20 tyre_fr_kpa20 tyre_rl_kpa20 tyre_rr_kpa20 brake_pad_wear_max_pct dpf_soot_max_pct
cell_spread_max_mv cell_temp_max_c motor_temp_max_c dtc_count lat_deg lon_deg heading_deg speed_last_kmh
speed_limit_kmh odometer_m ignition_on fuel_level_pct soc_pct ambient_temp_c restated_at
""".split()  # noqa: SIM905  a list of this length is read by its words


COUNTS = tuple(
    f"{name}_n" for name in ("speed", "coolant", "battery", "tyre_fl", "tyre_fr", "tyre_rl", "tyre_rr")
)


def empty_window(vehicle: str, start: datetime) -> Row:
    """A window of 10 frames and 100 samples in which no signal was available."""
    return (
        {
            "vehicle_id": vehicle,
            "window_start": start,
            "window_s": 10,
            "frames": 10,
            "frames_late": 0,
            "samples": 100,
            "out_of_range": 0,
            "first_event": start,
            "last_event": start + timedelta(seconds=9.9),
            "batch_id": 1,
            "revision": 0,
        }
        | dict.fromkeys(WINDOW_MEASURES)
        | dict.fromkeys(COUNTS, 0)
    )


def rover_vehicle() -> Row:
    return _status(ROVER, ("Twizy 45", "electric", "car"), ROVER_START)


def rover_windows() -> list[Row]:
    """Half an hour of a drive near Rabat."""
    return [_rover_window(k) for k in range(180)]


def _rover_window(k: int) -> Row:
    speed = 22 + 18 * math.sin(k / 11)
    return empty_window(ROVER, ROVER_START + timedelta(seconds=10 * k)) | {
        "speed_mean_kmh": speed,
        "speed_n": 100,
        "speed_max_kmh": speed + 3,
        "speed_last_kmh": speed,
        "distance_m": speed / 3.6 * 10,
        "moving_s": 10.0,
        "idle_s": 0.0,
        "soc_pct": 90 - k * 0.05,
        "lat_deg": round(33.985 + 0.012 * math.sin(k / 40), 6),
        "lon_deg": round(-6.865 + 0.00015 * k, 6),
        "heading_deg": 80.0,
    }


def rover_latest() -> Row:
    last = _rover_window(179)
    return dict.fromkeys(_latest(0, "moving", ROVER_START, roads())) | {
        "vehicle_id": ROVER,
        "event_time": last["last_event"],
        "lat_deg": last["lat_deg"],
        "lon_deg": last["lon_deg"],
        "heading_deg": last["heading_deg"],
        "speed_kmh": last["speed_mean_kmh"],
        "soc_pct": last["soc_pct"],
    }
