"""Periodic tasks on a real database: what they keep; an error of one is reported and touches no other."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from prometheus_client import CollectorRegistry

from dashboard.screens.operations import queries as operations_queries
from infra.clients.leases import Lease
from infra.settings.sections import Retention
from infra.stack.probes import failing_tasks
from infra.stack.stack import Stack
from infra.stack.status import table_sizes
from load_tests.oracle import expect
from stream_jobs.app import progress
from stream_jobs.app.database import Database, execute
from stream_jobs.app.progress import clock_ms, complete_until_ms, note
from stream_jobs.app.sinks import VEHICLE, write_rows
from stream_jobs.maintenance.ledger import HOUR_MS, HourlyLedger
from stream_jobs.maintenance.process import drop_expired, work
from stream_jobs.maintenance.rollups import roll_up_changes
from stream_jobs.maintenance.task import TaskRunner
from stream_jobs.reprocess.queue import Grid, late_hours, late_starts, open_late
from stream_jobs.windows import vehicle as windows
from tests.integration.stream_support import drive, query
from tests.support import Lane, eventually, open_lane
from tests.support_frames import vin
from tests.unit.stream_jobs.audit.support import Record, store

pytestmark = [pytest.mark.integration, pytest.mark.tables]

NOW_MS = int(datetime.now(UTC).timestamp()) // 3600 * HOUR_MS
OLD_MS = NOW_MS - 10 * 24 * HOUR_MS


def window_rows(t0_ms: int) -> pa.Table:
    found = expect(drive(range(1, 3), t0_ms, 60, seed=3)).vehicle
    rows = [{"vehicle_id": k[0], "window_start": k[1]} | v for k, v in found.items()]
    return pa.Table.from_pylist(rows).select(windows.NO_WINDOWS.column_names)


def listed(lane: Lane, offset: int, t0_ms: int, after_ms: int = 0) -> None:
    """A late frame, repaired, and a quarantined one; received so much after their time."""
    at = datetime.fromtimestamp((t0_ms + after_ms) / 1000, UTC)
    late = ("t", 0, offset, vin(1), 1, offset, t0_ms, 900, at, at)
    bad = ("t", 0, offset, vin(1), 1, offset, 0, at, "clock_unset")
    with psycopg.connect(lane.endpoints.db_owner_url) as connection:
        connection.execute(f"INSERT INTO odograph.late_frame VALUES ({', '.join(['%s'] * 10)})", late)
        connection.execute(f"INSERT INTO odograph.quarantined_frame VALUES ({', '.join(['%s'] * 9)})", bad)


def test_old_chunks_go_and_what_was_made_of_them_stays(lane: Lane, database: Database) -> None:
    old, new = window_rows(OLD_MS), window_rows(NOW_MS)
    roll_up = partial(roll_up_changes, database, "Europe/Berlin")
    for number, (rows, t0_ms) in enumerate(((old, OLD_MS), (new, NOW_MS))):
        database.run(lambda c, r=rows: write_rows(c, VEHICLE, r, 1))
        listed(lane, number, t0_ms)
    assert roll_up() > 0
    made = {unit: query(lane, f"SELECT * FROM odograph.vehicle_{unit} ORDER BY 1, 2") for unit in UNITS}

    assert drop_expired(database, Retention(windows_days=5), 30) == {"vehicle_window": 1}
    assert drop_expired(database, Retention(windows_days=5), 30) == {}
    (left,) = query(lane, "SELECT count(*) AS n, min(window_start) AS first FROM odograph.vehicle_window")
    assert (left["n"], left["first"] >= datetime.fromtimestamp(NOW_MS / 1000, UTC)) == (new.num_rows, True)
    for table in ("late_frame", "quarantined_frame"):
        assert [r["log_offset"] for r in query(lane, f"SELECT log_offset FROM odograph.{table}")] == [1]
    sizes = {t.name: t for t in table_sizes(lane.endpoints.db_dashboard_url)}
    assert (sizes["odograph.vehicle_window"].kept_days, sizes["odograph.vehicle_day"].kept_days) == (5, None)
    assert sizes["odograph.vehicle_window"].bytes > 0

    database.run(lambda c: write_rows(c, VEHICLE, old.slice(0, 1), 1))  # a window comes back, of many
    assert roll_up() == 0
    assert roll_up_changes(database, "Europe/Berlin") == 0
    assert made == {
        unit: query(lane, f"SELECT * FROM odograph.vehicle_{unit} ORDER BY 1, 2") for unit in UNITS
    }


UNITS = ("minute", "hour", "day")


def day_of(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


def test_the_chunks_of_a_continuous_aggregate_go_with_those_of_its_table(
    lane: Lane, database: Database
) -> None:
    old, new = (datetime.fromtimestamp(ms / 1000, UTC) for ms in (OLD_MS, NOW_MS))
    with psycopg.connect(lane.endpoints.db_owner_url) as connection:  # a hypertable stands in for it
        connection.execute("CREATE TABLE odograph.vehicle_minute_continuous (bucket timestamptz NOT NULL)")
        connection.execute(
            "SELECT create_hypertable('odograph.vehicle_minute_continuous', 'bucket',"
            " chunk_time_interval => INTERVAL '1 day')"
        )
        connection.execute("INSERT INTO odograph.vehicle_minute_continuous VALUES (%s), (%s)", (old, new))
    drop_expired(database, Retention(windows_days=5, minutes_days=8), 30)
    assert query(lane, "SELECT bucket FROM odograph.vehicle_minute_continuous") == [{"bucket": new}]
    sizes = {t.name: t for t in table_sizes(lane.endpoints.db_dashboard_url)}
    size = sizes["odograph.vehicle_minute_continuous"]
    assert (size.kept_days, size.bytes > 0, size.since) == (8, True, day_of(new))


def test_each_hour_that_changed_is_balanced_for_the_dashboard(lane: Lane, database: Database) -> None:
    begin_ms = NOW_MS - HOUR_MS

    def put(frames: dict[int, int]) -> None:
        rows = window_rows(begin_ms).slice(0, 2).to_pylist()
        for row, (second, count) in zip(rows, frames.items(), strict=True):
            start = datetime.fromtimestamp(begin_ms / 1000, UTC) + timedelta(seconds=second)
            row |= {"vehicle_id": "V", "window_start": start, "frames": count, "frames_late": 0}
        table = pa.Table.from_pylist(rows, schema=window_rows(begin_ms).schema)
        database.run(lambda c: write_rows(c, VEHICLE, table, 1))

    store(lane.home, [Record(s) for s in (0, 1, 2, 5, 12)], t0_ms=begin_ms)
    put({0: 4, 10: 1})
    closed = [NOW_MS + 60_000]
    ledger = HourlyLedger(lane.settings, lane.endpoints, database, lambda: closed[0])
    assert ledger() == 2  # the hour before and the one that has begun
    (hour,) = shown(lane, "audit_hours")
    figures = ("vehicles", "generated", "missing", "counted", "residual")
    assert [hour[name] for name in figures] == [1, 13, 8, 5, 8]
    findings = [(f["stage"], f["vehicle_id"], f["what"], f["frames"]) for f in shown(lane, "audit_findings")]
    assert findings == [("vehicle to archive", "V", "boot 7 seq 3-4, 6-11", 8)]

    late_ms = NOW_MS + 65_000 - begin_ms
    listed(lane, 0, begin_ms, late_ms)  # a late frame of the hour is listed, but not archived
    put({0: 3, 10: 1})
    closed[0] += 10_000
    assert ledger() == 2
    (hour,) = shown(lane, "audit_hours")  # what was quarantined at its receipt is not closed yet
    assert (hour["counted"], hour["late"], hour["residual"]) == (4, 0, 8 + 1 + 1)
    findings = [f["what"] for f in shown(lane, "audit_findings")]
    at = datetime.fromtimestamp(begin_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    assert findings == [
        "boot 7 seq 3-4, 6-11",
        f"window {at}: 4 frames archived (boot 7 seq 0-5), 3 counted",
        "late: 0 records archived, 1 listed",
    ]


def shown(lane: Lane, question: str) -> list[dict[str, Any]]:
    with psycopg.connect(lane.endpoints.db_dashboard_url) as connection:
        return list(getattr(operations_queries, question)(connection).to_dict("records"))


def task(lane: Lane, name: str) -> dict[str, Any]:
    """A task as the dashboard has it; nothing before it was reported."""
    found = query(lane, "SELECT * FROM serving.maintenance_task WHERE task = %s", name)
    return found[0] if found else {"success_at": None}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks tell the database how they do, and try again after an error, as soon as a test bears."""
    for pause in ("REPORT_S", "FIRST_PAUSE_S"):
        monkeypatch.setattr(f"stream_jobs.maintenance.task.{pause}", 0.1)


