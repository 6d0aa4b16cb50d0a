"""What Spark has ready when it starts: its Java machine, and its Python workers at their first task."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession


def _seen(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    del batches
    frozen, loaded = gc.get_freeze_count(), "stream_jobs.app.telemetry" in sys.modules
    yield pa.RecordBatch.from_pydict({"frozen": [frozen], "loaded": [loaded]})


def test_a_worker_has_the_operator_loaded_and_out_of_the_garbage_collectors_sight(
    spark: SparkSession,
) -> None:
    found = spark.range(1).mapInArrow(_seen, "frozen long, loaded boolean").collect()
    assert [row.loaded for row in found] == [True] * len(found)
    assert all(row.frozen > 50_000 for row in found)


def test_java_takes_its_classes_from_the_archive_of_the_rehearsal(spark: SparkSession) -> None:
    java = spark.sparkContext._gateway.proc
    assert "/spark.jsa" in Path(f"/proc/{java.pid}/maps").read_text()
