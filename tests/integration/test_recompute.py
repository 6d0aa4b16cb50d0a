"""The batch layer on a real database, over an archive that the test writes: no stream application runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from infra.contract.errors import ConfigError
from infra.stack.stack import Stack
from load_tests.oracle import expect
from stream_jobs.jobs import STREAM_CONF
from stream_jobs.recompute import work
from stream_jobs.recompute.nightly import Nightly
from stream_jobs.recompute.runs import Counts
from stream_jobs.recompute.slices import Span
from stream_jobs.session import build_session
from stream_jobs.sinks import Database
from stream_jobs.vehicles.alert_rows import finding_id
from tests.integration.recompute_support import (
    Killed,
    alerts_told,
    archive,
    hot_drive,
    restated,
    stream_alert,
)
from tests.integration.stream_support import HOUR_MS, assert_equal, base_ms, drive, query, spoilt, stored
from tests.support import LIGHT_JVM, Lane, open_lane
from tests.support_frames import vin

pytestmark = pytest.mark.integration

RULES = """
rules:
  - {id: hot, version: 1, query: vehicles, kind: level, severity: MAJOR, source: frame, value: coolant_temp_c,
     beyond: above, limit: "105", raise_for_s: 5, clear_for_s: 10, message: too hot}
"""
BEHIND = (
    "INSERT INTO odograph.journey_behind (vehicle_id, from_time, to_time, received_at, frames, noted_at) "
    "VALUES (%s, to_timestamp(%s), to_timestamp(%s) + INTERVAL '3 minutes', now(), 31, "
    "now() - INTERVAL '1 day')"
)
Bench = tuple[Lane, work.Tools]


@pytest.fixture(scope="module")
def bench(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    rules: Path = tmp_path_factory.mktemp("rules") / "rules.yaml"
    rules.write_text(RULES)
    with (
        pytest.MonkeyPatch.context() as patch,
        open_lane(stack, recompute={"slice_min": 2}, jobs={"rules": rules}) as lane,
    ):
        for name, value in LIGHT_JVM.items():
            patch.setenv(name, value)
        conf = {**STREAM_CONF, "spark.sql.shuffle.partitions": "2"}
        spark = build_session(lane.settings, "recompute", 1024, "local[2]", conf)
        database = Database(lane.endpoints.db_ingest_url, "recompute", threading.Event())
        yield lane, work.Tools(spark, lane.settings, database, threading.Event())
        database.close()
        spark.stop()


def recomputed(
    bench: Bench, start_ms: int, vehicle_id: str | None = None, minutes: int = 4
) -> tuple[int, Counts]:
    lane, tools = bench
    closed_ms = work.closed_ms(lane.settings, lane.endpoints, tools.database)
    span = work.closed_span(lane.settings, Span(start_ms, start_ms + minutes * 60_000, vehicle_id), closed_ms)
    run, counts = work.recompute(tools, span, closed_ms)
    return run.run_no, counts


def test_exactly_what_is_not_as_the_archive_has_it_is_restated(bench: Bench) -> None:
    lane, tools = bench
    start_ms, vehicles = base_ms(), range(1, 4)
    records = spoilt(drive(vehicles, start_ms, 130, seed=5), seed=6)
    archive(lane, "first", records)

    def stop(done: int, of: int) -> None:
        assert of == 2
        if done == 1:
            raise Killed

    with pytest.raises(Killed):
        recomputed((lane, replace(tools, say=stop)), start_ms)
    half_done = query(lane, "SELECT run_no, done_until, finished_at FROM odograph.recompute_run")
    run_no, counts = recomputed(bench, start_ms)
    assert [row["finished_at"] for row in half_done] == [None]
    assert half_done[0]["run_no"] == run_no
    expected = expect(records)
    assert_equal(stored(lane, vehicles, start_ms, start_ms + HOUR_MS), expected)
    assert (counts.vehicle_windows, counts.unfounded) == (len(expected.vehicle), 0)
    assert counts.late_frames == expected.verdicts["late"]

    with psycopg.connect(lane.endpoints.db_owner_url) as connection:
        connection.execute(
            "UPDATE odograph.vehicle_window SET distance_m = 7 WHERE vehicle_id = %s AND window_start = "
            "(SELECT min(window_start) FROM odograph.vehicle_window WHERE vehicle_id = %s)", [vin(1), vin(1)],
        )  # fmt: skip
        connection.execute("DELETE FROM odograph.vehicle_window WHERE vehicle_id = %s AND window_start = "
                           "(SELECT max(window_start) FROM odograph.vehicle_window)", [vin(2)])  # fmt: skip
    assert restated(recomputed(bench, start_ms, vin(3))[1]) == (0, 0)
    assert restated(recomputed(bench, start_ms)[1]) == (2, 0)
    assert_equal(stored(lane, vehicles, start_ms, start_ms + HOUR_MS), expected)
    revisions = "SELECT revision, count(*) AS n FROM odograph.vehicle_window GROUP BY 1 ORDER BY 1"
    assert query(lane, revisions) == [
        {"revision": 1, "n": len(expected.vehicle) - 1},
        {"revision": 2, "n": 1},
    ]
    rolled = "SELECT max(revision) AS newest, sum(windows)::integer AS windows FROM serving.vehicle_hour"
    assert query(lane, rolled) == [{"newest": 2, "windows": len(expected.vehicle)}]


def test_late_frames_make_change_and_take_away_alerts_and_complete_the_trip(bench: Bench) -> None:
    lane, tools = bench
    start_ms = base_ms() - 2 * HOUR_MS
    archive(lane, "hot", hot_drive(start_ms))
    for at_ms in (start_ms + 111_000, start_ms + 156_000):
        stream_alert(lane, at_ms, finding_id(vin(71), "hot", 1, at_ms, ended=False))

    counts = recomputed(bench, start_ms, minutes=9)[1]
    assert (counts.alerts_added, counts.alerts_changed, counts.alerts_withdrawn) == (1, 1, 1)
    assert alerts_told(lane, start_ms) == [
        {"opened_s": 56, "last_s": 61, "cleared_s": 71, "revision": 0, "restated": True},
        {"opened_s": 156, "last_s": 171, "cleared_s": 181, "revision": 1, "restated": True},
    ]
    withdrawn = query(lane, "SELECT note FROM serving.alert_withdrawn")
    assert withdrawn == [{"note": "seen to"}]
    history = query(lane, "SELECT change, by_whom FROM odograph.alert_change WHERE by_whom = 'batch layer'")
    assert sorted(row["change"] for row in history) == ["restated", "withdrawn"]
    trip = "SELECT round(distance_m) AS metres, frames, revision FROM odograph.trip WHERE vehicle_id = %s"
    assert query(lane, trip, vin(71)) == [{"metres": 1000.0, "frames": 101, "revision": 1}]

    with psycopg.connect(lane.endpoints.db_owner_url) as connection:
        connection.execute(BEHIND, [vin(71), start_ms / 1000, start_ms / 1000])
    now = datetime.now(UTC)
    terms = lane.settings.recompute.model_copy(update={"hour_utc": now.hour})
    settings = lane.settings.model_copy(update={"recompute": terms})
    nightly = Nightly(
        tools.spark, settings, tools.database, lambda: base_ms() + 2 * HOUR_MS, tools.stop, lambda: now
    )
    assert nightly() == replace(Counts(), vehicles=1)
    assert nightly() is None
    seen = "SELECT alerts_at IS NOT NULL AS seen FROM odograph.journey_behind"
    assert query(lane, seen) == [{"seen": True}]


def test_a_span_that_is_not_closed_or_not_archived_is_refused(bench: Bench) -> None:
    lane, _ = bench
    start_ms = base_ms() - 48 * HOUR_MS
    with pytest.raises(ConfigError, match="nothing between --from and --to is closed"):
        recomputed(bench, base_ms() + 24 * HOUR_MS)
    with pytest.raises(ConfigError, match="has nothing of"):
        work.check_archive(lane.settings, Span(start_ms, start_ms + HOUR_MS))
