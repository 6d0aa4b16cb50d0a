"""Verdicts by the database: what it finds around records is what a search by hand finds."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime

import psycopg
import pytest
from psycopg.rows import dict_row

from infra.contract.signals import M_PER_DEG
from infra.settings.sections import Crash
from stream_jobs.crashes.verdict import AT_ONCE, OTHERS_AFTER_S, OTHERS_BEFORE_S, Window, context, settle
from tests.support import Lane

pytestmark = [pytest.mark.integration, pytest.mark.tables]

TERMS = Crash()
T0_MS = 1_790_000_000_000
LAT_DEG, LON_DEG = 48.1, 11.5
PUT_WINDOW = """
INSERT INTO odograph.vehicle_window (
    vehicle_id, window_start, window_s, frames, frames_late, samples, out_of_range, first_event, last_event,
    batch_id, lat_deg, lon_deg, speed_max_kmh, speed_last_kmh, distance_m, moving_s, idle_s)
VALUES (%s, %s, 10, 1, 0, 10, 0, %s, %s, 1, %s, %s, %s, %s, %s, 10, 0)
"""
PUT_CRASH = """
INSERT INTO odograph.crash_record (
    vehicle_id, boot_id, crash_id, event_time, received_at, profile, complete, hash_ok, record,
    lat_deg, lon_deg)
VALUES (%s, 1, %s, %s, %s, 'minimal', true, true, '{}', %s, %s)
"""
Place = tuple[Window, float, float]


def at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def near(place: Place, lat_deg: float, lon_deg: float) -> bool:
    north, east = place[1] - lat_deg, (place[2] - lon_deg) * math.cos(math.radians(lat_deg))
    return math.hypot(north, east) <= TERMS.near_m / M_PER_DEG


def test_others_near_a_record_are_those_of_its_time_and_place(lane: Lane) -> None:
    rng = random.Random(7)
    reach_deg = 2 * TERMS.near_m / M_PER_DEG
    places: list[Place] = []
    for vehicle in "ABCDEFGH":
        for start_s in range(0, 2400, 10):
            top = rng.uniform(5, 60)
            window = Window(
                vehicle, T0_MS + 1000 * start_s, T0_MS + 1000 * (start_s + 10), top, top, top / 0.36, 10, 0
            )
            places.append(
                (window, LAT_DEG + rng.uniform(-1, 1) * reach_deg, LON_DEG + rng.uniform(-1, 1) * reach_deg)
            )
    # Two in one minute, one that knows no place, one a little north, one much later.
    records = [
        (605_300, LAT_DEG, LON_DEG),
        (611_000, LAT_DEG + reach_deg / 4, LON_DEG),
        (640_000, None, None),
        (650_000, LAT_DEG + reach_deg, LON_DEG),
        (1_500_000, LAT_DEG, LON_DEG),
    ]
    with psycopg.connect(lane.endpoints.db_ingest_url, row_factory=dict_row) as connection:
        cursor = connection.cursor()
        for w, lat, lon in places:
            start, end = at(w.start_ms), at(w.end_ms)
            figures = (w.speed_max_kmh, w.speed_last_kmh, w.distance_m)
            cursor.execute(PUT_WINDOW, (w.vehicle_id, start, start, end, lat, lon, *figures))
        for number, (after_ms, lat_, lon_) in enumerate(records):
            time = at(T0_MS + after_ms)
            cursor.execute(PUT_CRASH, ("A", f"c{number}", time, time, lat_, lon_))
        cursor.execute(
            "INSERT INTO odograph.vehicle_latest (vehicle_id, event_time) VALUES ('A', %s)",
            (at(T0_MS + 2_400_000),),
        )
        assert len(settle(cursor, TERMS)) == len(records)
        assert settle(cursor, TERMS) == []
        stored = cursor.execute("SELECT figures FROM odograph.crash_verdict ORDER BY crash_id").fetchall()
    assert len(stored) == len(records)
    counted = 0
    for (after_ms, lat_, lon_), row in zip(records, stored, strict=True):
        event_ms = T0_MS + after_ms
        others = [
            place[0] for place in places
            if lat_ is not None and lon_ is not None
            and place[0].vehicle_id != "A" and near(place, lat_, lon_)
            and event_ms - 1000 * OTHERS_BEFORE_S <= place[0].start_ms < event_ms + 1000 * OTHERS_AFTER_S
        ]  # fmt: skip
        wanted = context(event_ms, [], others, TERMS)
        found = row["figures"]
        assert found["others_vehicles_before"] == wanted.others_vehicles_before
        assert found["others_vehicles_after"] == wanted.others_vehicles_after
        for name in ("others_speed_before_kmh", "others_speed_after_kmh"):
            speed_kmh = getattr(wanted, name)
            assert found[name] == (None if speed_kmh is None else pytest.approx(speed_kmh, abs=0.01))
        assert found["others_slowed"] == wanted.others_slowed
        counted += wanted.others_vehicles_after
    assert counted > 10


def test_final_verdicts_of_many_records_are_given_a_search_at_a_time_until_none_is_left(lane: Lane) -> None:
    count = 2 * AT_ONCE + 7
    fleet = "INSERT INTO odograph.vehicle_latest (vehicle_id, event_time) VALUES (%s, %s)"

    def searches(final_too: bool) -> list[int]:
        given = [len(settle(cursor, TERMS, final_too=final_too))]
        while given[-1] == AT_ONCE:
            given.append(len(settle(cursor, TERMS, final_too=final_too)))
        return given

    with psycopg.connect(lane.endpoints.db_ingest_url, row_factory=dict_row) as connection:
        cursor = connection.cursor()
        for number in range(count):
            time = at(T0_MS + number)
            cursor.execute(PUT_CRASH, ("A", f"c{number}", time, time, LAT_DEG, LON_DEG))
        cursor.execute(fleet, ("A", at(T0_MS + 300_000)))
        assert searches(final_too=False) == [AT_ONCE, AT_ONCE, 7]
        cursor.execute(fleet, ("B", at(T0_MS + 1_200_000)))
        assert searches(final_too=False) == [0]
        assert searches(final_too=True) == [AT_ONCE, AT_ONCE, 7]
        assert searches(final_too=True) == [0]
        kept = cursor.execute(
            "SELECT count(*) FILTER (WHERE final) AS n FROM odograph.crash_verdict"
        ).fetchone()
    assert kept == {"n": count}
