"""What the stream application writes, once and for all: its sinks and their way to a real database."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pyarrow as pa
import pytest

from infra.clients.db import connected
from infra.contract.errors import ConfigError, ServiceError
from infra.contract.signals import BY_NAME
from infra.stack import query_offsets
from infra.stack.query_offsets import Committed
from infra.trace import follow
from load_tests.drills.link import Link
from stream_jobs.app.database import Connection, Database, execute, fetch, insert_rows, stage
from stream_jobs.app.sinks import ROAD, TelemetrySink, tagged, write_rows
from stream_jobs.app.telemetry import BUCKET, NEVER_MS, OUTPUT, ipc_of
from stream_jobs.app.topic_writer import TopicWriter, dead_lettering
from stream_jobs.recovery.checkpoints import Checkpoint
from stream_jobs.recovery.files import LocalFiles
from stream_jobs.recovery.ledger import BatchClaims, enter
from stream_jobs.reprocess import restate as locks
from stream_jobs.reprocess.restate import restate_rows, writer_lock
from stream_jobs.user_sql.queries import Definition, ensure_table
from stream_jobs.windows.open_windows import SILENT_MS
from stream_jobs.windows.places import EDGE_BITS, EDGE_OFFSET, NO_SECTOR, SHARE
from stream_jobs.windows.vehicle import latest_of
from tests.integration.events_support import topic_values
from tests.integration.stream_support import query
from tests.support import Lane, eventually
from tests.support_frames import frame, vin
from tests.unit.stream_jobs.window_support import T0, archived, received, windows_of

pytestmark = [pytest.mark.integration, pytest.mark.tables]

CELL = 0x891F8D7A49BFFFF
STEPS = round(BY_NAME["speed_kmh"].steps_per_unit)


SHARED_BITS = {0: 0b011, 1: 0b100}
"""Sets of the vehicles in two buckets, which have none in common."""


@pytest.fixture
def database(lane: Lane) -> Iterator[Database]:
    opened = dead_lettering(lane.settings, lane.endpoints, "telemetry", threading.Event())
    yield opened
    opened.close()


class Stream:
    """A sink with a checkpoint of its own, and batches as the operator gives them."""

    def __init__(self, lane: Lane, database: Database, query_id: str = "11111111") -> None:
        checkpoint = lane.home / "checkpoints" / query_id
        checkpoint.mkdir(parents=True)
        (checkpoint / "metadata").write_text(f'{{"id": "{query_id}-2222-3333-4444-555555555555"}}')
        kafka = lane.endpoints.kafka_bootstrap, lane.settings.kafka.prefix
        alerts = TopicWriter(*kafka, "alerts", threading.Event())
        self._database = database
        self._sink = TelemetrySink(
            database,
            BatchClaims("telemetry", Checkpoint(LocalFiles(str(lane.home / "checkpoints")), query_id)),
            alerts,
            "frames",
            60,
        )

    def write(self, batch_id: int, *buckets: pa.Table) -> None:
        rows = pa.concat_tables(buckets)
        self._database.run(lambda connection: self._sink.write(connection, rows, batch_id))


def bucket_rows(bucket: int, open_from_ms: int = 0, **tables: pa.Table) -> pa.Table:
    """What the operator says of a bucket: rows of telemetry.OUTPUT."""
    rows = [{"kind": kind, "body": ipc_of(table), "bucket": bucket} for kind, table in tables.items()]
    rows.append({"kind": BUCKET, "bucket": bucket, "open_from_ms": open_from_ms, "copies": 0, "missed": 0})
    kinds = {"string": pa.string(), "binary": pa.binary(), "int": pa.int32(), "long": pa.int64()}
    names = (column.split() for column in OUTPUT.split(", "))
    return pa.Table.from_pylist(rows, pa.schema([(name, kinds[kind]) for name, kind in names]))


def share(bucket: int, vehicles: int, place: int = CELL, sector: int = 0) -> pa.Table:
    """What a bucket adds to the window of a place: its vehicles drive 100 m each, in 10 s."""
    row = {
        "start_ms": T0, "place": place, "heading_sector": sector, "samples": 10 * vehicles,
        "time_ms_sum": 10_000 * vehicles, "speed_over_time_sum": 36 * STEPS * 10_000 * vehicles,
        "vehicles": vehicles, "vehicle_bits": SHARED_BITS[bucket],
    }  # fmt: skip
    return pa.Table.from_pylist([row], SHARE)


def test_a_batch_written_twice_changes_nothing(lane: Lane, database: Database) -> None:
    stream = Stream(lane, database)

    def write(batch_id: int, vehicles: int) -> None:
        stream.write(batch_id, bucket_rows(0, shares=share(0, vehicles)))

    write(7, vehicles=3)
    write(7, vehicles=99)
    write(6, vehicles=99)
    assert [r["vehicles"] for r in query(lane, "SELECT vehicles FROM odograph.road_cell_window")] == [3]
    assert [r["vehicles"] for r in query(lane, "SELECT vehicles FROM odograph.road_share")] == [3]
    write(8, vehicles=4)
    assert [r["vehicles"] for r in query(lane, "SELECT vehicles FROM odograph.road_cell_window")] == [4]


def test_a_window_of_a_place_is_the_sum_of_the_newest_shares_of_all_buckets(
    lane: Lane, database: Database
) -> None:
    stream = Stream(lane, database)
    edge = (5 << EDGE_BITS) + 17 + EDGE_OFFSET
    stream.write(
        1,
        bucket_rows(0, shares=pa.concat_tables([share(0, 2), share(0, 1, edge, NO_SECTOR)])),
        bucket_rows(1, shares=pa.concat_tables([share(1, 3), share(1, 1, sector=2)])),
    )
    sums = "vehicles, vehicle_bits, samples, distance_m, time_s, speed_kmh, window_s, batch_id"
    cells = f"SELECT heading_sector, {sums} FROM odograph.road_cell_window ORDER BY cell, heading_sector"
    of_two = {
        "vehicles": 5, "vehicle_bits": 0b111, "samples": 50, "distance_m": 500.0, "time_s": 50.0,
        "speed_kmh": 36.0, "window_s": 60, "batch_id": 1,
    }  # fmt: skip
    of_one = of_two | {
        "vehicles": 1,
        "vehicle_bits": 0b100,
        "samples": 10,
        "distance_m": 100.0,
        "time_s": 10.0,
    }
    assert query(lane, cells) == [{"heading_sector": 0} | of_two, {"heading_sector": 2} | of_one]
    edges = query(lane, f"SELECT network_no, edge_id, {sums} FROM odograph.road_edge_window")
    assert edges == [{"network_no": 5, "edge_id": 17} | of_one | {"vehicle_bits": 0b011}]
    (place,) = query(lane, "SELECT DISTINCT cell, window_start FROM odograph.road_cell_window")
    assert place == {"cell": f"{CELL:x}", "window_start": datetime(2026, 1, 1, tzinfo=UTC)}

    stream.write(2, bucket_rows(0), bucket_rows(1, shares=share(1, 4)))
    after = of_two | {"vehicles": 6, "samples": 60, "distance_m": 600.0, "time_s": 60.0, "batch_id": 2}
    assert query(lane, cells) == [{"heading_sector": 0} | after, {"heading_sector": 2} | of_one]


def test_shares_go_once_no_bucket_can_change_their_window_and_those_of_another_checkpoint_count_no_more(
    lane: Lane, database: Database
) -> None:
    kept = "SELECT bucket, vehicles FROM odograph.road_share ORDER BY 1"
    closed_ms = T0 + 1 + SILENT_MS
    windows = "SELECT vehicles FROM odograph.road_cell_window"
    first = Stream(lane, database)
    first.write(1, bucket_rows(0, T0, shares=share(0, 2)), bucket_rows(1, T0, shares=share(1, 3)))
    first.write(2, bucket_rows(0, closed_ms))
    assert query(lane, kept) == [{"bucket": 0, "vehicles": 2}, {"bucket": 1, "vehicles": 3}]

    second = Stream(lane, database, "22222222")
    second.write(0, bucket_rows(1, T0, shares=share(1, 4)))
    assert query(lane, kept) == [{"bucket": 1, "vehicles": 4}]
    assert query(lane, windows) == [{"vehicles": 4}]
    second.write(1, bucket_rows(0, T0, shares=share(0, 1)))
    assert query(lane, windows) == [{"vehicles": 5}]
    second.write(2, bucket_rows(0, closed_ms))
    assert len(query(lane, kept)) == 2
    second.write(3, bucket_rows(1, closed_ms - 1))
    assert len(query(lane, kept)) == 2  # a bucket that has no vehicle yet may still take it
    second.write(4, bucket_rows(1, NEVER_MS))
    assert query(lane, kept) == []
    assert query(lane, windows) == [{"vehicles": 5}]


def test_frames_whose_windows_were_closed_are_listed_as_late_and_an_older_state_is_not_the_latest(
    lane: Lane, database: Database
) -> None:
    missed = pa.Table.from_pylist(
        [
            {
                "partition": 1, "log_offset": 5, "vehicle_id": vin(1), "boot_id": 1, "seq": 9, "t0_ms": T0,
                "span_ms": 900, "received_at": datetime(2026, 1, 1, 1, tzinfo=UTC),
            }
        ]
    )  # fmt: skip
    newer, older = (
        latest_of(windows_of(archived([received(frame(1, 0, T0 + at, speed_kmh=kmh))]))[0])
        for at, kmh in ((20_000, 50.0), (0, 30.0))
    )
    stream = Stream(lane, database)
    stream.write(1, bucket_rows(0, latest=newer, missed=missed))
    stream.write(2, bucket_rows(0, latest=older))
    listed = "SELECT topic, partition, log_offset, seq, repaired_at FROM odograph.late_frame"
    where = {"topic": "frames", "partition": 1, "log_offset": 5, "seq": 9}
    assert query(lane, listed) == [where | {"repaired_at": None}]
    assert query(lane, "SELECT speed_kmh FROM odograph.vehicle_latest") == [{"speed_kmh": 50.0}]


@pytest.mark.usefixtures("topics")
def test_rows_that_the_database_refuses_are_dead_letters_and_the_others_of_their_batch_are_written_once(
    lane: Lane, database: Database
) -> None:
    stream = Stream(lane, database)
    too_long = random.Random(1).randbytes(20_000).hex()  # psycopg calls its refusal an OperationalError
    vehicles = [*(f"vehicle-{n}" for n in range(40)), too_long, "a\0b"]
    one, _, _ = windows_of(archived([received(frame(1, 0, T0, speed_kmh=10.0))]))
    batch = one.take([0] * len(vehicles)).set_column(0, "vehicle_id", pa.array(vehicles))
    for _ in range(2):
        stream.write(7, bucket_rows(0, vehicle=batch))
    stored = query(lane, "SELECT count(*) AS n, sum(samples)::integer AS s FROM odograph.vehicle_window")
    assert stored == [{"n": 40, "s": 400}]
    assert query(lane, "SELECT batch_id FROM odograph.batch_ledger") == [{"batch_id": 7}]
    assert {letter["vehicle_id"] for letter in topic_values(lane, "dead-letter")} == {too_long, "a\0b"}


COLUMNS = {
    "a": ("text", pa.string()), "b": ("bigint", pa.int64()), "c": ("double precision", pa.float64()),
    "d": ("boolean", pa.bool_()), "e": ("timestamp with time zone", pa.timestamp("ms", "UTC")),
    "f": ("smallint", pa.int64()), "g": ("integer", pa.int32()), "h": ("real", pa.float64()),
    "i": ("numeric", pa.decimal128(20, 3)), "j": ("date", pa.date32()),
}  # fmt: skip
ROWS = [
    ("", 2**63 - 1, 0.1, True, datetime(2026, 11, 20, 7, 0, 0, 1000, tzinfo=UTC), 2**15 - 1, -(2**31), 1.5,
     Decimal("12345.678"), date(2026, 2, 28)),
    ("ä" * 3000, -(2**63), -1e308, False, datetime(1970, 1, 1, tzinfo=UTC), -(2**15), 2**31 - 1, -0.25,
     Decimal("-0.001"), date(1969, 12, 31)),
    (None,) * 10,
]  # fmt: skip
YEAR_10000_MS = 253_402_300_800_000


@pytest.mark.usefixtures("topics")
def test_a_value_of_every_type_is_stored_as_it_is_and_one_that_does_not_fit_is_a_dead_letter(
    lane: Lane, database: Database
) -> None:
    table, schema = "user_sql.every_type", pa.schema({name: kind for name, (_, kind) in COLUMNS.items()})
    kinds = ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
    database.run(lambda c: execute(c, f"CREATE TABLE {table} ({kinds})"))
    rows = pa.table(
        [pa.array(c, f.type) for c, f in zip(zip(*ROWS, strict=True), schema, strict=True)], schema
    )
    database.run(lambda c: insert_rows(c, table, rows))
    assert database.run(lambda c: fetch(c, f"SELECT * FROM {table} ORDER BY b DESC NULLS LAST")) == ROWS
    too_large = rows.slice(0, 1).set_column(5, "f", pa.array([2**15]))
    odd = too_large.set_column(0, "a", pa.array(["odd"]))
    late = pa.array([YEAR_10000_MS], pa.timestamp("ms", "UTC"))
    odd = odd.set_column(4, "e", late).set_column(9, "j", late.cast(pa.date32()))
    database.run(lambda c: insert_rows(c, table, pa.concat_tables([rows.slice(1), odd])))
    assert database.run(lambda c: fetch(c, f"SELECT count(*) FROM {table}")) == [(5,)]
    assert [(letter["a"], letter["e"][:16]) for letter in topic_values(lane, "dead-letter")] == [
        ("odd", "10000-01-01 00:0")
    ]
    later = odd.set_column(5, "f", pa.array([1]))
    database.run(lambda c: insert_rows(c, table, later))
    stored = f"SELECT e::text, j::text FROM {table} WHERE a = 'odd'"
    assert database.run(lambda c: fetch(c, stored)) == [("10000-01-01 00:00:00+00", "10000-01-01")]


def test_another_key_of_a_users_query_is_refused_by_name_and_the_same_columns_in_another_order_are_not(
    database: Database,
) -> None:
    columns = {"at": "timestamp with time zone", "vehicle_id": "text", "n": "bigint"}

    def ensure(*key: str) -> None:
        definition = Definition(Path("by_vehicle.sql"), "by_vehicle", "frames", key, 60, "")
        database.run(lambda c: ensure_table(c, definition, columns))

    ensure("vehicle_id", "at")
    ensure("at", "vehicle_id")
    told = r"table user_sql\.by_vehicle has the key \(at, vehicle_id\), `-- key:` says \(at\); drop"
    with pytest.raises(ConfigError, match=told):
        ensure("at")


def test_the_stream_leaves_a_restated_window_alone_and_opens_its_late_frames_again(lane: Lane) -> None:
    database = Database(lane.endpoints.db_ingest_url, "repair", threading.Event())
    with psycopg.connect(lane.endpoints.db_owner_url) as connection:
        connection.execute(
            "INSERT INTO odograph.late_frame VALUES "
            "('t', 0, 1, %s, 1, 1, 1767225600000, 900, now(), now()), "
            "('t', 0, 2, %s, 1, 2, 1767225660000, 900, now(), now())",
            [vin(1), vin(1)],
        )
    at = datetime(2026, 1, 1, tzinfo=UTC)

    def restate(connection: Connection, vehicles: int) -> int:
        rows = tagged(road_rows(vehicles), batch_id=-1)
        stage(connection, ROAD.name, rows)
        return restate_rows(connection, ROAD, rows, {"since": at, "until": at})

    restated = [database.run(lambda connection, n=n: restate(connection, n)) for n in (5, 6, 6)]
    assert restated == [1, 1, 0]
    database.run(lambda connection: write_rows(connection, ROAD, road_rows(2), 9))
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
        eventually(lambda: database.problem is not None, 120, "the silence is noticed")
        link.heal()
        worker.join(60)
        assert found
        assert found[0] != before
        database.close()


def road_rows(vehicles: int) -> pa.Table:
    return pa.table(
        {
            "cell": [f"{CELL:x}"],
            "heading_sector": pa.array([0], pa.int16()),
            "window_start": pa.array([datetime(2026, 1, 1, tzinfo=UTC)], pa.timestamp("us", tz="UTC")),
            "window_s": [60],
            "vehicles": [vehicles],
            "vehicle_bits": [1],
            "samples": [10],
            "distance_m": [100.0],
            "time_s": [1.0],
            "speed_kmh": [360.0],
        }
    )


def warned(lane: Lane) -> list[str]:
    """PostgreSQL's warnings while two want one lock, and while its session is lost."""
    url, stop, warnings = lane.endpoints.db_ingest_url, threading.Event(), list[str]()
    first, second = (Database(url, name, stop) for name in ("telemetry", "recompute"))

    def listen(connection: Connection) -> int:
        connection.add_notice_handler(lambda notice: warnings.append(notice.message_primary or ""))
        return connection.info.backend_pid

    pid, _ = (database.run(listen) for database in (first, second))
    for _ in range(2):
        with writer_lock(first) as ours, writer_lock(second) as theirs:
            assert (ours, theirs) == (True, False)
    with writer_lock(first):
        with psycopg.connect(url) as other:
            other.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])
        first.run(listen)
    with writer_lock(second) as theirs:
        assert theirs
    for database in (first, second):
        database.close()
    return warnings