@contextmanager
def maintenance(lane: Lane, holder: str = "here") -> Iterator[tuple[Lease, TaskRunner]]:
    stop, where = threading.Event(), lane.endpoints
    terms = lane.settings.lease.model_copy(update={"holder": holder})
    settings = lane.settings.model_copy(update={"lease": terms})
    lease = Lease(settings, where.db_ingest_url, "maintenance", stop)
    runner = TaskRunner("maintenance", settings, where, CollectorRegistry())
    thread = threading.Thread(target=lease.run, args=(partial(work, settings, where, runner),))
    thread.start()
    try:
        yield lease, runner
    finally:
        stop.set()
        thread.join()


@pytest.mark.usefixtures("quick")
def test_a_task_that_fails_is_named_touches_no_other_and_succeeds_again_by_itself(stack: Stack) -> None:
    with (
        open_lane(stack, topics=False, jobs={"trend_interval_s": 0.2, "rollup_interval_s": 0.2}) as lane,
        psycopg.connect(lane.endpoints.db_owner_url, autocommit=True) as db,
        maintenance(lane) as (_, runner),
    ):
        eventually(lambda: task(lane, "trends")["success_at"], 30, "trends are computed")
        db.execute("ALTER TABLE odograph.vehicle_baseline RENAME TO away")
        eventually(lambda: task(lane, "trends")["failures"] > 1, 30, "trends fail twice")
        failed, rolled_at = task(lane, "trends"), task(lane, "rollups")["success_at"]
        assert failed["error"].startswith("UndefinedTable: relation")
        (line,) = failing_tasks(lane.endpoints.db_ingest_url)
        assert line.startswith('maintenance/trends: UndefinedTable: relation "odograph.vehicle_baseline"')
        assert (runner.problem() or "").startswith("trends: UndefinedTable")
        eventually(lambda: task(lane, "rollups")["success_at"] > rolled_at, 30, "roll-ups go on")
        db.execute("ALTER TABLE odograph.away RENAME TO vehicle_baseline")
        eventually(lambda: not task(lane, "trends")["error"], 30, "trends succeed again")
        assert (failing_tasks(lane.endpoints.db_ingest_url), runner.problem()) == ([], None)


