"""The query ``telemetry``: records of a stream -> windows, journeys, findings, latest state, in one pass.

Records go to one stateful operator by buckets of vehicles, a hash of Kafka's key: four columns and the raw
payload, which is parsed once, there. The operator runs in Spark's Python workers (transformWithState);
its key is a bucket, since a call and a state access a vehicle would cost more than the work.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import product
from typing import Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace
from pyspark.sql import Column, DataFrame, GroupedData, SparkSession
from pyspark.sql import functions as F  # noqa: N812  Spark's own convention

from infra.settings.settings import Settings
from stream_jobs.app.processor import Opened, Processor
from stream_jobs.app.schema import COUNTED, WATERMARK_METADATA
from stream_jobs.frames.batch import RECORD
from stream_jobs.roads.network import lookup_of
from stream_jobs.rules.evaluation import check_translations
from stream_jobs.rules.model import SHIPPED
from stream_jobs.rules.rule_set import RuleSet, rules_in_force
from stream_jobs.vehicles.core import Core, hold
from stream_jobs.vehicles.features import vehicle_stage
from stream_jobs.vehicles.fleet import Fleet, dump, load
from stream_jobs.vehicles.rows import Row, pack
from stream_jobs.windows.open_windows import FRAMES_AT_ONCE, Blocks, Found, Memory, OpenWindows, part_of

NEVER_MS: Final = 2**62
OUTPUT: Final = (
    "kind string, vehicle_id string, body binary, "
    "bucket int, open_from_ms long, copies long, missed long"
)  # fmt: skip
"""A row a finding or journey (``kind``: its type, ``body``: JSON), a table of rows (``kind``: its name in
``Found``, ``body``: Arrow's stream format), and one a bucket with the numbers (BUCKET).
"""
raw_of: Final = b64decode
_COLUMNS: Final = [column.split()[0] for column in OUTPUT.split(", ")]
BUCKET: Final = "bucket"
TABLES: Final = ("vehicle", "latest", "shares", "missed")
_RECORDS: Final = pa.schema({
    "key": pa.binary(), "partition": pa.int32(), "log_offset": pa.int64(), "received_ms": pa.int64(),
    "value": pa.binary(),
})  # fmt: skip


class BucketState:
    """A bucket's memory in Spark's state store: the vehicles with what is known of windows, and a value for
    each block of open windows, of which a batch reads and writes those that its frames belong to.

    In Base64, since Spark hands bytes to Python each by itself, as a letter: a third of Java's time.
    ``expired_ms``: the timer that is due, which Spark deletes itself.
    """

    def __init__(self, state: Opened, expired_ms: int | None = None) -> None:
        self._handle, self._head, self._blocks = state
        self._stored = set[tuple[bool, int]]()
        self._expired_ms = expired_ms

    def load(self, rule_set: RuleSet) -> tuple[Fleet, Memory]:
        """What was kept; nothing at first."""
        head = self._head.get()
        fleet, memory = load(None if head is None else raw_of(head[0]), rule_set)
        self._stored = {*product((False,), memory.vehicles), *product((True,), memory.places)}
        memory.vehicles = Blocks(memory.vehicles, partial(self._block, False))
        memory.places = Blocks(memory.places, partial(self._block, True))
        return fleet, memory

    def _block(self, of_places: bool, start_ms: int) -> bytes:
        found = self._blocks.getValue((of_places, start_ms))
        assert found is not None
        return raw_of(found[0])

    def save(self, fleet: Fleet, memory: Memory, due_ms: int) -> None:
        """Keep this, and call the operator when the watermark is beyond ``due_ms``."""
        both = ((False, memory.vehicles), (True, memory.places))
        blocks = {(of_places, start): raw for of_places, of in both for start, raw in of.items()}
        for key, raw in blocks.items():
            if raw:  # else the store has it
                self._blocks.updateValue(key, (text_of(raw),))
        for key in self._stored - blocks.keys():
            self._blocks.removeKey(key)
        head = replace(
            memory, vehicles=dict.fromkeys(memory.vehicles, b""), places=dict.fromkeys(memory.places, b"")
        )
        self._head.update((text_of(dump(fleet, head)),))
        self._wake_at(due_ms)

    def remove(self) -> None:
        """Keep nothing."""
        self._head.clear()
        self._blocks.clear()
        self._wake_at(None)

    def _wake_at(self, at_ms: int | None) -> None:
        timers = set(self._handle.listTimers())
        for each in timers - {at_ms, self._expired_ms}:
            self._handle.deleteTimer(each)
        if at_ms is not None and at_ms not in timers:
            self._handle.registerTimer(at_ms)


def text_of(raw: bytes) -> str:
    """Bytes as the state store has them; ``raw_of`` gives them back."""
    return b64encode(raw).decode("ascii")


class Operator:
    """What is sent to the workers; core and windows are made there."""

    def __init__(self, settings: Settings, rule_set: RuleSet) -> None:
        self.jobs, self.rule_set = settings.jobs, rule_set
        self.stage, self.roads = vehicle_stage(settings, rule_set), lookup_of(settings)

    def __call__(
        self, bucket: int, records: Iterable[pd.DataFrame], store: BucketState, watermark_ms: int
    ) -> Iterator[pd.DataFrame]:
        core = Core(self.jobs, self.stage.journeys, self.rule_set)
        fleet, memory = store.load(self.rule_set)
        table, erased = without_erased(_in_order(records))
        if erased:
            memory = kept_of(fleet, memory, lambda name: name not in erased)
        windows = OpenWindows(self.jobs, self.roads, memory, watermark_ms)
        rows: list[Row] = []
        arrived = False
        for batch in filter(None, map(self.stage.frames, table.to_batches(max_chunksize=FRAMES_AT_ONCE))):
            arrived = True
            windows.take(batch, batch.ok)
            rows += core.take(fleet, self.stage.features(batch))
        windows.latest()
        windows.publish(watermark_ms, idle=not arrived)
        windows.close(watermark_ms)
        rows += core.expire(fleet, watermark_ms)
        due_ms = due_of(fleet, windows)
        if due_ms is None:
            windows.found.open_from_ms = NEVER_MS
            store.remove()
        else:
            store.save(fleet, windows.memory(), int(max(due_ms, watermark_ms)) + 1)
        yield _out(rows, windows.found, bucket)


def _in_order(records: Iterable[pd.DataFrame]) -> pa.Table:
    """The records in the order of the log, whatever way they took here."""
    chunks = ([pa.array(chunk[f.name], f.type) for f in _RECORDS] for chunk in records)
    batches = [pa.record_batch(columns, _RECORDS) for columns in chunks]
    table = pa.Table.from_batches(batches, _RECORDS).combine_chunks()
    order = np.lexsort([table[name].to_numpy() for name in ("log_offset", "partition")])
    return table.take(pa.array(order)).combine_chunks() if np.any(np.diff(order) < 0) else table


def without_erased(records: pa.Table) -> tuple[pa.Table, set[str]]:
    """Records (columns ``key`` and ``value`` among them) without those of vehicles that were erased behind
    them, and these vehicles: a record without a value erases what its key had before.
    """
    if not records["value"].null_count:
        return records, set()
    stays, erased = np.ones(records.num_rows, np.bool_), set()
    keys = pc.fill_null(records["key"], b"")
    for at in np.flatnonzero(records["value"].is_null()).tolist():
        stays[: at + 1] &= pc.not_equal(keys[: at + 1], keys[at]).to_numpy()
        erased.add(keys[at].as_py().decode(errors="replace"))
    return records.filter(pa.array(stays)).combine_chunks(), erased - {""}  # of a marker, which is nobody's


def kept_of(fleet: Fleet, memory: Memory, chosen: Callable[[str], bool]) -> Memory:
    """What is remembered of the ``chosen`` vehicles: the fleet loses the others, the windows' is returned."""
    others = [place for place, name in enumerate(fleet.ids) if not chosen(name)]
    fleet.forget(np.array(others, np.int64))
    if fleet.held is not None:
        hold(fleet, fleet.held)
    return part_of(memory, chosen)


def _out(rows: list[Row], found: Found, bucket: int) -> pd.DataFrame:
    tables = [(name, pa.concat_tables(getattr(found, name))) for name in TABLES if getattr(found, name)]
    missed = sum(table.num_rows for table in found.missed)
    told: list[tuple[object, ...]] = [  # what is missing at the end of a row is null
        *((str(type(row).__struct_config__.tag), row.vehicle_id, pack(row), bucket) for row in rows),
        *((name, None, ipc_of(table), bucket) for name, table in tables),
        (BUCKET, None, None, bucket, found.open_from_ms, found.copies, missed),
    ]
    return pd.DataFrame(told, columns=_COLUMNS, dtype=object)


def ipc_of(table: pa.Table) -> bytes:
    """The table in Arrow's stream format."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue())


def table_of(body: bytes) -> pa.Table:
    """The table that ``ipc_of`` made a body of."""
    return pa.ipc.open_stream(body).read_all()


def place_of(key: Column, buckets: int) -> Column:
    """The place of a vehicle's bucket among all, by Kafka's key.

    Of a multiple of ``buckets`` it is one of those that have its remainder (see rescale.py).
    """
    return F.pmod(F.xxhash64(key), F.lit(buckets)).cast("int")


def bucket_numbers(spark: SparkSession, buckets: int, partitions: int) -> list[int]:
    """The buckets, by their places: numbers that Spark's hash puts into its partitions in turn.

    Two small numbers may well come into one partition, and one core would do the work of two.
    """
    number = F.col("id").cast("int")
    partition = F.pmod(F.hash(number), F.lit(partitions))
    found: list[list[int]] = [[] for _ in range(partitions)]
    for row in spark.range(20 * (partitions + buckets)).select(number, partition).collect():
        found[row[1]].append(row[0])
    return [found[bucket % partitions][bucket // partitions] for bucket in range(buckets)]


def due_of(fleet: Fleet, windows: OpenWindows) -> float | None:
    """At which watermark a bucket has something to do, if no record comes before; None: never."""
    at_ms = windows.due_ms()
    return min([*fleet.vehicles["due"].tolist(), *([] if at_ms is None else [at_ms])], default=None)


def with_timer(rows: DataFrame, skew_s: int, *columns: Column | str) -> GroupedData:
    """Rows by bucket, beside a column of event time, as Spark asks for, that says nothing."""
    timed = rows.withWatermark("received", f"{skew_s} seconds")
    timer = F.lit(None).cast("timestamp").alias("timer", metadata={WATERMARK_METADATA: skew_s * 1000})
    return timed.select(columns[0], timer, *columns[1:]).groupBy("bucket")


def telemetry_rows(records: DataFrame, settings: Settings) -> DataFrame:
    """Records of a stream -> rows of OUTPUT.

    Only timers hang on the watermark. A record that lies behind it (partitions are not read in step) is no
    less to be looked at, but Spark would drop it before the operator by its time: so the operator sees
    a column of event time, as Spark asks for, that says nothing.
    """
    rule_set = rules_in_force(settings)
    check_translations(settings.jobs.rules or SHIPPED, (each.rule for each in rule_set))
    jobs, spark = settings.jobs, records.sparkSession
    partitions = int(str(spark.conf.get("spark.sql.shuffle.partitions")))
    numbers = F.array(*map(F.lit, bucket_numbers(spark, jobs.vehicle_buckets, partitions)))
    bucket = F.element_at(numbers, place_of(F.col("key"), jobs.vehicle_buckets) + 1).alias("bucket")
    timed = records.select("key", *RECORD, F.timestamp_millis("received_ms").alias("received"))
    keyed = with_timer(timed, jobs.receipt_skew_s, bucket, "key", *RECORD)
    rows = keyed.transformWithStateInPandas(
        Processor(Operator(settings, rule_set), BucketState), OUTPUT, "append", "EventTime"
    )
    return rows.observe(COUNTED, F.sum("copies").alias("copies"), F.sum("missed").alias("missed"))
