"""The batch layer ends at any point by SIGKILL: the same command again finishes it as if it had not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from infra.stack.stack import Stack
from load_tests.oracle import Expected, Limits, counted, expect
from stream_jobs.reprocess.queue import Counts, Span
from tests.integration.killing import Point, kill_at
from tests.integration.recompute_support import (
    BEHIND,
    RULES,
    Given,
    archive,
    by_night,
    hot_drive,
    recompute,
    repair,
)
from tests.integration.stream_support import base_ms, drive, query, spoilt
from tests.support import Lane, open_lane
from tests.support_frames import Record, vin

pytestmark = pytest.mark.integration

WRITER = "stream_jobs.reprocess.restate"
ROLL_UPS = Point("stream_jobs.reprocess.work:roll_up_changes")
KILLS = (
    Point(f"{WRITER}:Restater._write_windows"),  # in the transaction of the first slice
    Point(f"{WRITER}:Restater._restate"),  # the first slice is written, the turn not yet given back
    Point(f"{WRITER}:restate_journeys"),  # in the transaction of the first vehicle
    Point(f"{WRITER}:Restater._write_vehicle", 2),  # the first is written, the second not committed
    Point("stream_jobs.reprocess.queue:mark_taken_in"),  # all vehicles are, the second slice is not
    Point(f"{WRITER}:Restater.__call__"),  # between windows and roll-ups
    ROLL_UPS,  # all is done, the run not closed
)
AGAIN = (Point(f"{WRITER}:restate_journeys"), Point(f"{WRITER}:Restater._write_windows"))
MINUTES = 9
"""Two slices."""
HOT = (71, 72)
HOT_ALERTS = (
    "SELECT vehicle_id, count(*) FROM odograph.alert WHERE vehicle_id = ANY(%s) GROUP BY 1 ORDER BY 1"
)
TABLES = (
    "vehicle_window", "road_cell_window", "trip", "trip_stop", "idle_episode", "harsh_event", "alert",
    "alert_event", "vehicle_minute", "vehicle_hour", "vehicle_day", "fleet_minute", "late_frame",
    "late_vehicle_frames", "window_change",
)  # fmt: skip
MOMENTS = "restated_at,repaired_at,alerts_at,noted_at,updated_at,stored_at,received_at,alert_no,change_no"
"""Columns that say when, or are numbers drawn; numbers drawn by what was killed stay unused."""
OF_ANOTHER_LOG = (
    "INSERT INTO odograph.late_frame (topic, partition, log_offset, vehicle_id, boot_id, seq, t0_ms, "
    "span_ms, received_at, noted_at) SELECT 'a day', partition, log_offset, vehicle_id, boot_id, seq, "
    "t0_ms + 7200000, span_ms, received_at, noted_at FROM odograph.late_frame ORDER BY log_offset LIMIT 1"
)
"""A late frame of a day that was filled in, two hours later, at the same partition and offset."""
SPOIL = "UPDATE odograph.vehicle_window SET distance_m = 7 WHERE window_start = (SELECT min(window_start) "
SPOIL += "FROM odograph.vehicle_window WHERE frames_late > 0)"


@pytest.fixture
def lanes(stack: Stack, tmp_path: Path) -> Iterator[tuple[Lane, Lane]]:
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULES)
    terms: dict[str, Any] = {"recompute": {"slice_min": 5}, "jobs": {"rules": rules}}
    with open_lane(stack, topics=False, **terms) as whole, open_lane(stack, topics=False, **terms) as killed:
        yield whole, killed


def filled(lane: Lane, records: list[Record]) -> Given:
    """An archive with late frames, and a run over it."""
    archive(lane, "first", records)
    with psycopg.connect(lane.endpoints.db_owner_url) as connection:
        assert connection.execute(OF_ANOTHER_LOG).rowcount == 1
    span = Span(base_ms(), base_ms() + MINUTES * 60_000)
    return Given(lane.settings, lane.endpoints.db_ingest_url, span)


def rows(lane: Lane) -> dict[str, list[str]]:
    """All that the batch layer writes, without the moments at which it did."""
    found = {}
    for table in TABLES:
        text = f"(to_jsonb(t) - '{{{MOMENTS}}}'::text[])::text"
        sql = f"SELECT {text} AS row FROM odograph.{table} t ORDER BY 1"
        found[table] = [row["row"] for row in query(lane, sql)]
    return found


def recomputed(given: Given, expected: Expected) -> Counts:
    """The command's run, that finds all that is expected and two alerts of each hot vehicle."""
    counts = recompute(given)
    assert (counts["vehicle_windows"], counts["place_windows"]) == (len(expected.vehicle), len(expected.road))
    assert counts["late_frames"] == expected.verdicts["late"]
    assert counts["journeys"] > 0
    with psycopg.connect(given.url) as connection:
        assert connection.execute(HOT_ALERTS, [[*map(vin, HOT)]]).fetchall() == [(vin(v), 2) for v in HOT]
    return counts - Counts(vehicles=counts["vehicles"])  # those done before a kill are looked at again


