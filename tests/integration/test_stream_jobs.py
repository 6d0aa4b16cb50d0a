"""The stream application on real services: its tables against an oracle that does not know its code."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import orjson
import psycopg
import pytest

from infra.stack.stack import Stack
from load_tests.oracle import Expected, Limits, counted, expect
from stream_jobs.archive.verify import verified
from tests.integration.stream_reads import archive_copies, archive_of, has_archive
from tests.integration.stream_support import (
    USERS_SQL,
    App,
    Counts,
    Dirty,
    agrees,
    base_ms,
    drive,
    journey_record,
    linked,
    lists,
    page,
    query,
    ready,
    roads_of,
    set_aside,
    spoilt,
    to_list,
    town_in_use,
)
from tests.support import eventually, open_lane
from tests.support_frames import frame, send, vin

pytestmark = pytest.mark.integration

HOUR_MS = 3_600_000
READY_S = 360
DONE_S = 400
TWELVE = range(1, 13)
FLEET = [vin(v) for v in TWELVE]
FAST = {
    "trigger_s": 0.5, "archive_trigger_s": 1.0, "repair_interval_s": 1.0, "max_offsets": 700, "publish_s": 0
}  # fmt: skip
"""What waits to be written holds up a repair until it is surely there, 10 s with ``publish_s`` as it is."""


@pytest.fixture(scope="module")
def app(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """One application for most tests; each uses vehicles and times of its own.

    That a killed one comes back to the same tables is shown end to end (tests/e2e, F7).
    """
    folder = tmp_path_factory.mktemp("sql")
    (folder / "by_minute.sql").write_text(USERS_SQL)
    with (
        open_lane(stack, jobs=FAST | {"sql_dir": str(folder)}) as lane,
        linked(lane) as link,
    ):
        town_in_use(lane)
        with lane.process("jobs", "stream") as process, lane.process("maintenance"):
            eventually(lambda: ready(lane, process), READY_S, "the stream application is ready")
            yield App(lane, process, link)
            process.assert_running()
            process.kill()  # nobody needs what it would still put in order


@pytest.fixture(scope="module")
def dirty(app: App) -> Dirty:
    """Send them, and wait until the tables equal the oracle's."""
    before = set_aside(app.lane)
    start_ms = base_ms()
    records = spoilt(drive(TWELVE, start_ms, 150, seed=1), seed=2)
    send(app.lane, records)
    until_ms, expected = start_ms + HOUR_MS // 2, expect(records, roads=roads_of(app.lane))
    eventually(
        lambda: agrees(app.lane, expected, TWELVE, start_ms, until_ms), DONE_S, "tables equal the oracle"
    )

    def added() -> Counts:
        changes = {what: n - before.get(what, 0) for what, n in set_aside(app.lane).items()}
        return {what: n for what, n in changes.items() if n}

    eventually(lambda: "copies" in added(), DONE_S, "the last batch is told of")
    eventually(lambda: lists(added(), to_list(expected)), DONE_S, "late and quarantined frames are listed")
    return Dirty(records, start_ms, expected, added())


def test_windows_equal_the_oracle_with_late_double_disordered_and_impossible_frames(dirty: Dirty) -> None:
    verdicts = dirty.expected.verdicts
    late, refused = verdicts["late"], {v: verdicts[v] for v in ("clock_ahead", "clock_unset", "unreadable")}
    assert dirty.counts == {"late": late, "repaired": late, "copies": dirty.expected.duplicates} | refused


