"""The batch layer ends at any point by SIGKILL: the same command again finishes it as if it had not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from infra.stack.stack import Stack
from load_tests.oracle import Expected, expect
from stream_jobs.recompute.slices import Span
from stream_jobs.vehicles.alert_rows import finding_id
from stream_jobs.vehicles.rows import AlertRow
from tests.integration.batch_support import (
    Given,
    by_night,
    by_night_alone,
    given_of,
    recompute,
    recompute_alone,
)
from tests.integration.killing import Point, kill_at
from tests.integration.recompute_support import BEHIND, RULES, archive, hot_drive
from tests.integration.stream_support import base_ms, drive, query, spoilt
from tests.support import Lane, open_lane
from tests.support_frames import Record, vin

pytestmark = pytest.mark.integration

WINDOWS, VEHICLES = "stream_jobs.recompute.window_pass", "stream_jobs.recompute.vehicle_pass"
KILLS = (
    Point(f"{WINDOWS}:restate_staged"),  # in the transaction of the first slice
    Point(f"{WINDOWS}:WindowPass._restate"),  # the first slice is written, the turn not yet given back
    Point(f"{WINDOWS}:mark_repaired"),  # in that of the second
    Point(f"{WINDOWS}:WindowPass.__call__"),  # between windows and vehicles
    Point(f"{VEHICLES}:replace_journeys"),  # in the transaction of the first vehicle
    Point(f"{VEHICLES}:VehiclePass._write", 2),  # the first is written, the second not committed
    Point(f"{VEHICLES}:VehiclePass.__call__"),  # between vehicles and roll-ups
    Point("stream_jobs.rollups.update:RollUps.__call__"),  # all is done, the run not closed
)
BY_NIGHT = (
    Point(f"{WINDOWS}:restate_staged"),
    Point(f"{VEHICLES}:replace_journeys"),
    Point("stream_jobs.rollups.update:RollUps.__call__"),
)
MINUTES = 9
"""Two slices."""
TABLES = (
    "vehicle_window", "road_cell_window", "trip", "trip_stop", "idle_episode", "harsh_event", "alert",
    "alert_event", "vehicle_minute", "vehicle_hour", "vehicle_day", "fleet_minute", "late_frame",
    "journey_behind", "window_change",
)  # fmt: skip
MOMENTS = "restated_at,repaired_at,alerts_at,noted_at,updated_at,stored_at,received_at,alert_no"
"""Columns that say when, or are numbers drawn; numbers drawn by what was killed stay unused."""
OF_ANOTHER_LOG = (
    "INSERT INTO odograph.late_frame (topic, partition, log_offset, vehicle_id, boot_id, seq, t0_ms, "
    "span_ms, received_at) SELECT 'a day', partition, log_offset, vehicle_id, boot_id, seq, "
    "t0_ms + 7200000, span_ms, received_at FROM odograph.late_frame ORDER BY log_offset LIMIT 1"
)
"""A late frame of a day that was filled in, two hours later, at the same partition and offset."""
SPOIL = "UPDATE odograph.vehicle_window SET distance_m = 7 WHERE window_start = (SELECT min(window_start) "
SPOIL += "FROM odograph.vehicle_window WHERE frames_late > 0)"


@pytest.fixture
def lanes(stack: Stack, tmp_path: Path) -> Iterator[tuple[Lane, Lane]]:
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULES)
    terms: dict[str, Any] = {"recompute": {"slice_min": 5}, "jobs": {"rules": rules}}
    with open_lane(stack, **terms) as whole, open_lane(stack, **terms) as killed:
        yield whole, killed


def filled(lane: Lane, records: list[Record], expected: Expected, hot: list[Record]) -> Given:
    """An archive with late frames, and a run over it; vehicle 71 has a finding that nobody had."""
    archive(lane, "first", records)
    with psycopg.connect(lane.endpoints.db_owner_url) as connection:
        assert connection.execute(OF_ANOTHER_LOG).rowcount == 1
    start_ms = base_ms()
    at_ms = start_ms + 56_000
    finding = AlertRow(
        finding_id(vin(71), "hot", 1, at_ms, ended=False), vin(71), "hot", 1, "MAJOR", at_ms, 110.0, 105.0,
        "too hot", 1, 56, at_ms + 600_000, None, None,
    )  # fmt: skip
    span = Span(start_ms, start_ms + MINUTES * 60_000)
    return given_of(lane.settings, lane.endpoints.db_ingest_url, span, expected, hot, {vin(71): [finding]})


def rows(lane: Lane) -> dict[str, list[str]]:
    """All that the batch layer writes, without the moments at which it did."""
    found = {}
    for table in TABLES:
        text = f"(to_jsonb(t) - '{{{MOMENTS}}}'::text[])::text"
        sql = f"SELECT {text} AS row FROM odograph.{table} t ORDER BY 1"
        found[table] = [row["row"] for row in query(lane, sql)]
    return found


def test_a_run_that_is_killed_at_any_point_is_finished_by_the_same_command_and_by_night(
    lanes: tuple[Lane, Lane], monkeypatch: pytest.MonkeyPatch
) -> None:
    start_ms = base_ms()
    hot = sorted(hot_drive(start_ms) + hot_drive(start_ms, 72))
    records = sorted(spoilt(drive(range(1, 4), start_ms, 130, seed=5), seed=6) + hot)
    expected = expect(records)
    whole, killed = (filled(lane, records, expected, hot) for lane in lanes)

    for point in KILLS:
        kill_at(point, recompute_alone, killed)
    unfinished = "SELECT count(*) AS runs, count(finished_at) AS finished FROM odograph.recompute_run"
    assert query(lanes[1], unfinished) == [{"runs": 1, "finished": 0}]
    told = []
    for given in (whole, killed):
        given.install(monkeypatch.setattr)
        counts = recompute(given)
        told.append(replace(counts, vehicles=0))  # those done before a kill are looked at again
        assert (counts.vehicle_windows, counts.place_windows) == (len(expected.vehicle), len(expected.road))
        assert counts.late_frames == expected.verdicts["late"]
        assert counts.journeys > 0
        assert counts.alerts_added == 1
    assert told[0] == told[1]
    assert query(lanes[1], "SELECT topic FROM odograph.late_frame WHERE repaired_at IS NULL") == [
        {"topic": "a day"}
    ]
    once = rows(lanes[0])
    assert rows(lanes[1]) == once

    for lane in lanes:
        with psycopg.connect(lane.endpoints.db_owner_url) as connection:
            assert connection.execute(SPOIL).rowcount > 0
            for vehicle in (71, 72):
                connection.execute(BEHIND, [vin(vehicle), start_ms / 1000, start_ms / 1000])
    for point in BY_NIGHT:
        kill_at(point, by_night_alone, killed)
    for given in (whole, killed):
        given.install(monkeypatch.setattr)
        counts = by_night(given)
        assert counts is not None
        assert counts.vehicles == 2
        assert by_night(given) is None
    restated = rows(lanes[0])
    assert restated != once
    assert rows(lanes[1]) == restated