def test_a_run_that_is_killed_at_any_point_is_finished_by_the_same_command_and_by_night(
    lanes: tuple[Lane, Lane],
) -> None:
    start_ms = base_ms()
    hot = hot_drive(start_ms) + hot_drive(start_ms, 72)
    records = sorted(spoilt(drive(range(1, 4), start_ms, 130, seed=5), seed=6) + hot)
    expected = expect(records)
    whole, killed = (filled(lane, records) for lane in lanes)

    for point in KILLS:
        kill_at(point, recompute, killed)
    unfinished = "SELECT count(*) AS runs, count(finished_at) AS finished FROM odograph.recompute_run"
    assert query(lanes[1], unfinished) == [{"runs": 1, "finished": 0}]
    assert recomputed(whole, expected) == recomputed(killed, expected)
    assert query(lanes[1], "SELECT topic FROM odograph.late_frame WHERE repaired_at IS NULL") == [
        {"topic": "a day"}
    ]
    once = rows(lanes[0])
    assert rows(lanes[1]) == once

    spoil(lanes, start_ms)
    for point in (*AGAIN, ROLL_UPS):
        kill_at(point, by_night, killed)
    for given in (whole, killed):
        counts = by_night(given)
        assert counts is not None
        assert counts["vehicles"] == 2
        assert by_night(given) is None
    restated = rows(lanes[0])
    assert restated != once
    assert rows(lanes[1]) == restated


def spoil(lanes: tuple[Lane, Lane], start_ms: int) -> None:
    """Windows with late frames are no more as the archive has them, and frames of two vehicles are behind."""
    for lane in lanes:
        with psycopg.connect(lane.endpoints.db_owner_url) as connection:
            assert connection.execute(SPOIL).rowcount > 0
            for vehicle in (71, 72):
                connection.execute(BEHIND, [vin(vehicle), start_ms / 1000, start_ms / 1000])


def test_a_repair_that_is_killed_is_done_by_the_next_one_and_only_once(lanes: tuple[Lane, Lane]) -> None:
    start_ms = base_ms()
    hot = hot_drive(start_ms) + hot_drive(start_ms, 72)
    records = sorted(spoilt(drive(range(1, 4), start_ms, 130, seed=5), seed=6) + hot)
    whole, killed = (filled(lane, records) for lane in lanes)
    for lane in lanes:
        with psycopg.connect(lane.endpoints.db_owner_url) as connection:
            connection.execute("DELETE FROM odograph.late_frame WHERE topic = 'a day'")
            for vehicle in (71, 72):
                connection.execute(BEHIND, [vin(vehicle), start_ms / 1000, start_ms / 1000])
    for point in AGAIN:
        kill_at(point, repair, killed)
    counted(known := Expected(), records, Limits())
    assert repair(whole) == known.verdicts["late"] + 2
    assert repair(killed) > 0
    assert repair(whole) == repair(killed) == 0
    once = rows(lanes[0])
    assert rows(lanes[1]) == once
    assert len(once["trip"]) == 2
    assert not once["alert"]
    left = "SELECT count(*) FILTER (WHERE repaired_at IS NULL) AS n FROM odograph."
    for table in ("late_frame", "late_vehicle_frames"):
        assert query(lanes[0], left + table) == [{"n": 0}]
    rules = "SELECT count(alerts_at) AS n FROM odograph.late_vehicle_frames"
    assert query(lanes[0], rules) == [{"n": 0}]  # they are left for the night