def test_only_a_lock_that_was_taken_is_released(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    assert warned(lane) == []
    monkeypatch.setitem(locks.SQL, "release", "SELECT pg_advisory_unlock(7020)")
    assert warned(lane) == ["you don't own a lock of type ExclusiveLock"]


def test_an_answer_of_any_size_is_read_at_once(lane: Lane) -> None:
    stop = threading.Event()
    given_up = threading.Timer(60, stop.set)
    given_up.start()
    statement = "SELECT repeat('x', %s), n FROM generate_series(1, 2) n"
    for size in (24_000, 32_500, 57_600, 300_000):
        database = Database(lane.endpoints.db_ingest_url, "large", stop)
        rows = database.run(lambda connection, size=size: fetch(connection, statement, (size,)))
        assert [len(text) for text, _ in rows] == [size, size]
        assert database.problem is None
        database.close()
    given_up.cancel()


def test_the_ledger_says_where_a_query_is_and_lets_no_batch_in_that_begins_elsewhere(
    lane: Lane, database: Database
) -> None:
    stream = Stream(lane, database)
    checkpoint = Checkpoint(LocalFiles(str(lane.home / "checkpoints")), "11111111")
    for batch_id, end in ((7, 5), (8, 9), (9, 12)):
        checkpoint.write(f"offsets/{batch_id}", f'v1\n{{}}\n{{"t":{{"0":{end}}}}}')

    def ask(work: Callable[[Any], Any]) -> Any:
        with connected(lane.endpoints.db_ingest_url) as connection:
            return work(connection)

    assert ask(lambda c: query_offsets.committed(c, "telemetry")) is None
    stream.write(7, bucket_rows(0, shares=share(0, 1)))
    with pytest.raises(ServiceError, match="one of them is older"):
        stream.write(9, bucket_rows(0, shares=share(0, 2)))
    stream.write(8, bucket_rows(0, shares=share(0, 3)))
    newest = Committed("telemetry", 8, {"t": {0: 9}})
    assert ask(lambda c: query_offsets.committed(c, "telemetry")) == newest
    database.run(lambda c: enter(c, "telemetry", "22222222-2222-3333-4444-555555555555"))
    assert ask(lambda c: query_offsets.committed(c, "telemetry")) is None
    assert ask(lambda c: query_offsets.committed_ends(c, "t")) == {"telemetry": {}}
    assert [r["vehicles"] for r in query(lane, "SELECT vehicles FROM odograph.road_share")] == [3]


def test_a_record_is_in_the_first_batch_that_ends_behind_it(lane: Lane) -> None:
    def taken(topic: str, offset: int) -> tuple[int, bool] | None:
        with connected(lane.endpoints.db_owner_url) as connection:
            values = (topic, "1", "telemetry", offset)
            found = connection.execute(follow.SQL["taken"].encode(), values).fetchone()
        return None if found is None else (found[0], found[2])

    def note(query_id: str, batch_id: int, end: int, seconds: int) -> None:
        with connected(lane.endpoints.db_owner_url) as connection:
            connection.execute(
                "INSERT INTO odograph.batch_ledger (query_id, batch_id, query, rows, ends, committed_at)"
                " VALUES (%s, %s, 'telemetry', 1, %s, now() + %s * INTERVAL '1 s')",
                (query_id, batch_id, f'{{"t": {{"0": 999, "1": {end}}}}}', seconds),
            )

    first, second = (f"{digit * 8}-2222-3333-4444-555555555555" for digit in "12")
    assert taken("t", 0) is None
    note(first, 8, 100, seconds=1)
    note(first, 9, 200, seconds=2)
    assert taken("t", 150) == (9, True)
    assert taken("t", 100) == (9, True)
    assert taken("t", 200) is None
    assert taken("t", 50) == (8, False), "an older batch that was forgotten may have had it"
    assert taken("other", 50) is None
    note(second, 0, 60, seconds=3)
    assert taken("t", 50) == (0, True), "before its first batch there was none"
    assert taken("t", 150) is None, "the query has begun anew"
