"""What the pipeline says of itself: batches, traffic, late, quarantined and dead frames."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta

import h3

from tests.rows.town import Row, ends, vehicle_id

YEARS_AHEAD_S = 10 * 31_557_600


def progress(now: datetime) -> list[Row]:
    """A batch a second of telemetry (40 frames each) and routing, one of archive each ten seconds, for 15
    minutes. What waits goes up and down: a level line between two rows of pixels has another colour.
    """
    rows = [_batch("telemetry", now, k, 40, 300 + 90 * (k % 7)) for k in range(900)]
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
        "lag_records": 12 + (ago_s + ago_s // 10) % 5,
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
        a, b = ends(edges[n])
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
    """Three frames of vehicle 5 with a clock ten years ahead, one of vehicle 6 with a clock never set."""
    return [
        _record(n, now)
        | {"topic": "telemetry", "verdict": "clock_unset" if n == 3 else "clock_ahead"}
        | {"vehicle_id": vehicle_id(5 if n < 3 else 6)}
        | {"t0_ms": 1000 if n == 3 else round((now.timestamp() + YEARS_AHEAD_S) * 1000)}
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
            "messages": {1: 30, 2: 0}.get(n),
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
