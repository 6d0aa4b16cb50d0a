"""Believable rows for a database without a pipeline: development and tests of the dashboard.

A fleet of 40 in a small town (24 moving, 6 idling, 6 parked, 3 silent, 1 without a speed), an hour of 10 s
windows of 10 frames and 100 samples each, seven alerts, a crash record, roads, traffic, progress of three
queries; and the drive of one electric vehicle in another country, long ago. ``now`` is the only input: the
same rows each time.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import h3
import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

Row = dict[str, Any]

WINDOWS = 360
CENTRE = (49.0069, 8.4037)
ROVER = "TESTRVER000000001"
ROVER_START = datetime(2021, 3, 29, 8, 0, tzinfo=UTC)
HOSTILE_MODEL = '<b onclick="x()">bold</b> ![i](http://198.51.100.1/i.png) @@=({speed}'
STATES = ["moving"] * 24 + ["idling"] * 6 + ["parked"] * 6 + ["silent"] * 3 + ["unknown"]
MODELS = (
    ("Corolla 1.8", "petrol", "car"),
    ("Sprinter 316", "diesel", "van"),
    ("Leaf 24 kWh", "electric", "car"),
    ("Actros 1845", "diesel", "heavy"),
    ("Model 3", "electric", "car"),
)


def vehicle_id(n: int) -> str:
    """The n-th vehicle of the fleet, from 0."""
    return f"TESTFLEET{n:08d}"


def fill(connection: psycopg.Connection[Any], now: datetime) -> None:
    """All rows of this module, in one transaction; the tables are empty before."""
    edges = roads()
    tables: list[tuple[str, Iterable[Row]]] = [
        ("road_edge", edges),
        ("vehicle", [*vehicles(now), rover_vehicle()]),
        ("vehicle_latest", [*latest(now, edges), rover_latest()]),
        ("vehicle_window", [*windows(now, edges), *rover_windows()]),
        ("alert", alerts(now)),
        ("alert_event", alert_events(now)),
        ("crash_record", [crash(now)]),
        ("query_progress", progress(now)),
        ("road_cell_window", cells(now, edges)),
        ("road_cell_baseline", baselines(now, edges)),
        ("late_frame", late_frames(now)),
        ("quarantined_frame", quarantined(now)),
        ("dead_letter", dead_letters(now)),
    ]
    with connection.transaction():
        for table, rows in tables:
            insert(connection, table, rows)


def insert(connection: psycopg.Connection[Any], table: str, rows: Iterable[Row]) -> None:
    """Rows into ``odograph.<table>``; all rows of a table have the first one's columns."""
    kept = list(rows)
    columns = list(kept[0])
    statement = sql.SQL("COPY odograph.{} ({}) FROM STDIN").format(
        sql.Identifier(table), sql.SQL(", ").join(map(sql.Identifier, columns))
    )
    with connection.cursor().copy(statement) as copy:
        for row in kept:
            copy.write_row([row[c] for c in columns])


# The town -----------------------------------------------------------------------------------------


def roads() -> list[Row]:
    """A bent grid of 14 x 10 crossings, about 250 m apart; every fourth street is an arterial."""
    columns, rows = 14, 10
    edges = []
    for r in range(rows):
        for c in range(columns):
            if c + 1 < columns:
                edges.append((_crossing(c, r), _crossing(c + 1, r), r % 4 == 1))
            if r + 1 < rows:
                edges.append((_crossing(c, r), _crossing(c, r + 1), c % 4 == 2))
    return [
        {
            "network": "town",
            "edge_id": n,
            "road_class": "primary" if major else "residential",
            "speed_limit_kmh": 60.0 if major else 30.0,
            "length_m": 250.0,
            "path": Jsonb([list(a), list(b)]),
        }
        for n, (a, b, major) in enumerate(edges)
    ]


def _crossing(column: int, row: int) -> tuple[float, float]:
    east = (column - 6.5) * 0.0035 + 0.0007 * math.sin(row * 0.9)
    north = (row - 4.5) * 0.0023 + 0.0004 * math.sin(column * 0.8)
    return round(CENTRE[1] + east, 6), round(CENTRE[0] + north, 6)


def _ends(edge: Row) -> tuple[list[float], list[float]]:
    a, b = edge["path"].obj
    return a, b


