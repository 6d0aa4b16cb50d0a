"""What Spark has ready when it starts: its Java machine, and its Python workers at their first task."""

from __future__ import annotations

import gc
import resource
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from infra.contract.errors import ServiceError
from infra.settings.settings import load
from stream_jobs.app.queries import rehearsed
from stream_jobs.app.session import MemoryReturn


def _seen(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    del batches
    frozen, loaded = gc.get_freeze_count(), "stream_jobs.app.telemetry" in sys.modules
    returns = "MemoryReturn" in [type(callback).__name__ for callback in gc.callbacks]
    found = {"frozen": frozen, "loaded": loaded, "returns": returns, "pyspark": pyspark.__file__}
    yield pa.RecordBatch.from_pylist([found])


def test_a_worker_has_the_operator_loaded_and_out_of_the_garbage_collectors_sight(
    spark: SparkSession,
) -> None:
    kinds = "frozen long, loaded boolean, returns boolean, pyspark string"
    found = spark.range(1).mapInArrow(_seen, kinds).collect()
    assert all(row.loaded and row.returns for row in found)
    assert all(row.frozen > 50_000 for row in found)
    assert {row.pyspark for row in found} == {pyspark.__file__}, "not of Spark's zip, which is compiled anew"


def test_a_rehearsal_whose_query_has_ended_says_so(spark: SparkSession, tmp_path: Path) -> None:
    def start(folder: str) -> StreamingQuery:
        stream = spark.readStream.format("rate").load().writeStream.foreachBatch(broken)
        return stream.option("checkpointLocation", folder).start()

    def broken(_batch: DataFrame, _number: int) -> None:
        raise ValueError("broken")

    steps = rehearsed(spark, load(paths={"home": str(tmp_path)}), [start])
    with pytest.raises(ServiceError, match="broken"):
        all(time.sleep(0.05) is None for _ in steps)
    assert not [*tmp_path.glob("checkpoints.scratch/*")]


def test_a_rehearsal_begins_again_with_what_it_left_and_is_over_where_nothing_is_to_be_done(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "first").write_text("a line\n")
    places, batches = list[str](), list[int]()

    def start(folder: str) -> StreamingQuery:
        places.append(folder)
        lines = spark.readStream.format("text").load(str(tmp_path / "in"))
        stream = lines.writeStream.foreachBatch(lambda _batch, number: batches.append(number))
        return stream.option("checkpointLocation", f"{folder}/lines").start()

    for _ in rehearsed(spark, load(paths={"home": str(tmp_path)}), [start], times=2):
        time.sleep(0.05)
    assert places[0] == places[1]
    assert batches == [0]


def test_what_was_freed_below_what_is_still_used_goes_back_to_the_system() -> None:
    return_memory = MemoryReturn()
    blocks = [bytes(1000) for _ in range(60_000)]
    highest = blocks[-1]
    blocks.clear()
    held = resident_mib()
    return_memory("stop", {"generation": 1})
    return_memory("start", {"generation": 2})
    assert resident_mib() > held - 10
    return_memory("stop", {"generation": 2})
    assert resident_mib() < held - 40
    assert len(highest) == 1000


def resident_mib() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() >> 20


def test_java_takes_its_classes_from_the_archive_of_the_rehearsal(spark: SparkSession) -> None:
    java = spark.sparkContext._gateway.proc
    assert "/spark.jsa" in Path(f"/proc/{java.pid}/maps").read_text()
