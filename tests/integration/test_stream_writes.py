"""What the stream application writes, once and for all: its sinks and their way to a real database."""

from __future__ import annotations

import random
import threading
from datetime import UTC, datetime
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pyarrow as pa
import pytest

from load_tests.drills.link import Link
from stream_jobs.database import Connection, Database, fetch
from stream_jobs.recompute import turn as turns
from stream_jobs.recompute.turn import WINDOWS, turn
from stream_jobs.sinks import ROAD, BatchClaims, WindowSink, restate_windows, write_windows
from stream_jobs.topic_writer import dead_lettering
from tests.integration.events_support import topic_values
from tests.integration.stream_support import query
from tests.support import Lane, eventually
from tests.support_frames import vin

pytestmark = pytest.mark.integration


def test_a_batch_written_twice_changes_nothing(lane: Lane) -> None:
    checkpoint = lane.home / "checkpoints" / "windows"
    checkpoint.mkdir(parents=True)
    (checkpoint / "metadata").write_text('{"id": "11111111-2222-3333-4444-555555555555"}')
    database = Database(lane.endpoints.db_ingest_url, "windows", threading.Event())
    sink = WindowSink(database, BatchClaims("windows", checkpoint))

    def write(batch_id: int, vehicles: int) -> None:
        rows = road_rows(vehicles, batch_id)
        database.run(lambda connection: sink.write(connection, {ROAD: rows}, batch_id))

    write(7, vehicles=3)
    write(7, vehicles=99)
    write(6, vehicles=99)
    assert [r["vehicles"] for r in query(lane, "SELECT vehicles FROM odograph.road_cell_window")] == [3]
    write(8, vehicles=4)
    assert [r["vehicles"] for r in query(lane, "SELECT vehicles FROM odograph.road_cell_window")] == [4]
    database.close()


def test_rows_that_the_database_refuses_are_dead_letters_and_the_others_of_their_batch_are_written_once(
    lane: Lane,
) -> None:
    checkpoint = lane.home / "checkpoints" / "windows"
    checkpoint.mkdir(parents=True)
    (checkpoint / "metadata").write_text('{"id": "11111111-2222-3333-4444-555555555555"}')
    database = dead_lettering(lane.settings, lane.endpoints, "windows", threading.Event())
    sink = WindowSink(database, BatchClaims("windows", checkpoint))
    too_long = random.Random(1).randbytes(20_000).hex()  # psycopg calls its refusal an OperationalError
    cells = [*(f"cell-{n}" for n in range(40)), too_long, "a\0b"]
    batch = pa.concat_tables([road_rows(3, 7, cell) for cell in cells])
    for _ in range(2):
        database.run(lambda connection: sink.write(connection, {ROAD: batch}, 7))
    stored = query(lane, "SELECT count(*) AS n, sum(vehicles)::integer AS v FROM odograph.road_cell_window")
    assert stored == [{"n": 40, "v": 120}]
    assert query(lane, "SELECT batch_id FROM odograph.batch_ledger") == [{"batch_id": 7}]
    assert {letter["cell"] for letter in topic_values(lane, "dead-letter", 1)} == {too_long, "a\0b"}
    database.close()


def test_the_stream_leaves_a_restated_window_alone_and_opens_its_late_frames_again(lane: Lane) -> None:
    database = Database(lane.endpoints.db_ingest_url, "repair", threading.Event())
    with psycopg.connect(lane.endpoints.db_owner_url) as connection:
        connection.execute(
            "INSERT INTO odograph.late_frame VALUES "
            "('t', 0, 1, %s, 1, 1, 1767225600000, 900, now(), now()), "
            "('t', 0, 2, %s, 1, 2, 1767225660000, 900, now(), now())",
            [vin(1), vin(1)],
        )
    database.run(lambda connection: restate_windows(connection, ROAD, road_rows(5, -1)))
    database.run(lambda connection: restate_windows(connection, ROAD, road_rows(6, -1)))
    database.run(lambda connection: write_windows(connection, ROAD, road_rows(2, 9)))
    assert query(lane, "SELECT vehicles, revision FROM odograph.road_cell_window") == [
        {"vehicles": 6, "revision": 2}
    ]
    open_offsets = query(lane, "SELECT log_offset FROM odograph.late_frame WHERE repaired_at IS NULL")
    assert open_offsets == [{"log_offset": 1}]
    database.close()


