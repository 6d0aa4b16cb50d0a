"""Minutes, hours and days on a real database: equal to what all samples of the bucket give, bit by bit."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from infra.sql import queries
from load_tests.oracle import Expected, expect, expect_rollup
from stream_jobs.app.database import Connection, Database, stage
from stream_jobs.app.sinks import VEHICLE, tagged, write_rows
from stream_jobs.maintenance.rollups import roll_up_changes
from stream_jobs.maintenance.trends import renew
from stream_jobs.reprocess.restate import restate_rows
from stream_jobs.windows import vehicle as windows
from tests.integration.community_support import apply_community_files, refreshed
from tests.integration.rollup_support import insert_bucket
from tests.integration.stream_support import drive, query, spoilt
from tests.support import Lane
from tests.support_frames import Record, vin

pytestmark = [pytest.mark.integration, pytest.mark.tables]

SUMMER_TIME_ENDS_MS = 1_792_890_000_000
"""2026-10-25 01:00:00 UTC: Berlin lives its third hour a second time."""


LAYER = ("revision", "restated_at")


def table_of(expected: Expected, keys: Iterable[tuple[str, datetime]]) -> pa.Table:
    rows = [{"vehicle_id": k[0], "window_start": k[1]} | expected.vehicle[k] for k in keys]
    return pa.Table.from_pylist(rows).select(windows.NO_WINDOWS.column_names)


def stored(lane: Lane, unit: str) -> dict[tuple[str, datetime], dict[str, Any]]:
    rows = query(lane, f"SELECT * FROM odograph.vehicle_{unit}")
    told = [{k: v for k, v in row.items() if k not in LAYER} for row in rows]
    return {(row.pop("vehicle_id"), row.pop("bucket")): row for row in told}


def restated_minutes(lane: Lane) -> set[tuple[str, datetime]]:
    sql = (
        "SELECT vehicle_id, bucket FROM serving.vehicle_minute WHERE revision = 1 AND restated_at IS NOT NULL"
    )
    return {(row["vehicle_id"], row["bucket"]) for row in query(lane, sql)}


def assert_levels(lane: Lane, records: list[Record], tz: str) -> None:
    for unit in ("minute", "hour", "day"):
        assert stored(lane, unit) == expect_rollup(records, unit, tz), unit


def assert_fleet(lane: Lane, records: list[Record]) -> None:
    """The fleet's minutes equal what its vehicles' minutes give together, counted here in whole steps."""
    vehicles: dict[datetime, list[dict[str, Any]]] = {}
    for (_, minute), row in expect_rollup(records, "minute", "UTC").items():
        vehicles.setdefault(minute, []).append(row)
    told = {row["minute"]: row for row in query(lane, "SELECT * FROM odograph.fleet_minute")}
    assert set(told) == set(vehicles)
    for minute, rows in vehicles.items():
        found = told[minute]
        assert (found["vehicles"], found["frames"]) == (len(rows), sum(r["frames"] for r in rows))
        assert found["moving"] == sum((r["moving_s"] or 0) > 0 for r in rows)
        assert found["on_road"] == sum((r["moving_s"] or 0) > 0 or (r["idle_s"] or 0) > 0 for r in rows)
        metres = [round(r["distance_m"] * 360_000) for r in rows if r["distance_m"] is not None]
        assert found["distance_m"] == (sum(metres) / 360_000 if metres else None)
        burnt = [r for r in rows if r["fuel_l"] is not None]
        assert found["fuel_l"] == (
            sum(round(r["fuel_l"] * 360_000_000) for r in burnt) / 360_000_000 if burnt else None
        )


@pytest.mark.parametrize("many", [1, 100])
def test_every_level_equals_all_its_samples_and_follows_what_is_written_again(
    lane: Lane, database: Database, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    monkeypatch.setattr("stream_jobs.maintenance.rollups.MANY", many)
    days_later_ms = SUMMER_TIME_ENDS_MS + 20 * 86_400_000
    driven = drive(range(1, 4), SUMMER_TIME_ENDS_MS - 40_000, 120, seed=7)
    records = spoilt(driven + drive(range(4, 5), days_later_ms, 40, seed=9), seed=8)
    in_time = expect(records, repaired=False)
    roll_up = partial(roll_up_changes, database, "Europe/Berlin")
    database.run(lambda c: write_rows(c, VEHICLE, table_of(in_time, in_time.vehicle), 1))
    assert roll_up() > 0

    whole = expect(records)
    changed = [k for k in whole.vehicle if whole.vehicle[k] != in_time.vehicle.get(k)]
    assert 0 < len(changed) < len(whole.vehicle)
    rows = tagged(table_of(whole, changed), batch_id=-1)
    times = {"since": min(start for _, start in changed), "until": max(start for _, start in changed)}

    def restate(connection: Connection) -> int:
        stage(connection, VEHICLE.name, rows)
        return restate_rows(connection, VEHICLE, rows, times)

    assert database.run(restate) == len(changed)
    minutes = {(vehicle, start.replace(second=0)) for vehicle, start in changed}
    assert roll_up() == len(minutes)
    assert_fleet(lane, records)
    assert restated_minutes(lane) == minutes
    assert_levels(lane, records, "Europe/Berlin")
    assert roll_up() == 0

    assert roll_up_changes(database, "Asia/Kolkata") > 0
    assert_levels(lane, records, "Asia/Kolkata")


def differences(lane: Lane, url: str) -> list[tuple[Any, ...]]:
    """Unit, bucket, windows of the roll-up and of the aggregate."""
    sql = (
        "SELECT unit, bucket, windows, continuous_windows"
        " FROM serving.rollup_difference('2025-03-01 11:00+00', '2025-03-01 15:00+00')"
        " ORDER BY unit DESC, bucket"
    )
    with psycopg.connect(url) as connection:
        return connection.execute(sql).fetchall()


@pytest.fixture
def community(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> Lane:
    """The lane with the files of the community edition, stand-ins where the license is asked for."""
    apply_community_files(lane)
    monkeypatch.setattr(queries, "license_of", lambda _: "timescale")
    return lane


def test_what_one_of_roll_up_and_continuous_aggregate_lacks_is_a_difference(
    community: Lane, database: Database
) -> None:
    addresses = community.endpoints
    begin = datetime(2025, 3, 1, 12, 58, tzinfo=UTC)
    third, last = begin + timedelta(minutes=2), begin + timedelta(minutes=3)
    whole = expect(drive(range(1, 2), int(begin.timestamp()) * 1000, 240, seed=7))
    roll_up = partial(roll_up_changes, database, "Europe/Berlin")
    windows_of = {late: [k for k in whole.vehicle if (k[1] >= third) is late] for late in (False, True)}
    database.run(lambda c: write_rows(c, VEHICLE, table_of(whole, windows_of[False]), 1))
    roll_up()
    queries.refresh(addresses.db_program_urls["jobs"], begin, third, 60)
    assert differences(community, addresses.db_dashboard_url) == []

    database.run(lambda c: write_rows(c, VEHICLE, table_of(whole, windows_of[True]), 1))
    roll_up()
    lacking = differences(community, addresses.db_ingest_url)
    assert [(unit, at, without) for unit, at, _, without in lacking] == [
        ("minute", third, None), ("minute", last, None), ("hour", third, None),
    ]  # fmt: skip
    assert [made for _, _, made, _ in lacking] == [6, 6, 12]

    queries.refresh(addresses.db_program_urls["jobs"], third, last, 60)
    with psycopg.connect(addresses.db_owner_url) as connection:
        connection.execute("DELETE FROM odograph.vehicle_minute WHERE bucket = %s", (last,))
    assert differences(community, addresses.db_ingest_url) == [("minute", last, None, 6)]
    assert query(community, "SELECT * FROM serving.rollup_difference") == []  # it looks 7 days back


def test_whole_hours_are_refreshed_a_day_at_a_time_but_none_whose_windows_have_gone(community: Lane) -> None:
    restates, owner_url = community.endpoints.db_program_urls["maintenance"], community.endpoints.db_owner_url
    since, until = datetime(2025, 3, 1, 12, 58, tzinfo=UTC), datetime(2025, 3, 2, 13, 58, tzinfo=UTC)
    noon, next_noon = since.replace(minute=0), until.replace(hour=12, minute=0)
    assert queries.refresh(restates, since, until, 60) == 2
    of_time = [(noon, next_noon), (next_noon, next_noon + timedelta(hours=2))]
    minutes, hours = "odograph.vehicle_minute_continuous", "odograph.vehicle_hour_continuous"
    assert refreshed(community) == [(name, *piece) for name in (minutes, hours) for piece in of_time]

    with psycopg.connect(owner_url) as connection:
        connection.execute(
            "UPDATE odograph.retention SET dropped_before = '2025-03-02 00:00+00'"
            " WHERE table_name = 'vehicle_window'"
        )
    assert queries.refresh(restates, since, until, 60) == 1
    midnight = datetime(2025, 3, 2, tzinfo=UTC)
    assert refreshed(community)[-1] == (hours, midnight, next_noon + timedelta(hours=2))
    assert queries.refresh(restates, since, noon, 60) == 0
    assert queries.refresh(restates, midnight, midnight + timedelta(hours=23), 60) == 1, "a whole day"


def test_a_leak_stands_in_the_view_with_its_days_and_only_once(lane: Lane, database: Database) -> None:
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    with psycopg.connect(lane.endpoints.db_owner_url) as connection:
        for n in range(96):
            at = begin + timedelta(hours=n)
            insert_bucket(connection, "vehicle_hour", at, tyre_fl_kpa20=240 - n * 0.25, tyre_fr_kpa20=240)
        # Another one goes on driving while this one is parked for months: its line stays what it was.
        insert_bucket(connection, "vehicle_hour", begin + timedelta(days=200), 2)
        connection.execute(
            "INSERT INTO odograph.vehicle_latest (vehicle_id, event_time, updated_at)"
            " VALUES (%s, '2026-01-04 23:30+00', now()), (%s, '2026-07-20 00:30+00', now())",
            [vin(1), vin(2)],
        )
    assert (database.run(renew), database.run(renew)) == (2, 0)
    sql = (
        "SELECT metric, points, slope_per_day, value, threshold, days_to_threshold FROM serving.vehicle_trend"
    )
    found = {row.pop("metric"): row for row in query(lane, sql)}
    assert found["tyre_fr"]["days_to_threshold"] is None
    leak = found["tyre_fl"]
    assert leak == pytest.approx(
        {
            "points": 96,
            "slope_per_day": -6.0,
            "value": 216.25,
            "threshold": 178.21875,
            "days_to_threshold": 6.338542,
        },
        rel=1e-6,
    )


def test_the_score_of_a_day_loses_points_by_grade_and_by_minutes_above_the_limit(lane: Lane) -> None:
    begin = datetime(2026, 3, 28, 23, tzinfo=UTC)
    speeding = {"speeding_s": 120, "speeding_10_s": 60, "speeding_20_s": 0, "speeding_30_s": 0}
    with psycopg.connect(lane.endpoints.db_owner_url) as connection:
        connection.execute("INSERT INTO odograph.rollup_zone VALUES ('Europe/Berlin')")
        insert_bucket(connection, "vehicle_day", begin, distance_m=50_000, **speeding)
        for hours in (-0.5, 0, 22.5, 23):  # the day in which summer time begins has 23 hours
            connection.execute(
                "INSERT INTO odograph.harsh_event (vehicle_id, began_at, kind, ended_at, grade, peak_g,"
                " limit_g, speed_kmh, batch_id) VALUES (%s, %s, 'brake', %s, 2, 0.5, 0.4, 50, 0)",
                [vin(1), begin + timedelta(hours=hours), begin + timedelta(hours=hours)],
            )
    sql = "SELECT harsh_events, harsh_points, speeding_points, score FROM serving.driving_score"
    assert query(lane, sql) == [{"harsh_events": 2, "harsh_points": 4, "speeding_points": 1.5, "score": 89}]
