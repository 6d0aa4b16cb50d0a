"""A generated day is what the archive query would have written of the same records."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from edge_simulator import day
from edge_simulator.scenario import LinkShares, Scenario, cadence
from infra.contract.settings import Settings
from infra.contract.verdict import clock_limits
from stream_jobs.archive import archived_columns

ROUGH = Scenario(
    seed=3, vehicles=12, cadence=cadence(12, None, 10_000), start_ms=1_763_593_200_000, frames_per_vehicle=10,
    longest_step_ms=500, link=LinkShares(late=0.1, late_beyond=0.1, clock_ahead=0.05, clock_unset=0.05),
)  # fmt: skip


def test_the_archive_query_judges_a_generated_days_records_as_the_day_does(
    spark: SparkSession, tmp_path: Path
) -> None:
    settings = Settings(paths={"home": str(tmp_path)})  # type: ignore[arg-type]
    folder = Path(day.make(ROUGH, settings, "rough", lambda _: None)["folder"])
    files = sorted((folder / "telemetry").rglob("*.parquet"))
    stored = spark.createDataFrame(pa.concat_tables(pq.read_table(f, partitioning=None) for f in files))
    records = stored.select("topic", "partition", "log_offset", "key", "received_ms", "value")
    judged = archived_columns(records, clock_limits(settings)).drop("date", "hour")
    as_made = stored
    assert {f.name: f.dataType for f in judged.schema} == {f.name: f.dataType for f in as_made.schema}
    order = ["partition", "log_offset"]
    wanted = [row.asDict() for row in judged.select(as_made.columns).orderBy(*order).collect()]
    assert [row.asDict() for row in as_made.orderBy(*order).collect()] == wanted
    assert {row["verdict"] for row in wanted} == {"ok", "late", "clock_ahead", "clock_unset"}
