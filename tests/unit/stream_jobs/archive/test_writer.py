"""Files into the archive: a batch's, and a generated day's, which are what the query would have written."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from edge_simulator import day
from edge_simulator.scenario import LinkShares, Scenario, cadence
from infra.contract.verdict import clock_limits
from infra.settings.settings import Settings
from stream_jobs.archive import reader
from stream_jobs.archive.query import publish
from stream_jobs.archive.writer import RECORD, indexed
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


ROUGH = Scenario(
    seed=3, vehicles=12, cadence=cadence(12, None, 10_000), start_ms=1_763_593_200_000, frames_per_vehicle=10,
    longest_step_ms=500, link=LinkShares(late=0.1, late_beyond=0.1, clock_ahead=0.05, clock_unset=0.05),
)  # fmt: skip


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
