"""What was found: seven alerts with their findings, a crash record."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

from psycopg.types.json import Jsonb

from tests.rows.town import CENTRE, Row, vehicle_id

_ALERTS = (
    # vehicle, rule, severity, message, opened and cleared s ago, seen by, value, worst, limit, findings
    (0, "coolant_high", "MAJOR", "Coolant 112.5 degC, limit 105", 420, None, None, 112.5, 112.5, 105.0, 42),
    (
        7,
        "crash_airbag",
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
    (
        3,
        "tyre_low.rear left",
        "MINOR",
        "Tyre RL 171 kPa, limit 175",
        900,
        None,
        "M. Weber",
        171.0,
        171.0,
        175.0,
        90,
    ),
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
