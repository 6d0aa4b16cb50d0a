"""Trips of vehicle 0, trouble codes of vehicle 38, what was found of vehicle 0's data by the ledger."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.rows.town import CENTRE, Row, vehicle_id


def trips(now: datetime) -> list[Row]:
    """Two trips over and one under way, all within the last hour."""
    return [_trip(now, 50, 15, "final"), _trip(now, 30, 12, "provisional"), _trip(now, 8, 8, "open")]


def _trip(now: datetime, began_min: int, took_min: int, phase: str) -> Row:
    began = now - timedelta(minutes=began_min)
    return {
        "vehicle_id": vehicle_id(0),
        "started_at": began,
        "ended_at": began + timedelta(minutes=took_min),
        "trip_id": f"trip-{began_min}",
        "phase": phase,
        "start_lat_deg": CENTRE[0],
        "start_lon_deg": CENTRE[1],
        "distance_m": 600.0 * took_min,
        "unseen_m": 0.0,
        "duration_s": 60.0 * took_min,
        "moving_s": 50.0 * took_min,
        "standing_s": 10.0 * took_min,
        "idle_s": 10.0 * took_min,
        "halts": 2,
        "speed_mean_kmh": 36.0,
        "speed_max_kmh": 63.0,
        "fuel_l_per_100km": 6.6,
        "harsh_brake": 1,
        "harsh_accelerate": 0,
        "harsh_corner": 2,
        "frames": 60 * took_min,
        "batch_id": 1,
    }


def codes(now: datetime) -> list[Row]:
    """One code that is set, one that was."""
    return [_code("P0301", now, None), _code("C1234", now, now - timedelta(minutes=20))]


def _code(code: str, now: datetime, cleared: datetime | None) -> Row:
    return {
        "vehicle_id": vehicle_id(38),
        "rule": f"dtc_active.{code}",
        "rule_version": 1,
        "severity": "WARNING",
        "message": f"Trouble code set: {code}",
        "opened_at": now - timedelta(minutes=40),
        "last_at": cleared or now - timedelta(minutes=20),
        "cleared_at": cleared or now - timedelta(minutes=20),
        "findings": 3,
        "late": False,
        "first_alert_id": f"code-{code}",
    }


def audit_hours(now: datetime) -> list[Row]:
    """The hour that runs, audited: one vehicle had late frames and doubles."""
    hour = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    figures = (
        "generated lost_on_link dropped_on_board on_board on_the_way dead missing counted late quarantined "
        "duplicate in_time late_records late_listed late_open repaired quarantined_records "
        "quarantined_listed dead_unknown residual"
    )
    return [{"hour": hour, "closed_until": now, "vehicles": 0} | dict.fromkeys(figures.split(), 0)]


def audit_vehicles(now: datetime) -> list[Row]:
    """What the ledger has of vehicle 0."""
    hour = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    return [
        {
            "hour": hour, "vehicle_id": vehicle_id(0), "generated": 400, "counted": 390, "late": 5,
            "quarantined": 4, "duplicate": 7, "dead": 0, "missing": 1, "lost": 0,
        }
    ]  # fmt: skip
