"""Files into the archive: a batch's, and a generated day's, which are what the query would have written."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from edge_simulator import day
from edge_simulator.scenario import LinkShares, Scenario, cadence
from infra.contract.errors import ArchiveError
from infra.contract.verdict import ERASED, clock_limits
from infra.settings.settings import Settings
from infra.stack.query_offsets import Stretches
from stream_jobs.archive import reader, writer
from stream_jobs.archive.manifest import hour_name
from stream_jobs.archive.query import exceptions_in, publish
from stream_jobs.archive.verify import verified
from stream_jobs.archive.writer import RECORD, WRITTEN, Written, files_of, hour_files, indexed
from tests.unit.stream_jobs.archive.archive_support import HOUR_MS, TEN, Row, offsets_in, table_of
from tests.unit.stream_jobs.window_support import LIMITS

TOPIC = "odograph.telemetry"


def sent(*tables: pa.Table) -> list[Written]:
    """Files as they come from workers."""
    rows = []
    for table in tables:
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink)
        content = sink.getvalue().to_pybytes()
        hour_ms = table["received_ms"][0].as_py() // HOUR_MS * HOUR_MS
        rows.append({"hour_ms": hour_ms, "sha256": hashlib.sha256(content).hexdigest(), "content": content})
    return files_of(pa.Table.from_pylist(rows, WRITTEN))


def published(home: Path, stem: str, files: list[Written], wanted: Stretches) -> list[pa.Table]:
    return publish(files, home, stem, wanted, {}, "")


def test_a_batch_without_records_publishes_nothing(tmp_path: Path) -> None:
    published(tmp_path, "q-000000000", sent(), {(TOPIC, 0): (7, 7)})
    assert list(tmp_path.iterdir()) == []


def test_files_of_workers_take_their_places_and_hold_just_the_batch(tmp_path: Path) -> None:
    tables = [table_of([(0, 8, 1)], TEN + HOUR_MS), table_of([(0, 7, 1), (1, 3, 2)])]
    published(tmp_path, "q-000000001", sent(*tables), {(TOPIC, 0): (7, 9), (TOPIC, 1): (None, 4)})
    files = [str(file.path) for file in reader.files(tmp_path)]
    assert [Path(file).relative_to(tmp_path).as_posix() for file in files] == [
        "telemetry/date=1970-01-01/hour=10/q-000000001-000.parquet",
        "telemetry/date=1970-01-01/hour=11/q-000000001-001.parquet",
    ]
    assert offsets_in(files) == [(0, 7), (0, 8), (1, 3)]
    assert not (tmp_path / ".staging" / "q-000000001").exists()


def test_a_batch_that_runs_again_in_fewer_or_more_files_is_there_once(tmp_path: Path) -> None:
    rows = [(0, 7, 1), (0, 8, 1), (0, 9, 2)]
    one, two = sent(table_of(rows)), sent(table_of(rows[:1]), table_of(rows[1:]))
    for files in (two, one, two, one):
        published(tmp_path, "q-000000001", files, {(TOPIC, 0): (7, 10)})
        verdict = verified(tmp_path, None, quick=False)
        assert (verdict.whole, verdict.rows, verdict.expired_rows, verdict.unlisted) == (True, 3, 0, [])
    (tmp_path / "telemetry" / hour_name(TEN) / "q-000000001-001.parquet").write_bytes(b"without a line")
    published(tmp_path, "q-000000001", one, {(TOPIC, 0): (7, 10)})
    assert offsets_in([str(file.path) for file in reader.files(tmp_path)]) == [(0, 7), (0, 8), (0, 9)]


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        ((), {(TOPIC, 0): (7, 9)}),  # no file came: what a worker wrote to a disk of its own
        (((0, 7, 1),), {(TOPIC, 0): (7, 9)}),  # the last one is missing
        (((0, 8, 1),), {(TOPIC, 0): (7, 9)}),  # the first one is missing
        (((0, 7, 1), (0, 7, 1), (0, 8, 1)), {(TOPIC, 0): (7, 9)}),  # one is there twice
        (((0, 7, 1), (0, 8, 1), (1, 1, 1)), {(TOPIC, 0): (7, 9)}),  # of another partition
    ],
)
def test_files_that_are_not_just_the_batch_leave_the_archive_as_it_was(
    tmp_path: Path, there: tuple[Row, ...], wanted: dict[tuple[str, int], tuple[int | None, int]]
) -> None:
    with pytest.raises(ArchiveError):
        published(tmp_path, "q-000000001", sent(*([table_of(there)] if there else [])), wanted)
    assert list(reader.files(tmp_path)) == []


def test_what_is_not_ok_and_all_that_was_put_off_is_told_of_a_batch_and_nothing_of_erased_ones(
    tmp_path: Path,
) -> None:
    files = sent(
        *(
            table_of([(0, k, 1)], TEN, verdict)
            for k, verdict in enumerate(("ok", "late", ERASED, "clock_ahead"))
        )
    )
    told = published(tmp_path, "q-000000001", files, {(TOPIC, 0): (0, 4)})
    assert [row["verdict"] for table in told for row in table.to_pylist()] == ["late", "clock_ahead"]
    paths = [file.path for file in reader.files(tmp_path)]
    deferred = [row["verdict"] for table in exceptions_in(paths, TOPIC) for row in table.to_pylist()]
    assert deferred == ["ok", "late", "clock_ahead"]


def test_a_file_that_changed_on_its_way_is_refused(tmp_path: Path) -> None:
    file = replace(sent(table_of([(0, 7, 1)]))[0], sha256="0" * 64)
    with pytest.raises(ArchiveError, match="has other bytes than a worker sent"):
        published(tmp_path, "q", [file], {(TOPIC, 0): (7, 8)})


def test_a_stretch_of_many_hours_is_written_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "READ_AT_ONCE", 1)
    there = []

    def records() -> Iterator[pa.RecordBatch]:
        for partition, hour in product((0, 1), range(6)):
            there.append(len([*tmp_path.rglob("*.parquet")]))
            yield table_of([(partition, hour, 1)], TEN + hour * HOUR_MS).select(RECORD).to_batches()[0]

    writer.write_files(tmp_path, records(), LIMITS)
    assert there == [0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7]
    files = sorted(tmp_path.rglob("*.parquet"))
    assert offsets_in([str(file) for file in files]) == [*product((0, 1), range(6))]
    assert [len([*hour.iterdir()]) for hour in sorted(tmp_path.glob("*/*"))] == [2] * 6


ROUGH = Scenario(
    seed=3, vehicles=12, cadence=cadence(12, None, 10_000), start_ms=1_763_593_200_000, frames_per_vehicle=10,
    longest_step_ms=500, link=LinkShares(late=0.1, late_beyond=0.1, clock_ahead=0.05, clock_unset=0.05),
)  # fmt: skip


@pytest.mark.slow
def test_the_archive_query_judges_a_generated_days_records_as_the_day_does(tmp_path: Path) -> None:
    settings = Settings(paths={"home": str(tmp_path)})  # type: ignore[arg-type]
    folder = Path(day.make(ROUGH, settings, "rough", lambda _: None)["folder"])
    files = sorted((folder / "telemetry").rglob("*.parquet"))
    stored = pa.concat_tables(pq.read_table(f, partitioning=None) for f in files).combine_chunks()
    judged = indexed(stored.select(RECORD).to_batches()[0], clock_limits(settings))
    assert judged.num_rows == stored.num_rows
    assert judged.select(stored.column_names).to_pylist() == stored.to_pylist()
    assert dict(zip(judged.column_names, judged.schema.types, strict=True)) == dict(
        zip(stored.column_names, stored.schema.types, strict=True)
    )
    assert set(judged["verdict"].to_pylist()) == {"ok", "late", "clock_ahead", "clock_unset"}


@pytest.mark.slow
def test_what_workers_send_is_every_record_and_a_large_file_goes_in_parts_and_each_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(paths={"home": str(tmp_path)})  # type: ignore[arg-type]
    folder = Path(day.make(ROUGH, settings, "rough", lambda _: None)["folder"])
    stored = pa.concat_tables(
        pq.read_table(f, partitioning=None) for f in sorted((folder / "telemetry").rglob("*.parquet"))
    )
    records = stored.select(RECORD).combine_chunks().to_batches(max_chunksize=20)
    for name, value in {
        "FILE_BYTES": 4000,
        "READ_AT_ONCE": 20,
        "PIECE_BYTES": 600,
        "RECORDS_AT_ONCE": 4,
    }.items():
        monkeypatch.setattr(writer, name, value)
    sent_rows = list(hour_files(records, clock_limits(settings)))
    assert max(batch.num_rows for batch in sent_rows) == 4
    rows = pa.Table.from_batches(sent_rows)
    assert max(map(len, rows["content"].to_pylist())) == 600
    made = files_of(rows)
    for number, file in enumerate(made):
        file.write(tmp_path / str(number))
    files = [pq.read_table(tmp_path / str(number), partitioning=None) for number in range(len(made))]
    assert len(files) > 2
    assert [hashlib.sha256((tmp_path / str(k)).read_bytes()).hexdigest() for k in range(len(made))] == [
        file.sha256 for file in made
    ]
    order = [("partition", "ascending"), ("log_offset", "ascending")]
    assert pa.concat_tables(files).sort_by(order).equals(stored.sort_by(order))
    exceptions = sum(table.num_rows for table in exceptions_in(tmp_path / str(k) for k in range(len(made))))
    assert exceptions == sum(v != "ok" for v in stored["verdict"].to_pylist()) > 0