@pytest.mark.usefixtures("quick")
def test_a_second_process_stands_by_and_goes_on_where_the_first_one_ends(stack: Stack) -> None:
    with open_lane(stack, topics=False, jobs={"rollup_interval_s": 0.2}) as lane:
        with maintenance(lane) as (first, tasks):
            eventually(lambda: task(lane, "rollups")["success_at"], 30, "the first works")
            with maintenance(lane, "there") as (second, _):
                standby = "here has the lease maintenance"
                eventually(lambda: second.standby == standby, 30, "the second stands by")
                assert (first.standby, tasks.problem()) == (None, None)
        with maintenance(lane, "there") as (third, tasks):
            at = task(lane, "rollups")["run_at"]
            eventually(lambda: (task(lane, "rollups")["run_at"] or at) > at, 30, "another goes on")
            assert (third.standby, tasks.problem()) == (None, None)


@pytest.mark.parametrize("ahead_ms", [0, 3_600_000, -3_600_000])
def test_queries_are_complete_up_to_the_slowest_by_the_clock_of_the_database(
    database: Database, monkeypatch: pytest.MonkeyPatch, ahead_ms: int
) -> None:
    driver = SimpleNamespace(time_ns=lambda: time.time_ns() + 1_000_000 * ahead_ms)
    monkeypatch.setattr(progress, "time", driver)
    begun_ms = database.run(clock_ms) - 100_000

    def noted(**moments: int) -> int | None:
        given = {query: begun_ms + ahead_ms + after_ms for query, after_ms in moments.items()}
        database.run(lambda c: note(c, given))
        found = complete_until_ms(database, "telemetry", "archive")
        return None if found is None else found - begun_ms

    assert noted(telemetry=70_000) is None
    assert noted(archive=50_000) == pytest.approx(50_000, abs=2_000)
    assert noted(archive=90_000, telemetry=60_000) == pytest.approx(70_000, abs=2_000)  # it never goes back
    future = "UPDATE odograph.query_completeness SET complete_until = now() + INTERVAL '1 day'"
    database.run(lambda c: execute(c, future))  # by a clock that was ahead, of an older version
    assert noted(archive=20_000, telemetry=30_000) == pytest.approx(20_000, abs=2_000)


def test_a_late_frame_is_due_when_the_queries_are_past_its_listing_whatever_comes_late_after_it(
    database: Database,
) -> None:
    grid = Grid(road_window_ms=60_000, ahead_ms=10_000, lateness_ms=30_000)
    row = (
        "INSERT INTO odograph.late_frame (topic, partition, log_offset, vehicle_id, boot_id, seq, t0_ms, "
        "span_ms, received_at, noted_at) VALUES ('t', 0, %(n)s, 'V', 1, %(n)s, %(t0_ms)s, 900, now(), "
        "to_timestamp(%(noted_ms)s / 1000.0))"
    )

    def due(seen_ms: int) -> tuple[list[int], list[int]]:
        starts = database.run(lambda c: late_starts(c, grid, seen_ms))
        return starts, [
            frame.log_offset for frame in database.run(lambda c: open_late(c, 0, 240_000, seen_ms))
        ]

    for n, (t0_ms, noted_ms) in enumerate([(60_000, 200_000), (120_000, 310_000)]):
        values = {"n": n, "t0_ms": t0_ms, "noted_ms": noted_ms}
        database.run(lambda c, values=values: execute(c, row, values))
    assert due(199_000) == ([], [])
    assert due(300_000) == ([60_000], [0])
    assert due(310_000) == ([60_000, 120_000], [0, 1])


def test_a_late_frame_is_looked_for_in_the_hour_of_its_receipt_to_the_last_millisecond(
    lane: Lane, database: Database
) -> None:
    listed(lane, 1, 0, after_ms=HOUR_MS - 1)
    assert database.run(lambda c: late_hours(c, [(None, 0, 60_000)])) == [0]