def test_a_users_sql_file_fills_its_table_with_each_frame_once(app: App, dirty: Dirty) -> None:
    wanted: dict[tuple[str, int], list[int]] = {}
    for content, word in counted(Expected(), dirty.records, Limits()):
        if word == "ok":
            line = wanted.setdefault((content["vehicle_id"], content["t0_ms"] // 60_000), [0, 0])
            line[0] += 1
            line[1] += content["n"]

    def filled() -> bool:
        """As the dashboard's role sees it; the owner of the other tables has no right to a user's."""
        with psycopg.connect(app.lane.endpoints.db_dashboard_url) as connection:
            rows = connection.execute(
                "SELECT vehicle_id, extract(epoch FROM minute)::bigint / 60, frames, samples "
                "FROM user_sql.by_minute WHERE vehicle_id = ANY(%s)",
                (FLEET,),
            )
            return {(vehicle, minute): [frames, n] for vehicle, minute, frames, n in rows} == wanted

    eventually(filled, DONE_S, "the user's table equals the frames")


def test_windows_of_late_frames_are_restated_once_and_the_others_stay_as_they_were(app: App) -> None:
    start_ms = base_ms() + HOUR_MS // 2
    vehicles = range(21, 23)
    records = drive(vehicles, start_ms, 40, seed=3)
    late = [(r + 60_000, p) for r, p in records if orjson.loads(p)["seq"] in (12, 13)]
    records = sorted([r for r in records if orjson.loads(r[1])["seq"] not in (12, 13)] + late)
    send(app.lane, records)
    until_ms, expected = start_ms + HOUR_MS // 4, expect(records, roads=roads_of(app.lane))
    eventually(lambda: agrees(app.lane, expected, vehicles, start_ms, until_ms), DONE_S, "late frames are in")

    revisions = query(
        app.lane,
        "SELECT extract(epoch FROM window_start)::bigint * 1000 - %s AS at, revision, frames_late, "
        "restated_at IS NULL AS speed_layer FROM odograph.vehicle_window WHERE vehicle_id = %s ORDER BY 1",
        start_ms,
        vin(21),
    )
    assert revisions == [
        {"at": 0, "revision": 0, "frames_late": 0, "speed_layer": True},
        {"at": 10_000, "revision": 1, "frames_late": 2, "speed_layer": False},
        {"at": 20_000, "revision": 0, "frames_late": 0, "speed_layer": True},
        {"at": 30_000, "revision": 0, "frames_late": 0, "speed_layer": True},
        {"at": 40_000, "revision": 0, "frames_late": 0, "speed_layer": True},
    ]


def test_while_the_database_is_away_nothing_is_ready_and_nothing_is_lost(app: App) -> None:
    """That a link which answers nothing is cut is shown in test_stream_writes.py."""
    start_ms = base_ms() + HOUR_MS
    vehicles = range(31, 35)
    records = drive(vehicles, start_ms, 60, seed=4)

    app.link.refuse()
    send(app.lane, records)
    eventually(lambda: "database" in page(app.lane, "readyz")[1], 120, "not ready while the database is away")
    app.link.heal()
    eventually(lambda: page(app.lane, "readyz")[0] == 200, 120, "ready again")

    until_ms, expected = start_ms + HOUR_MS // 4, expect(records, roads=roads_of(app.lane))
    eventually(lambda: agrees(app.lane, expected, vehicles, start_ms, until_ms), DONE_S, "nothing is lost")


def test_the_newest_state_of_each_vehicle_is_in_the_table(app: App) -> None:
    start_ms = base_ms() + HOUR_MS + HOUR_MS // 2
    records = [
        (
            start_ms + t_s * 1000 + 1500,
            orjson.dumps(frame(41, t_s, start_ms + t_s * 1000, speed_kmh=float(t_s))),
        )
        for t_s in (5, 25, 15)
    ]
    send(app.lane, records)

    sql = """SELECT speed_kmh, coolant_c, (extract(epoch FROM event_time) * 1000)::bigint AS event_ms
             FROM odograph.vehicle_latest WHERE vehicle_id = %s"""
    newest = [{"speed_kmh": 25.0, "coolant_c": None, "event_ms": start_ms + 25_900}]
    eventually(lambda: query(app.lane, sql, vin(41)) == newest, 120, "the newest by event time")


def test_the_archive_holds_every_record_once_and_duckdb_reads_it(app: App) -> None:
    start_ms = base_ms() - HOUR_MS
    records = [(start_ms + i, orjson.dumps(frame(51, i, start_ms))) for i in range(20)]
    records += [(start_ms + 50, b"{"), (start_ms + 60, orjson.dumps(frame(51, 99, 0)))]
    send(app.lane, records)
    wanted = sorted(records)

    def archived() -> list[tuple[int, bytes]]:
        sql = f"SELECT received_ms, value FROM {archive_of(app.lane)} WHERE received_ms BETWEEN ? AND ?"
        return sorted(duckdb.sql(sql, params=[start_ms, start_ms + 60_000]).fetchall())

    eventually(lambda: has_archive(app.lane) and archived() == wanted, 120, "all records, as sent")
    assert archive_copies(app.lane) == 0
    folder = app.lane.home.absolute() / "archive"
    eventually(lambda: verified(folder, None, quick=False).whole, 120, "the manifest finds it whole")
    assert verified(folder, None, quick=True).unlisted == []


def test_a_drive_becomes_a_trip_and_frames_that_come_behind_restate_it(app: App) -> None:
    start_ms = base_ms() - 2 * HOUR_MS
    lost = range(40, 50)
    send(app.lane, [journey_record(s, start_ms) for s in range(400) if s not in lost])
    told = (
        "SELECT phase, round(distance_m) AS metres, round(unseen_m) AS unseen, frames, revision "
        "FROM odograph.trip WHERE vehicle_id = %s"
    )
    trip = {"phase": "final", "metres": 1000.0}
    seen = trip | {"unseen": 100.0, "frames": 91, "revision": 0}  # the one that ends it is one of them
    eventually(lambda: query(app.lane, told, vin(61)) == [seen], DONE_S, "the trip is told")
    send(app.lane, [journey_record(s, start_ms, behind_ms=500_000) for s in lost])
    whole = trip | {"unseen": 0.0, "frames": 101, "revision": 1}
    eventually(lambda: query(app.lane, told, vin(61)) == [whole], DONE_S, "the trip is restated")
    behind = (
        "SELECT frames, repaired_at IS NULL AS due FROM odograph.late_vehicle_frames WHERE vehicle_id = %s"
    )
    assert query(app.lane, behind, vin(61)) == [{"frames": 10, "due": False}]


def test_metrics_tell_of_each_query(app: App) -> None:
    text = page(app.lane, "metrics")[1]
    for name in ("telemetry", "archive"):
        assert f'odograph_query_lag_records{{query="{name}"}}' in text


def test_a_day_replayed_by_its_clock_beside_the_live_jobs_gives_its_windows_again(
    app: App, dirty: Dirty
) -> None:
    """Sixty times as fast as it was received, a minute of it after the other; live it came all at once."""
    told = "SELECT count(*) AS n, min(window_start) AS since FROM odograph.vehicle_window "
    live = query(app.lane, told + "WHERE vehicle_id = ANY(%s)", FLEET)[0]
    assert live["since"].timestamp() * 1000 == dirty.since_ms
    wanted = [word for vehicle in FLEET for word in ("--vehicle", vehicle)]
    day = ("--day", f"{live['since']:%Y-%m-%d}")
    words = ("--speed", "60", "--run", "same", "--jobs", "stream", "--verify")
    run = app.lane.run("replay", *day, *words, *wanted, timeout_s=DONE_S)
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"vehicle_window     equal      {live['n']} rows" in run.stdout

    changed = "UPDATE odograph.vehicle_window SET distance_m = -1 WHERE vehicle_id = %s AND window_start = %s"
    with psycopg.connect(app.lane.endpoints.db_owner_url) as connection:
        connection.execute(changed, (vin(1), live["since"]))
    found = app.lane.run("replay", "compare", "same")
    assert found.returncode == 1, found.stdout + found.stderr
    first = f"(vehicle_id={vin(1)}, window_start={live['since'].isoformat()}): distance_m is live -1.0, run"
    assert first in found.stdout
    assert app.lane.run("replay", "drop", "same").returncode == 0