def test_a_standing_link_that_falls_silent_is_cut_and_the_work_done_again(lane: Lane) -> None:
    url = urlsplit(lane.endpoints.db_ingest_url)
    assert url.hostname is not None
    assert url.port is not None
    with Link(url.hostname, url.port) as link:
        through = urlunsplit(url._replace(netloc=url.netloc.replace(f":{url.port}", f":{link.port}")))
        database = Database(through, "silent", threading.Event(), attempt_s=1.0)

        def backend(connection: Connection) -> int:
            return int(fetch(connection, "SELECT pg_backend_pid()")[0][0])

        before = database.run(backend)
        link.stall()
        found: list[int] = []
        worker = threading.Thread(target=lambda: found.append(database.run(backend)))
        worker.start()
        eventually(lambda: database.problem() is not None, 120, "the silence is noticed")
        link.heal()
        worker.join(60)
        assert found
        assert found[0] != before
        database.close()


def road_rows(vehicles: int, batch_id: int, cell: str = "891f8d7a49bffff") -> pa.Table:
    return pa.table(
        {
            "cell": [cell],
            "heading_sector": pa.array([0], pa.int16()),
            "window_start": pa.array([datetime(2026, 1, 1, tzinfo=UTC)], pa.timestamp("us", tz="UTC")),
            "window_s": [60],
            "vehicles": [vehicles],
            "vehicle_bits": [1],
            "samples": [10],
            "distance_m": [100.0],
            "time_s": [1.0],
            "speed_kmh": [360.0],
            "batch_id": [batch_id],
        }
    )


def warned(lane: Lane) -> list[str]:
    """PostgreSQL's warnings while two want one turn, and while its session is lost."""
    url, stop, warnings = lane.endpoints.db_ingest_url, threading.Event(), list[str]()
    first, second = (Database(url, name, stop) for name in ("windows", "recompute"))

    def listen(connection: Connection) -> int:
        connection.add_notice_handler(lambda notice: warnings.append(notice.message_primary or ""))
        return connection.info.backend_pid

    pid, _ = (database.run(listen) for database in (first, second))
    for _ in range(2):
        with turn(first, WINDOWS) as ours, turn(second, WINDOWS) as theirs:
            assert (ours, theirs) == (True, False)
    with turn(first, WINDOWS):
        with psycopg.connect(url) as other:
            other.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])
        first.run(listen)
    with turn(second, WINDOWS) as theirs:
        assert theirs
    for database in (first, second):
        database.close()
    return warnings


def test_only_a_turn_that_was_taken_is_given_back(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    assert warned(lane) == []
    monkeypatch.setattr(turns, "_GIVE", "SELECT pg_advisory_unlock(%(key)s)")
    assert warned(lane) == ["you don't own a lock of type ExclusiveLock"]


@pytest.mark.parametrize("size", [24_000, 32_500, 57_600, 300_000])
def test_an_answer_of_any_size_is_read_at_once(lane: Lane, size: int) -> None:
    stop = threading.Event()
    given_up = threading.Timer(60, stop.set)
    given_up.start()
    database = Database(lane.endpoints.db_ingest_url, "large", stop)
    statement = "SELECT repeat('x', %s), n FROM generate_series(1, 2) n"
    try:
        rows = database.run(lambda connection: fetch(connection, statement, (size,)))
    finally:
        given_up.cancel()
        database.close()
    assert [len(text) for text, _ in rows] == [size, size]
    assert database.problem() is None
