"""The batch layer on a real database, over an archive that the test writes: no stream application runs."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import psycopg
import pytest

from infra.contract.errors import ArchiveError, ConfigError
from infra.sql import queries
from infra.stack.stack import Stack
from load_tests.oracle import expect
from stream_jobs.app.database import Database
from stream_jobs.app.session import spark_when_asked
from stream_jobs.archive.manifest import TELEMETRY, archive_of, hour_name
from stream_jobs.archive.upkeep import expire
from stream_jobs.archive.writer import adopt
from stream_jobs.reprocess import feed, work
from stream_jobs.reprocess.queue import GAP, Counts, Span, begin
from stream_jobs.reprocess.restate import Restater
from stream_jobs.vehicles.rows import finding_id
from tests.integration.recompute_support import (
    BEHIND,
    RULES,
    Given,
    Killed,
    alerts_told,
    archive,
    hot_drive,
    recompute,
    repair,
    stream_alert,
)
from tests.integration.stream_support import HOUR_MS, assert_equal, base_ms, drive, query, spoilt, stored
from tests.support import Lane, open_lane
from tests.support_frames import vin

pytestmark = [pytest.mark.integration, pytest.mark.tables]

SPOIL = (
    "UPDATE odograph.vehicle_window SET distance_m = 7 WHERE (vehicle_id, window_start) = "
    "(SELECT vehicle_id, min(window_start) FROM odograph.vehicle_window "
    "WHERE vehicle_id = %s AND frames_late > 0 GROUP BY 1)"
)
MINUTES = 9
"""Of the drive and the standing after it: two slices."""
Bench = tuple[Lane, Restater]


@pytest.fixture
def bench(stack: Stack, tmp_path: Path) -> Iterator[Bench]:
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULES)
    with open_lane(stack, recompute={"slice_min": 5, "parts": 2}, jobs={"rules": rules}) as lane:
        url = lane.endpoints.db_program_urls["jobs"]
        database = Database(url, "recompute", threading.Event())
        with spark_when_asked(lane.settings, "recompute", 1024) as session:
            feeder = feed.Feeder(session, warm=True)
            yield lane, Restater(lane.settings, database, threading.Event(), feeder)
        database.close()


def recomputed(bench: Bench, start_ms: int) -> tuple[int, Counts]:
    lane, restate = bench
    closed_ms = work.closed_ms(lane.settings, lane.endpoints, restate.database)
    span = work.closed_span(lane.settings, Span(start_ms, start_ms + MINUTES * 60_000), closed_ms)
    run, counts = work.recompute(restate, span, closed_ms)
    return run.run_no, counts


def last_night(bench: Bench) -> Callable[[], Counts | None]:
    """The nightly task in the hour in which it is due, the stream far beyond the records."""
    lane, restate = bench
    now = datetime.now(UTC)
    terms = lane.settings.recompute.model_copy(update={"hour_utc": now.hour})
    settings = lane.settings.model_copy(update={"recompute": terms})
    closed_ms = base_ms() + 2 * HOUR_MS
    by_night = Restater(settings, restate.database, threading.Event(), restate.feeder)
    return partial(work.nightly, by_night, closed_ms, lambda: now)


def test_what_is_not_as_the_archive_has_it_is_restated_by_a_run_that_was_killed_and_by_night(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    lane, restate = bench
    made_anew = []
    monkeypatch.setattr(queries, "refresh", lambda *given: made_anew.append(given[:3]))
    start_ms, vehicles = base_ms(), range(1, 4)
    records = spoilt(drive(vehicles, start_ms, 130, seed=5), seed=6) + hot_drive(start_ms)
    archive(lane, "first", sorted(records))
    for at_ms in (start_ms + 111_000, start_ms + 156_000):
        stream_alert(lane, at_ms, finding_id(vin(71), "hot", 1, at_ms, ended=False))

    def killed(said: str) -> None:
        assert said == "slice 1 of 2"
        raise Killed

    monkeypatch.setattr(feed, "WARM", 0)  # by Spark, and by night without it
    with pytest.raises(Killed):
        recomputed(
            (lane, Restater(lane.settings, restate.database, threading.Event(), restate.feeder, killed)),
            start_ms,
        )
    (half_done,) = query(lane, "SELECT run_no, finished_at FROM odograph.recompute_run")
    run_no, counts = recomputed(bench, start_ms)
    assert half_done == {"run_no": run_no, "finished_at": None}
    runs = "SELECT from_at, until_at FROM odograph.recompute_run"
    assert made_anew == [(restate.database.url, *run.values()) for run in query(lane, runs)]
    expected = expect(records)
    everybody = range(1, 72)
    assert_equal(stored(lane, everybody, start_ms, start_ms + HOUR_MS), expected)
    assert (counts["vehicle_windows"], counts["orphaned"]) == (len(expected.vehicle), 0)
    assert counts["late_frames"] == expected.verdicts["late"]
    trip = "SELECT round(distance_m) AS metres, frames, revision FROM odograph.trip WHERE vehicle_id = %s"
    assert query(lane, trip, vin(71)) == [{"metres": 1000.0, "frames": 101, "revision": 1}]
    alerts_are_restated(lane, start_ms)

    with psycopg.connect(lane.endpoints.db_owner_url) as connection:
        assert connection.execute(SPOIL, [vin(1)]).rowcount == 1
        connection.execute(BEHIND, [vin(71), start_ms / 1000, start_ms / 1000])
    monkeypatch.setattr(feed, "WARM", 60_000)
    nightly = last_night(bench)
    assert nightly() == Counts(vehicle_windows=1, vehicles=1)
    assert nightly() is None
    assert_equal(stored(lane, everybody, start_ms, start_ms + HOUR_MS), expected)
    revisions = "SELECT revision, count(*) AS n FROM odograph.vehicle_window GROUP BY 1 ORDER BY 1"
    assert query(lane, revisions) == [
        {"revision": 1, "n": len(expected.vehicle) - 1},
        {"revision": 2, "n": 1},
    ]
    rolled = "SELECT max(revision) AS newest, sum(windows)::integer AS windows FROM serving.vehicle_hour"
    assert query(lane, rolled) == [{"newest": 2, "windows": len(expected.vehicle)}]
    alerts_are_restated(lane, start_ms)
    seen = "SELECT alerts_at IS NOT NULL AS seen FROM odograph.late_vehicle_frames"
    assert query(lane, seen) == [{"seen": True}]


def alerts_are_restated(lane: Lane, start_ms: int) -> None:
    """One that late frames make, one that they make longer, one that they take away."""
    assert alerts_told(lane, start_ms) == [
        {"opened_s": 56, "last_s": 61, "cleared_s": 71, "revision": 0, "restated": True},
        {"opened_s": 156, "last_s": 171, "cleared_s": 181, "revision": 1, "restated": True},
    ]
    withdrawn = "SELECT note FROM serving.alert_withdrawn WHERE vehicle_id = %s"
    assert query(lane, withdrawn, vin(71)) == [{"note": "seen to"}]
    history = "SELECT change FROM serving.alert_change WHERE vehicle_id = %s AND by_whom = 'batch layer'"
    assert sorted(row["change"] for row in query(lane, history, vin(71))) == ["restated", "withdrawn"]


def test_a_span_that_is_not_closed_or_not_archived_is_refused(lane: Lane) -> None:
    now_ms = base_ms() + 3 * HOUR_MS
    with pytest.raises(ConfigError, match="nothing between --from and --to is closed"):
        work.closed_span(lane.settings, Span(now_ms, now_ms + HOUR_MS), now_ms)
    with pytest.raises(ConfigError, match="has nothing of"):
        work.closed_span(lane.settings, Span(now_ms - HOUR_MS, now_ms), now_ms)


def test_journeys_whose_begin_the_archive_has_forgotten_stay_as_they_are_and_are_asked_for_no_more(
    lane: Lane,
) -> None:
    start_ms = base_ms()
    archive(lane, "first", hot_drive(start_ms))
    span = Span(start_ms, start_ms + MINUTES * 60_000)
    given = Given(lane.settings, lane.endpoints.db_ingest_url, span)
    recompute(given)
    told = "SELECT round(distance_m) AS metres, revision FROM odograph.trip"
    assert query(lane, told) == [{"metres": 1000.0, "revision": 1}]
    with psycopg.connect(lane.endpoints.db_owner_url) as connection:
        connection.execute("UPDATE odograph.trip SET distance_m = 7")
        connection.execute(BEHIND, [vin(71), start_ms / 1000, start_ms / 1000])
        connection.execute(
            "INSERT INTO odograph.trip_stop (vehicle_id, began_at, batch_id) "
            "VALUES (%s, to_timestamp(%s), 1)",
            [vin(71), start_ms / 1000 - 5 * 3600],
        )
    assert repair(given) > 0
    assert query(lane, told) == [{"metres": 7.0, "revision": 1}]
    due = "SELECT count(*) AS n FROM odograph.late_vehicle_frames WHERE repaired_at IS NULL"
    assert query(lane, due) == [{"n": 0}]


def test_one_vehicle_is_restated_alone_and_windows_of_places_and_late_frames_stay_as_they_are(
    lane: Lane,
) -> None:
    start_ms = base_ms()
    archive(lane, "first", sorted(hot_drive(start_ms) + hot_drive(start_ms, 72)))
    span = Span(start_ms, start_ms + MINUTES * 60_000)
    given = Given(lane.settings, lane.endpoints.db_ingest_url, span)
    recompute(given)
    with psycopg.connect(lane.endpoints.db_owner_url) as connection:
        connection.execute("UPDATE odograph.vehicle_window SET distance_m = 7")
        connection.execute("UPDATE odograph.road_cell_window SET distance_m = 7")
        connection.execute("UPDATE odograph.trip SET distance_m = 7")
        connection.execute("UPDATE odograph.late_frame SET repaired_at = NULL")
    counts = recompute(replace(given, span=replace(span, vehicle_id=vin(72))))
    assert (counts["place_windows"], counts["late_frames"], counts["vehicles"]) == (0, 0, 1)
    restated = (
        "SELECT vehicle_id, count(*) FILTER (WHERE revision = 2) = count(*) AS windows, "
        "(SELECT revision FROM odograph.trip t WHERE t.vehicle_id = w.vehicle_id) AS trip "
        "FROM odograph.vehicle_window w GROUP BY 1 ORDER BY 1"
    )
    assert query(lane, restated) == [
        {"vehicle_id": vin(71), "windows": False, "trip": 1},
        {"vehicle_id": vin(72), "windows": True, "trip": 2},
    ]
    left = (
        "SELECT (SELECT max(distance_m) FROM odograph.road_cell_window) AS metres, "
        "(SELECT count(repaired_at) FROM odograph.late_frame) AS taken_in"
    )
    assert query(lane, left) == [{"metres": 7.0, "taken_in": 0}]


def test_of_a_span_of_years_only_the_hours_with_data_are_looked_at_and_all_of_them(lane: Lane) -> None:
    start_ms, since_ms = base_ms(), 1_577_836_800_000
    older = drive(range(1, 2), start_ms - 1000 * HOUR_MS, 60, seed=5)
    newer = drive(range(2, 4), start_ms, 60, seed=6)
    late = [(start_ms + 1000, value) for _, value in drive(range(4, 5), start_ms - 500 * HOUR_MS, 30, seed=7)]
    records = sorted(older + late + newer)
    archive(lane, "first", records)
    given = Given(lane.settings, lane.endpoints.db_ingest_url, Span(since_ms, start_ms + MINUTES * 60_000))
    slices: list[str] = []
    with given.restater() as restate:
        restate.say = slices.append
        _, counts = work.recompute(restate, given.span, given.closed_ms)
    expected = expect(records)
    assert_equal(stored(lane, range(1, 5), since_ms, start_ms + HOUR_MS), expected)
    assert (counts["vehicle_windows"], counts["place_windows"]) == (len(expected.vehicle), len(expected.road))
    assert counts["late_frames"] == expected.verdicts["late"] == 30
    assert len(slices) < 30
    assert slices[-1] == f"slice {len(slices)} of {len(slices)}"


def test_stored_windows_whose_records_have_expired_stay_and_late_frames_make_those_that_are_not(
    lane: Lane,
) -> None:
    start_ms = base_ms()
    archive(lane, "first", drive(range(1, 2), start_ms, 60, seed=5))
    given = Given(lane.settings, lane.endpoints.db_ingest_url, Span(start_ms, start_ms + MINUTES * 60_000))
    assert recompute(given)["vehicle_windows"] == 6
    expire(archive_of(lane.home), [start_ms])
    late = drive(range(1, 3), start_ms, 30, seed=6)
    archive(lane, "second", [(at_ms + 2 * HOUR_MS, value) for at_ms, value in late])

    assert repair(given) == len(late)
    told = (
        "SELECT vehicle_id, count(*) AS windows, sum(frames) AS frames, max(revision) AS revision "
        "FROM odograph.vehicle_window GROUP BY 1 ORDER BY 1"
    )
    assert query(lane, told) == [
        {"vehicle_id": vin(1), "windows": 6, "frames": 60, "revision": 1},
        {"vehicle_id": vin(2), "windows": 3, "frames": 30, "revision": 1},
    ]
    assert query(lane, "SELECT count(*) AS n FROM odograph.late_frame WHERE repaired_at IS NULL") == [
        {"n": 0}
    ]
    recompute(given)
    assert [row["frames"] for row in query(lane, told)] == [60, 30]


def test_a_damaged_hour_is_named_each_time_and_stops_the_gap_that_needs_it_and_no_other(lane: Lane) -> None:
    start_ms = base_ms()
    begins_ms = (start_ms - 60 * HOUR_MS, start_ms)
    older, newer = (drive(range(1, 2), at_ms, 60, seed=5) for at_ms in begins_ms)
    archive(lane, "first", older + newer)
    (name,) = adopt(archive_of(lane.home), begins_ms[0])
    path = archive_of(lane.home) / TELEMETRY / hour_name(begins_ms[0]) / name
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    never = lane.settings.recompute.model_copy(update={"hour_utc": -1})
    settings = lane.settings.model_copy(update={"recompute": never})
    given = Given(settings, lane.endpoints.db_ingest_url, Span(begins_ms[0], start_ms + 5 * HOUR_MS))
    with given.restater() as restate:
        for at_ms in begins_ms:
            span = Span(at_ms, at_ms + MINUTES * 60_000)
            restate.database.run(partial(begin, kind=GAP, span=span))
        finished = "SELECT finished_at IS NOT NULL AS done FROM odograph.recompute_run ORDER BY run_no"
        for _ in range(2):
            with pytest.raises(ArchiveError, match=re.escape(str(path))):
                work.nightly(restate, given.closed_ms)
            assert [row["done"] for row in query(lane, finished)] == [False, True]
        path.write_bytes(whole)
        assert work.nightly(restate, given.closed_ms) is None
    assert [row["done"] for row in query(lane, finished)] == [True, True]


def test_a_damaged_hour_stops_the_repair_of_what_needs_it_and_of_nothing_else(lane: Lane) -> None:
    start_ms = base_ms()
    begins_ms = (start_ms - 60 * HOUR_MS, start_ms)
    older, newer = (hot_drive(at_ms, vehicle) for at_ms, vehicle in zip(begins_ms, (71, 72), strict=True))
    archive(lane, "first", older + newer)
    (name,) = adopt(archive_of(lane.home), begins_ms[0])
    path = archive_of(lane.home) / TELEMETRY / hour_name(begins_ms[0]) / name
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with psycopg.connect(lane.endpoints.db_owner_url) as connection:
        for at_ms, vehicle in zip(begins_ms, (71, 72), strict=True):
            connection.execute(BEHIND, [vin(vehicle), at_ms / 1000, at_ms / 1000])
    given = Given(lane.settings, lane.endpoints.db_ingest_url, Span(begins_ms[0], start_ms + 5 * HOUR_MS))
    left = (
        "SELECT DISTINCT vehicle_id FROM odograph.late_frame WHERE repaired_at IS NULL INTERSECT "
        "SELECT vehicle_id FROM odograph.late_vehicle_frames WHERE repaired_at IS NULL"
    )
    trips = "SELECT vehicle_id FROM odograph.trip"
    for _ in range(2):
        with pytest.raises(ArchiveError, match=re.escape(str(path))):
            repair(given)
        assert query(lane, left) == [{"vehicle_id": vin(71)}]
        assert query(lane, trips) == [{"vehicle_id": vin(72)}]
    path.write_bytes(whole)
    assert repair(given) > 0
    assert query(lane, left) == []
    assert {row["vehicle_id"] for row in query(lane, trips)} == {vin(71), vin(72)}