def _place(edges: list[Row], n: int, share: float) -> tuple[float, float, float]:
    """Latitude, longitude and heading of a vehicle that has driven ``share`` of its street."""
    a, b = _ends(edges[(n * 29 + 7) % len(edges)])
    east = (b[0] - a[0]) * math.cos(math.radians(a[1]))
    heading = math.degrees(math.atan2(east, b[1] - a[1])) % 360
    return round(a[1] + (b[1] - a[1]) * share, 6), round(a[0] + (b[0] - a[0]) * share, 6), round(heading, 1)


# The fleet ----------------------------------------------------------------------------------------


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
    lat, lon, heading = _place(edges, n, (n * 0.37) % 1)
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
    lat, lon, heading = _place(edges, n + (k // 24 if moving else 0), (k % 24) / 24 if moving else 0.5)
    warm = min(1.0, k / 60)
    row = empty_window(vehicle_id(n), start) | {
        "speed_mean_kmh": None if state == "unknown" else speed,
        "speed_max_kmh": None if state == "unknown" else speed + 4,
        "speed_last_kmh": None if state == "unknown" else speed,
        "speed_limit_kmh": 50.0,
        "distance_m": speed / 3.6 * 10,
        "moving_s": 10.0 if speed >= 1 else 0.0,
        "idle_s": 10.0 if state == "idling" else 0.0,
        "speeding_s": 10.0 if speed > 55 else 0.0,
        "battery_mean_v": 13.8 - (1.6 * warm if n == 25 else 0) + 0.05 * math.sin(k / 5),
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
        row[f"tyre_{wheel}_kpa20"] = 226 * ratio - leak + 0.8 * math.sin(k / 13)
    return row | (_electric(n, k, warm, speed) if _model(n)[1] == "electric" else _engine(n, k, warm, speed))


def _engine(n: int, k: int, warm: float, speed: float) -> Row:
    hot = max(0, k - 240) * 0.2 if n == 0 else 0.0
    coolant = 18 + 70 * warm + 1.5 * math.sin(k / 17) + hot
    return {
        "coolant_mean_c": coolant,
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


def empty_window(vehicle: str, start: datetime) -> Row:
    """A window of 10 frames and 100 samples in which no signal was available."""
    return {
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
    } | dict.fromkeys(WINDOW_MEASURES)


# The vehicle abroad -------------------------------------------------------------------------------


def rover_vehicle() -> Row:
    return _status(ROVER, ("Twizy 45", "electric", "car"), ROVER_START)


def rover_windows() -> list[Row]:
    """Half an hour of a drive near Rabat."""
    return [_rover_window(k) for k in range(180)]


def _rover_window(k: int) -> Row:
    speed = 22 + 18 * math.sin(k / 11)
    return empty_window(ROVER, ROVER_START + timedelta(seconds=10 * k)) | {
        "speed_mean_kmh": speed,
        "speed_max_kmh": speed + 3,
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


# What was found -----------------------------------------------------------------------------------

_ALERTS = (
    # vehicle, rule, severity, message, opened and cleared s ago, seen by, value, worst, limit, findings
    (0, "coolant_high", "MAJOR", "Coolant 112.5 degC, limit 105", 420, None, None, 112.5, 112.5, 105.0, 42),
    (
        7,
        "crash",
        "CRITICAL",
        "Crash: delta-V -27 km/h, air bag deployed",
        600,
        None,
        None,
        27.0,
        27.0,
        8.0,
        1,
    ),
    (3, "tyre_low", "MINOR", "Tyre RL 171 kPa, limit 175", 900, None, "M. Weber", 171.0, 171.0, 175.0, 90),
    (25, "battery_low", "WARNING", "12 V system 11.9 V, limit 12.2", 1500, None, None, 11.9, 11.9, 12.2, 150),
    (0, "speeding", "WARNING", "63 km/h where 50 is allowed", 200, None, None, 63.0, 71.0, 55.0, 20),
    (12, "speeding", "WARNING", "58 km/h where 50 is allowed", 2400, 2340, None, 58.0, 58.0, 55.0, 6),
    (
        14,
        "coolant_high",
        "MAJOR",
        "Coolant 107.0 degC, limit 105",
        3300,
        2700,
        "A. Costa",
        107.0,
        109.5,
        105.0,
        60,
    ),
)


def alerts(now: datetime) -> list[Row]:
    return [_alert(number, now, *found) for number, found in enumerate(_ALERTS)]


def _alert(
    number: int,
    now: datetime,
    n: int,
    rule: str,
    severity: str,
    message: str,
    opened_s: float,
    cleared_s: float | None,
    by: str | None,
    value: float,
    worst: float,
    limit: float,
    findings: int,
) -> Row:
    cleared = None if cleared_s is None else now - timedelta(seconds=cleared_s)
    return {
        "vehicle_id": vehicle_id(n),
        "rule": rule,
        "rule_version": 1,
        "severity": severity,
        "message": message,
        "opened_at": now - timedelta(seconds=opened_s),
        "last_at": cleared or now - timedelta(seconds=5),
        "cleared_at": cleared,
        "acknowledged_at": None if by is None else now - timedelta(seconds=opened_s - 60),
        "acknowledged_by": by,
        "note": None if by is None else "called the driver",
        "value": value,
        "worst_value": worst,
        "limit_value": limit,
        "findings": findings,
        "late": False,
        "lat_deg": CENTRE[0],
        "lon_deg": CENTRE[1],
        "first_alert_id": f"alert-{number}",
    }


def alert_events(now: datetime) -> list[Row]:
    """Twenty findings of two rules: 5, 6, ... 24 ms from receipt to the alerts topic."""
    return [_finding(k, now - timedelta(seconds=30 * k + 10)) for k in range(20)]


def _finding(k: int, event: datetime) -> Row:
    received = event + timedelta(milliseconds=1100)
    alerted = received + timedelta(milliseconds=5 + k)
    return {
        "alert_id": f"finding-{k}",
        "vehicle_id": vehicle_id(k % 2),
        "rule": "speeding" if k % 2 else "coolant_high",
        "severity": "WARNING" if k % 2 else "MAJOR",
        "event_time": event,
        "received_at": received,
        "alerted_at": alerted,
        "stored_at": alerted + timedelta(milliseconds=40),
        "value": 100.0 + k,
    }


def crash(now: datetime) -> Row:
    """A frontal crash of vehicle 7 from 47 km/h, delta-V -27 km/h, air bag after 22 ms."""
    at = now - timedelta(seconds=600)
    record = {
        "crash_id": "c-1",
        "event_ms": round(at.timestamp() * 1000),
        "profile": "us563_2024",
        "pre_crash_dt_ms": 100,
        "pre_crash": {
            "speed_kmh": [round(62 - max(0, k - 170) * 0.5, 1) for k in range(201)],
            "accelerator_pct": [18.0 if k < 172 else 0.0 for k in range(201)],
            "brake_on": [k >= 178 for k in range(201)],
        },
        "delta_v_dt_ms": 10,
        "delta_v_kmh": [
            round(-27 * (t - math.sin(2 * math.pi * t) / (2 * math.pi)), 1) for t in _crash_times()
        ],
        "delta_v_lat_kmh": [round(-3 * t, 1) for t in _crash_times()],
        "delta_v_max_kmh": -27.0,
        "delta_v_max_ms": 110,
        "airbag_deployed": True,
        "airbag_ms": 22,
        "belt_on": True,
        "multi_event": 1,
        "complete": True,
    }
    return {
        "vehicle_id": vehicle_id(7),
        "boot_id": 1,
        "crash_id": "c-1",
        "event_time": at,
        "received_at": at + timedelta(seconds=1),
        "profile": "us563_2024",
        "delta_v_max_kmh": -27.0,
        "airbag_deployed": True,
        "complete": True,
        "hash_ok": True,
        "lat_deg": CENTRE[0],
        "lon_deg": CENTRE[1],
        "record": Jsonb(record),
    }


def _crash_times() -> list[float]:
    return [min(1.0, k * 10 / 110) for k in range(26)]


# The pipeline -------------------------------------------------------------------------------------


def progress(now: datetime) -> list[Row]:
    """A batch a second of windows (40 frames each) and routing, one of archive each ten seconds, for 15
    minutes.
    """
    rows = [_batch("windows", now, k, 40, 300 + 90 * (k % 7)) for k in range(900)]
    rows += [_batch("routing", now, k, 40, 220 + 50 * (k % 5)) for k in range(900)]
    return rows + [_batch("archive", now, k, 400, 600 + 40 * (k % 3)) for k in range(0, 900, 10)]


def _batch(query: str, now: datetime, ago_s: int, rows: int, batch_ms: int) -> Row:
    at = now - timedelta(seconds=ago_s + 1)
    return {
        "query": query,
        "at": at,
        "query_id": f"00000000-0000-4000-8000-{sum(map(ord, query)):012d}",
        "batch_id": 1000 - ago_s,
        "input_rows": rows,
        "rows_per_s": rows / 1.0,
        "batch_ms": batch_ms,
        "watermark": None if query == "archive" else at - timedelta(seconds=61),
        "event_time_max": at - timedelta(seconds=1),
        "state_rows": None if query == "archive" else 240,
        "state_bytes": None if query == "archive" else 180_000,
        "dropped_late": 0,
        "dropped_duplicates": 2,
        "lag_records": 12 + ago_s % 5,
    }


def cells(now: datetime, edges: list[Row]) -> list[Row]:
    """One minute of traffic on each street, from free to severe."""
    start = datetime.fromtimestamp(now.timestamp() // 60 * 60 - 120, UTC)
    return [
        {
            "cell": cell,
            "heading_sector": sector,
            "window_start": start,
            "window_s": 60,
            "vehicles": 3 + n % 5,
            "samples": 1800,
            "distance_m": 10.0 * (1 + n % 4) * 100,
            "time_s": 360.0,
            "speed_kmh": 10.0 * (1 + n % 4),
            "batch_id": 1,
        }
        for n, (cell, sector) in enumerate(_street_cells(edges))
    ]


def baselines(now: datetime, edges: list[Row]) -> list[Row]:
    return [
        {"cell": cell, "heading_sector": sector, "free_flow_kmh": 42.0, "windows": 200, "updated_at": now}
        for n, (cell, sector) in enumerate(_street_cells(edges))
        if n % 9
    ]


def _street_cells(edges: list[Row]) -> list[tuple[str, int]]:
    """H3 cell and direction of each street's middle."""
    found = {}
    for n in range(0, len(edges), 2):
        a, b = _ends(edges[n])
        lon, lat = (a[0] + b[0]) / 2, (a[1] + b[1]) / 2
        cell = h3.latlng_to_cell(lat, lon, 9)
        found[cell, (0 if abs(b[1] - a[1]) > abs(b[0] - a[0]) else 1) + 2 * (n // 2 % 2)] = None
    return list(found)


def late_frames(now: datetime) -> list[Row]:
    """Five late frames, three of them not yet repaired."""
    return [
        _record(n, now)
        | {
            "span_ms": 900,
            "topic": "telemetry",
            "repaired_at": None if n < 3 else now - timedelta(seconds=60),
        }
        for n in range(5)
    ]


def quarantined(now: datetime) -> list[Row]:
    """Three frames with a clock ahead, one with a clock never set."""
    return [
        _record(n, now) | {"topic": "telemetry", "verdict": "clock_unset" if n == 3 else "clock_ahead"}
        for n in range(4)
    ]


def dead_letters(now: datetime) -> list[Row]:
    reasons = ("bad_json", "bad_json", "bad_value", "identity_mismatch")
    return [
        {
            "partition": 0,
            "log_offset": n,
            "reason": reason,
            "detail": "as a test",
            "mqtt_topic": f"odograph/v1/{vehicle_id(n)}/telemetry",
            "vehicle_id": vehicle_id(n),
            "received_at": now - timedelta(minutes=n),
            "bytes": 900,
            "digest": hashlib.sha256(str(n).encode()).hexdigest(),
        }
        for n, reason in enumerate(reasons)
    ]


def _record(n: int, now: datetime) -> Row:
    return {
        "partition": 0,
        "log_offset": n,
        "vehicle_id": vehicle_id(0),
        "boot_id": 1,
        "seq": n,
        "t0_ms": round((now - timedelta(minutes=5)).timestamp() * 1000),
        "received_at": now - timedelta(minutes=n),
    }
