"""The state of the query telemetry in more buckets: each is split, by vehicle, into as many as it takes.

A vehicle's bucket is a hash of its id modulo their number, so of a multiple of the number the vehicles of a
new bucket come from one old one, and no two memories have to be joined. Spark's own writer makes the new
checkpoint: a query with an operator of the same state takes the pieces in by its one batch. The offsets and
the watermark of the old one are then put in the place of that batch's, and the query goes on behind them.
"""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import msgspec
import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  Spark's own convention

from infra.contract.errors import ConfigError
from infra.settings.settings import Settings
from stream_jobs.app import telemetry
from stream_jobs.app.database import Database
from stream_jobs.app.processor import Processor
from stream_jobs.recovery.checkpoints import MARK, Checkpoint, put_aside, require_stopped
from stream_jobs.recovery.files import Files
from stream_jobs.recovery.ledger import enter
from stream_jobs.rules.rule_set import RuleSet, rules_in_force
from stream_jobs.vehicles.fleet import BUCKET, dump, load
from stream_jobs.windows.open_windows import OpenWindows

QUERY: Final = "telemetry"
DRAFT: Final = "telemetry-rescaled"
PIECES: Final = "bucket int, blob binary, due_ms long"

Piece = tuple[int, bytes, int]


def rescale(settings: Settings, files: Files, database: Database, spark: SparkSession, buckets: int) -> str:
    """Split the state of a query that does not run; what was done. Killed, it can be done again.

    ``spark``: with ``buckets`` shuffle partitions. Raises ConfigError where that is no multiple of the number
    in force, or the query runs; ServiceError.
    """
    require_stopped(settings, QUERY)
    old, draft = Checkpoint(files, QUERY), Checkpoint(files, DRAFT)
    if draft.read(MARK) is not None and old.read(MARK) is None:  # killed between the two renames
        files.move(DRAFT, files.at(QUERY))
    operators, *held = (old.read(MARK) or "").split() or ("",)
    commits = old.batches("commits")
    if not held or not commits:
        raise ConfigError(
            f"{files.root} has no state of {QUERY} yet: set ODOGRAPH_JOBS_VEHICLE_BUCKETS alone"
        )
    if buckets == int(held[0]):
        return f"the state of {QUERY} lies in {buckets} buckets"
    if buckets % int(held[0]):
        raise ConfigError(
            f"{buckets} is no multiple of {held[0]}, the buckets in force: state is split, never joined. "
            f"`odograph jobs reset {QUERY}` makes it anew from what Kafka keeps"
        )
    put_aside(files, DRAFT)
    pieces = split(spark, settings, old, int(held[0]), buckets)
    source = f"{DRAFT}-pieces"
    seed(spark, settings, pieces, files.at(source), draft.location)
    files.remove(source)
    resume(old, draft, commits[-1])
    require_stopped(settings, QUERY)  # splitting takes minutes
    ends, query_id = draft.ends_of(0), draft.query_id()
    assert ends is not None
    assert query_id is not None
    database.run(lambda connection: enter(connection, QUERY, query_id, 0, ends))
    draft.write(MARK, f"{operators}\n{buckets}\n")
    put_aside(files, QUERY)
    files.move(DRAFT, files.at(QUERY))
    return (
        f"the state of {QUERY} lies in {buckets} buckets now; go on with "
        f"ODOGRAPH_JOBS_VEHICLE_BUCKETS={buckets} ODOGRAPH_JOBS_SHUFFLE_PARTITIONS={buckets}"
    )


def split(spark: SparkSession, settings: Settings, old: Checkpoint, before: int, buckets: int) -> list[Piece]:
    """Number, memory and due time (watermark, ms) of each new bucket that has a vehicle."""
    partitions = old.partitions()
    assert partitions is not None
    were = telemetry.bucket_numbers(spark, before, partitions)
    numbers = telemetry.bucket_numbers(spark, buckets, buckets)
    rule_set = rules_in_force(settings)
    pieces = []
    for number, blob in kept(spark, old).items():
        fleet, memory = load(blob, rule_set)
        names = sorted({*fleet.ids, *memory.seen})
        ids = spark.createDataFrame([(name,) for name in names], "id string")
        place_of = telemetry.place_of(F.encode("id", "utf-8"), buckets)
        places: dict[str, int] = dict(ids.select("id", place_of).collect())
        for place in range(were.index(number), buckets, before):
            chosen = {name for name in names if places[name] == place}
            if chosen:
                pieces.append((numbers[place], *part_of(settings, rule_set, blob, chosen)))
    return pieces


