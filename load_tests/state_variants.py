"""What a memory of each vehicle costs in Spark, by how it is kept: CPU seconds per 100,000 frames.

The same records (from Parquet files) go through: native session windows by vehicle;
the operator of the query telemetry by transformWithState, a state a bucket of vehicles or a vehicle; and the
same by applyInPandasWithState, all of it in one value. No Kafka, no database, no rules.
Run: python -m load_tests.state_variants [--vehicles 1000] [--batches 6] [--variants session,bucket]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, GroupedData, SparkSession
from pyspark.sql import functions as F  # noqa: N812  Spark's own convention
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from infra.settings.settings import load
from infra.stack.processes import cpu_s
from load_tests.filling import bodies, payload, vehicle
from stream_jobs.app.jobs import STREAM_CONF
from stream_jobs.app.processor import HEAD, Processor
from stream_jobs.app.session import build_session
from stream_jobs.app.telemetry import (
    OUTPUT,
    BucketState,
    Operator,
    raw_of,
    text_of,
    with_timer,
)
from stream_jobs.frames.batch import RECORD
from stream_jobs.rules.rule_set import RuleSet
from stream_jobs.vehicles.fleet import Fleet, dump
from stream_jobs.vehicles.fleet import load as read_memory
from stream_jobs.windows.open_windows import Memory

T0: Final = 1_780_000_000_000
FRAMES_EACH: Final = 10
WATERMARK: Final = "5 seconds"


def fill(folder: Path, vehicles: int, batches: int) -> None:
    """A file a batch: FRAMES_EACH frames of each vehicle."""
    for batch in range(batches):
        seconds = range(batch * FRAMES_EACH, (batch + 1) * FRAMES_EACH)
        said = {second: bodies(scattered=False, second=second) for second in seconds}
        values = [
            payload(v, s, T0 + s * 1000, said[s][v % len(said[s])]) for s in seconds for v in range(vehicles)
        ]
        received = [T0 + s * 1000 + 1500 for s in seconds for _ in range(vehicles)]
        records = {
            "key": pa.array([vehicle(v).encode() for _ in seconds for v in range(vehicles)]),
            "partition": pa.array([0] * len(values), pa.int32()),
            "log_offset": pa.array(range(batch * len(values), (batch + 1) * len(values)), pa.int64()),
            "received_ms": pa.array(received, pa.int64()),
            "value": pa.array(values, pa.binary()),
        }
        pq.write_table(pa.table(records), folder / f"{batch:05d}.parquet")


def operator() -> Operator:
    """What makes rows of the records, without rules."""
    settings, nothing = load(), RuleSet()
    return Operator(settings, nothing)


class InOneValue(BucketState):
    """A bucket's memory in the one value of applyInPandasWithState; there are no timers."""

    def __init__(self, state: GroupState) -> None:
        self._state = state

    def load(self, rule_set: RuleSet) -> tuple[Fleet, Memory]:
        return read_memory(raw_of(self._state.get[0]) if self._state.exists else None, rule_set)

    def save(self, fleet: Fleet, memory: Memory, due_ms: int) -> None:  # noqa: ARG002  see BucketState
        self._state.update((text_of(dump(fleet, memory)),))

    def remove(self) -> None:
        self._state.remove()


def session(rows: DataFrame) -> DataFrame:
    """Frames by vehicle and session, not parsed: the floor of a state a vehicle."""
    timed = rows.withColumn("received", F.timestamp_millis("received_ms")).withWatermark(
        "received", "5 seconds"
    )
    return timed.groupBy(F.session_window("received", "180 seconds"), "key").agg(F.count("*").alias("frames"))


def keyed(rows: DataFrame, buckets: int | None) -> GroupedData:
    """Records by bucket, or by vehicle."""
    by = F.hash("key") if buckets is None else F.pmod(F.xxhash64("key"), F.lit(buckets)).cast("int")
    received = F.timestamp_millis("received_ms").alias("received")
    return with_timer(rows.select("key", *RECORD, received), 5, by.alias("bucket"), "key", *RECORD)


def values(rows: DataFrame, buckets: int | None) -> DataFrame:
    """transformWithState: a value for each block of windows."""
    return keyed(rows, buckets).transformWithStateInPandas(
        Processor(operator(), BucketState), OUTPUT, "append", "EventTime"
    )


def one_value(rows: DataFrame, buckets: int | None) -> DataFrame:
    """applyInPandasWithState: all in one value."""
    work = operator()

    def call(key: tuple[int], records: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        return work(key[0], records, InOneValue(state), 0)

    return keyed(rows, buckets).applyInPandasWithState(
        call, OUTPUT, HEAD, "append", GroupStateTimeout.EventTimeTimeout
    )


VARIANTS: Final = {
    "session": (session, "append"),
    "vehicle": (lambda rows: values(rows, None), "append"),
    "bucket": (lambda rows: values(rows, 2), "append"),
    "one-value-vehicle": (lambda rows: one_value(rows, None), "append"),
    "one-value-bucket": (lambda rows: one_value(rows, 2), "append"),
}


def run(spark: SparkSession, folder: Path, name: str, batches: int) -> list[float]:
    """CPU seconds from the end of one batch to that of the next."""
    transform, mode = VARIANTS[name]
    schema = spark.read.parquet(str(folder)).schema
    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
    ends: list[float] = []

    def sink(batch: DataFrame, _number: int) -> None:
        batch.toArrow()
        ends.append(cpu_s(os.getpid()))

    checkpoint = tempfile.mkdtemp()
    query = transform(rows).writeStream.outputMode(mode).foreachBatch(sink)
    running = query.option("checkpointLocation", checkpoint).start()
    deadline = time.monotonic() + 300
    while len(ends) < batches and running.isActive and time.monotonic() < deadline:
        time.sleep(0.2)
    running.stop()
    shutil.rmtree(checkpoint)
    return [round(b - a, 2) for a, b in pairwise(ends)]


def main() -> None:
    """Fill, run, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vehicles", type=int, default=1000)
    parser.add_argument("--batches", type=int, default=6)
    parser.add_argument("--variants", default=",".join(VARIANTS))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = load(paths={"home": folder / "home"})
        data = folder / "in"
        data.mkdir()
        fill(data, arguments.vehicles, arguments.batches)
        spark = build_session(settings, "state-variants", 1024, "local[2]", STREAM_CONF)
        frames = arguments.vehicles * FRAMES_EACH
        for variant in arguments.variants.split(","):
            spent = run(spark, data, variant, arguments.batches)
            each = sorted(spent[1:])[len(spent[1:]) // 2] if len(spent) > 1 else None
            per = None if each is None else round(each / frames * 100_000, 2)
            line = {"variant": variant, "cpu_s_per_batch": spent, "cpu_s_per_100k_frames": per}
            print(json.dumps(line), flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
