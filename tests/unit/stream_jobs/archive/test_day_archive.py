"""A generated day is what the archive query would have written of the same records."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from edge_simulator import day
from edge_simulator.scenario import LinkShares, Scenario, cadence
from infra.contract.verdict import clock_limits
from infra.settings.settings import Settings
from stream_jobs.archive.writer import RECORD, indexed

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
