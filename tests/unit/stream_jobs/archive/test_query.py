"""Moving a batch's files into the archive."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from stream_jobs.archive import reader
from stream_jobs.archive.query import publish
from tests.unit.stream_jobs.archive.archive_support import offsets_in, table_of


def test_a_batch_without_records_has_written_nothing_and_publishes_nothing(tmp_path: Path) -> None:
    publish(tmp_path / ".staging" / "q-000000000", tmp_path / "telemetry", "q-000000000")
    assert list(tmp_path.iterdir()) == []


def test_staged_files_take_their_places_and_the_staging_folder_goes(tmp_path: Path) -> None:
    staging = tmp_path / ".staging" / "q-000000001"
    hour = staging / "date=2026-01-01" / "hour=05"
    hour.mkdir(parents=True)
    pq.write_table(table_of([(0, 7, 1)]), hour / "part-0.parquet")
    publish(staging, tmp_path / "telemetry", "q-000000001")
    target = tmp_path / "telemetry" / "date=2026-01-01" / "hour=05" / "q-000000001-000.parquet"
    assert (offsets_in([str(target)]), staging.exists()) == ([(0, 7)], False)
    assert [file.path for file in reader.files(tmp_path)] == [target]
