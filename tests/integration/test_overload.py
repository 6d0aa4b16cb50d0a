"""Overload on real services: it begins and ends once, is told, and the bridge acts on it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from infra.clients.kafka import LogEnds
from infra.contract.messages import FLEET, Deferral
from infra.contract.verdict import clock_limits
from infra.settings.sections import Overload as Terms
from load_tests.mqtt_flood import vehicle_id
from stream_jobs.app.database import Database
from stream_jobs.app.topic_writer import TopicWriter, dead_lettering
from stream_jobs.archive.query import ArchiveSink, exceptions_in
from stream_jobs.archive.writer import write_files
from stream_jobs.audit.collect import current_ledger
from stream_jobs.maintenance.overload import Overload, unless_overloaded
from stream_jobs.recovery.checkpoints import Checkpoint
from stream_jobs.recovery.files import LocalFiles
from stream_jobs.recovery.ledger import BatchClaims
from tests.integration.bridge_support import T0_MS, bridge, count, frames, publish, read, topic_of
from tests.integration.stream_support import query
from tests.integration.test_bridge_status import birth
from tests.support import Lane, eventually

pytestmark = pytest.mark.integration
TERMS = Terms(classes="car", lag_records=1000, grow_s=10, calm_records=50, least_s=0, show_every_s=3600)
VAN = 1


@pytest.fixture
def database(lane: Lane) -> Iterator[Database]:
    opened = dead_lettering(lane.settings, lane.endpoints, "overload", threading.Event())
    yield opened
    opened.close()


def task(lane: Lane, database: Database) -> Overload:
    kafka = lane.endpoints.kafka_bootstrap, lane.settings.kafka.prefix
    policy, alerts = (TopicWriter(*kafka, name, threading.Event()) for name in ("policy", "alerts"))
    return Overload(TERMS, database, policy.write, alerts.write)


def progress(lane: Lane, *waiting: int) -> None:
    """Batches of the query telemetry, one every 4 s up to now."""
    query(lane, "DELETE FROM odograph.query_progress RETURNING 1")
    for at, records in enumerate(reversed(waiting)):
        query(
            lane,
            "INSERT INTO odograph.query_progress (query, at, query_id, batch_id, input_rows, lag_records) "
            f"VALUES ('telemetry', now() - INTERVAL '{4 * at} s', "
            f"'00000000-0000-4000-8000-000000000000', {at}, 1, {records}) RETURNING 1",
        )


def test_it_begins_and_ends_once_whoever_looks_and_each_is_told(lane: Lane, database: Database) -> None:
    first, second = task(lane, database), task(lane, database)
    repairs: list[int] = []
    repair = unless_overloaded(database, lambda: repairs.append(1) or 1)  # type: ignore[func-returns-value]
    assert (first(), repair()) == (False, 1)
    progress(lane, 200, 500, 900, 1300, 1700)
    assert [first(), first(), second()] == [True, True, True]
    assert (repair(), len(repairs)) == (0, 1), "what can wait waits"
    progress(lane, 400, 40)
    assert [first(), second(), first()] == [False, False, False]
    assert repair() == 1
    rows = query(lane, "SELECT classes, lag_records, ended_at > began_at AS over FROM odograph.overload")
    assert rows == [{"classes": "car", "lag_records": 1700, "over": True}]
    words = [Deferral.decode(record.value).classes for record in read(lane, "policy")]
    assert (words[0], words[1], words[-1]) == ((), ("car",), ())
    alerts = {record.value for record in read(lane, "alerts")}
    assert {record.key for record in read(lane, "alerts")} == {FLEET.encode()}
    assert len(alerts) == 2, "told again by the second one, in the same words"


def test_the_bridge_puts_off_frames_of_a_class_while_it_is_told_to(lane: Lane, database: Database) -> None:
    def stored() -> tuple[int, int]:
        return count(lane, "telemetry"), count(lane, "telemetry-deferred")

    with bridge(lane):
        van = topic_of(lane, VAN, "status"), birth(VAN, lane)[1].replace(b"car", b"van")
        publish(lane, [birth(0, lane), van])
        publish(lane, frames(lane, 2, 5))
        eventually(lambda: stored() == (10, 0), 60, "all of it in telemetry")
        progress(lane, 200, 500, 900, 1300, 1700)
        ours = task(lane, database)
        assert ours()
        published = 5

        def put_off() -> bool:
            nonlocal published
            publish(lane, frames(lane, 2, 1, first_seq=published))
            published += 1
            return stored()[1] >= 3

        eventually(put_off, 60, "frames of the car are put off")
        progress(lane, 40)
        assert not ours()

        def flows() -> bool:
            nonlocal published
            before = stored()[1]
            publish(lane, frames(lane, 2, 3, first_seq=published))
            published += 3
            eventually(lambda: sum(stored()) == 2 * published, 30, "all is stored")
            return stored()[1] == before

        eventually(flows, 60, "nothing is put off any more")
    assert {record.key for record in read(lane, "telemetry-deferred")} == {vehicle_id(0).encode()}
    assert len([r for r in read(lane, "telemetry") if r.key == vehicle_id(VAN).encode()]) == published
    assert read(lane, "dead-letter") == []


def records(lane: Lane, name: str, sequences: range, late: int | None = None) -> pa.RecordBatch:
    """Records of vehicle 0, received 2 s after their begin, that with the number ``late`` 42 s."""
    topic = f"{lane.settings.kafka.prefix}{name}"
    raws = [raw for _, raw in frames(lane, 1, len(sequences), first_seq=sequences.start)]
    received = [T0_MS + 1000 * seq + (42_000 if seq == late else 2000) for seq in sequences]
    columns: dict[str, Any] = {
        "topic": [topic] * len(raws), "partition": pa.array([0] * len(raws), pa.int32()),
        "log_offset": list(range(len(raws))), "key": [vehicle_id(0).encode()] * len(raws),
        "received_ms": received, "value": raws,
    }  # fmt: skip
    return pa.RecordBatch.from_pydict(columns)


def test_what_was_put_off_is_listed_as_such_and_the_ledger_balances_until_it_is_in_its_windows(
    lane: Lane, database: Database, tmp_path: Path
) -> None:
    deferred = f"{lane.settings.kafka.prefix}telemetry-deferred"
    batches = [records(lane, "telemetry", range(3)), records(lane, "telemetry-deferred", range(3, 8), late=7)]
    write_files(tmp_path, batches, clock_limits(lane.settings))
    (found,) = exceptions_in(tmp_path.rglob("*.parquet"), deferred)
    assert found["topic"].to_pylist() == [deferred] * 5
    checkpoint = lane.home / "checkpoints" / "archive"
    checkpoint.mkdir(parents=True)
    (checkpoint / "metadata").write_text('{"id": "11111111-2222-3333-4444-555555555555"}')
    claims = BatchClaims("archive", Checkpoint(LocalFiles(str(checkpoint.parent)), "archive"))
    sink = ArchiveSink(database, claims, lane.settings)
    for _ in range(2):
        database.run(lambda connection: sink.write(connection, [found], 1))
    listed = "SELECT seq, deferred, repaired_at IS NULL AS open FROM odograph.late_frame ORDER BY seq"
    assert query(lane, listed) == [{"seq": seq, "deferred": seq < 7, "open": True} for seq in range(3, 8)]
    vehicles = query(lane, "SELECT vehicle_id, frames FROM odograph.late_vehicle_frames")
    assert vehicles == [{"vehicle_id": vehicle_id(0), "frames": 5}]
    with LogEnds(lane.endpoints.kafka_bootstrap, lane.settings.kafka.prefix) as ends:
        ledger = current_ledger(lane.home, lane.endpoints, ends)
        query(lane, "UPDATE odograph.late_frame SET repaired_at = now() RETURNING 1")
        after = current_ledger(lane.home, lane.endpoints, ends)
    assert (ledger.late, ledger.late_open, ledger.deferred, ledger.deferred_open) == (1, 1, 4, 4)
    assert (after.deferred, after.deferred_open) == (4, 0)
