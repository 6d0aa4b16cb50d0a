"""What an alert rests on: the rules as noted, the frames around the first alert, a silence."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from psycopg.types.json import Jsonb

from tests.rows.town import CENTRE, Row, vehicle_id

FRAMES = 60


def rules() -> list[Row]:
    """Four rules: of one signal, of two, without a value, and one that is no longer in force."""
    return [
        _rule(
            "coolant_high", "MAJOR", "level", "coolant_temp_c", "105.0D", "above", "Coolant above 105 degC"
        ),
        _rule(
            "speeding",
            "WARNING",
            "level",
            "array_min(speed_kmh) - speed_limit_kmh",
            "5.0D",
            "above",
            "Too fast",
        ),
        _rule("vehicle_silent", "MINOR", "silence", None, None, None, "Nothing received for 5 minutes"),
        _rule("belt_off", "WARNING", "frame", "speed_kmh[0]", "10", "above", "Belt off")
        | {"in_force": False},
    ]


def _rule(
    rule: str,
    severity: str,
    kind: str,
    value: str | None,
    limit: str | None,
    beyond: str | None,
    message: str,
) -> Row:
    return {
        "rule": rule,
        "version": 1,
        "severity": severity,
        "query": "vehicles",
        "kind": kind,
        "source": "frame",
        "condition": "true",
        "value_sql": value,
        "limit_sql": limit,
        "beyond": beyond,
        "clear_for_s": 60.0,
        "message": message,
        "in_force": True,
    }


def frames(now: datetime) -> list[Row]:
    """Of alert 1, a frame a second from 30 s before it opened: the coolant climbs from 98 to 112.75 degC.

    It is past 105 degC from the frame on that ends 0.9 s before the opening.
    """
    opened = now - timedelta(seconds=420)
    return [_frame(k, opened + timedelta(seconds=k - 30)) for k in range(FRAMES)]


def _frame(k: int, t0: datetime) -> Row:
    body: dict[str, Any] = {
        "schema": 1,
        "vehicle_id": vehicle_id(0),
        "boot_id": 1,
        "seq": 1000 + k,
        "t0_ms": round(t0.timestamp() * 1000),
        "dt_ms": 100,
        "n": 10,
        "sent_ms": round(t0.timestamp() * 1000) + 1000,
        "speed_kmh": [round(48 + 0.1 * k + 0.2 * (j % 3), 2) for j in range(10)],
        "engine_rpm": [2100 + 3 * k for _ in range(10)],
        "lat_deg": [CENTRE[0]] * 10,
        "lon_deg": [CENTRE[1]] * 10,
        "coolant_temp_c": round(98 + 0.25 * k, 2),
        "oil_pressure_kpa": 310,
        "battery_voltage_v": 13.9,
        "speed_limit_kmh": 50,
        "ignition_on": True,
    }
    return {
        "alert_no": 1,
        "t0": t0,
        "boot_id": 1,
        "seq": 1000 + k,
        "received_at": t0 + timedelta(milliseconds=1100),
        "verdict": "ok",
        "kafka_topic": "odograph.telemetry",
        "partition": 0,
        "log_offset": 5000 + k,
        "frame": Jsonb(body),
    }


def silences(now: datetime) -> list[Row]:
    """One that is over."""
    return [
        {
            "rule": "vehicle_silent",
            "vehicle_id": None,
            "from_at": now - timedelta(days=2),
            "until_at": now - timedelta(days=1),
            "by_whom": "M. Weber",
            "why": "ferry crossing",
        }
    ]