def kept(spark: SparkSession, checkpoint: Checkpoint) -> dict[int, bytes]:
    """What a checkpoint's state remembers, as ``fleet.dump`` gives it, by bucket."""
    assert not spark.streams.active  # so that there is a coordinator of states, which the reader needs
    checkpoint.settle()

    def rows(variable: str, *columns: str) -> list[Any]:
        states = spark.read.format("statestore").option("stateVarName", variable).load(checkpoint.location)
        return states.select("key.bucket", *columns).collect()

    found = {}
    for bucket, text in rows("head", "value.memory"):
        found[bucket] = BUCKET.decode(telemetry.raw_of(text))
    for bucket, of_places, start_ms, text in rows("blocks", "user_map_key.*", "user_map_value.block"):
        memory = found[bucket][1]
        (memory.places if of_places else memory.vehicles)[start_ms] = telemetry.raw_of(text)
    return {bucket: msgspec.msgpack.encode(each) for bucket, each in found.items()}


def part_of(settings: Settings, rule_set: RuleSet, blob: bytes, chosen: set[str]) -> tuple[bytes, int]:
    """What a bucket remembers of the ``chosen`` vehicles, and when it is due."""
    fleet, memory = load(blob, rule_set)
    windows = OpenWindows(settings.jobs, None, telemetry.kept_of(fleet, memory, chosen.__contains__))
    due_ms = telemetry.due_of(fleet, windows)
    capped_ms = telemetry.NEVER_MS if due_ms is None else max(1, int(min(due_ms, telemetry.NEVER_MS)))
    return dump(fleet, windows.memory()), capped_ms


def seed(spark: SparkSession, settings: Settings, pieces: list[Piece], source: str, location: str) -> None:
    """A checkpoint with the pieces, which are read from the folder ``source``, as the state after batch 0."""
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    spark.createDataFrame(pieces, PIECES).coalesce(1).write.mode("overwrite").parquet(source)
    stream = (
        spark.readStream.schema(PIECES).parquet(source).withColumn("received", F.timestamp_millis(F.lit(0)))
    )
    keyed = telemetry.with_timer(stream, settings.jobs.receipt_skew_s, "bucket", "blob", "due_ms")
    taking_in = Processor(partial(_seed, rules_in_force(settings)), telemetry.BucketState)
    seeded = keyed.transformWithStateInPandas(taking_in, telemetry.OUTPUT, "append", "EventTime")
    writer = seeded.writeStream.outputMode("append").foreachBatch(
        lambda batch, _: batch.write.format("noop").mode("append").save()
    )
    writer.trigger(availableNow=True).option("checkpointLocation", location).start().awaitTermination()


def _seed(
    rule_set: RuleSet,
    _bucket: int,
    pieces: Iterator[pd.DataFrame],
    state: telemetry.BucketState,
    _watermark_ms: int,
) -> Iterator[pd.DataFrame]:
    """An operator that takes pieces in as the memory of their buckets."""
    for chunk in pieces:
        for blob, due_ms in zip(chunk["blob"], chunk["due_ms"], strict=True):
            state.save(*load(blob, rule_set), int(due_ms))
    return iter(())


def resume(old: Checkpoint, new: Checkpoint, batch_id: int) -> None:
    """Batch 0 of the new checkpoint ends where this one of the old did, by offsets and watermark."""
    offsets, ours = (
        (each.read(f"offsets/{n}") or "").splitlines() for each, n in ((old, batch_id), (new, 0))
    )
    before, head = json.loads(offsets[1]), json.loads(ours[1])
    head |= {name: before[name] for name in ("batchWatermarkMs", "batchTimestampMs")}
    new.write("offsets/0", "\n".join([ours[0], json.dumps(head, separators=(",", ":")), *offsets[2:]]))
    version, line = (new.read("commits/0") or "").splitlines()
    done = json.loads((old.read(f"commits/{batch_id}") or "").splitlines()[1])
    commit = json.loads(line) | {"nextBatchWatermarkMs": done["nextBatchWatermarkMs"]}
    new.write("commits/0", f"{version}\n{json.dumps(commit, separators=(',', ':'))}")
    new.write("sources/0/0", old.read("sources/0/0") or "")
