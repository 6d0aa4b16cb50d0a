"""The query ``vehicles``: records of a stream -> what was found out about vehicles.

Records go to the operator by buckets of vehicles, four columns and the raw payload: it is parsed once, there.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, GroupedData
from pyspark.sql import functions as F  # noqa: N812  Spark's own convention
from pyspark.sql.streaming.state import GroupStateTimeout

from infra.contract.settings import Settings
from infra.contract.verdict import clock_limits
from stream_jobs.rule_check import check_translations
from stream_jobs.rules import SHIPPED
from stream_jobs.vehicles import lookups
from stream_jobs.vehicles.limits import core_limits, harsh_limits
from stream_jobs.vehicles.operator import OUTPUT, STATE, Operator
from stream_jobs.vehicles.plugged import Detection, detection
from stream_jobs.vehicles.stage import KEY, RECORD, VehicleStage
from stream_jobs.windows import WATERMARK_METADATA

BATCH_GROUPS: Final = 256
"""Into so many groups archived vehicles are cut: one is in memory at a time and worker."""


def vehicle_rows(records: DataFrame, settings: Settings) -> DataFrame:
    """Records of a stream -> rows of operator.OUTPUT.

    Only timers hang on the watermark. A record that lies behind it (partitions are not read in step) is no
    less to be looked at, but Spark would drop it before the operator by its time: so the operator sees
    a column of event time, as Spark asks for, that says nothing.
    """
    plugged = detection(settings)
    check_translations(settings.jobs.rules or SHIPPED, plugged.rules)
    received = F.timestamp_millis("received_ms")
    timed = records.select(KEY, *RECORD, received.alias("received"))
    timed = timed.withWatermark("received", f"{settings.jobs.receipt_skew_s} seconds")
    bucket = F.pmod(F.xxhash64(KEY), F.lit(settings.jobs.vehicle_buckets)).cast("int")
    event_time = {WATERMARK_METADATA: settings.jobs.receipt_skew_s * 1000}
    timer = F.lit(None).cast("timestamp").alias("timer", metadata=event_time)
    keyed = timed.select(bucket.alias("bucket"), timer, KEY, *RECORD).groupBy("bucket")
    operator = Operator(core_limits(settings), plugged, vehicle_stage(settings, plugged))
    return keyed.applyInPandasWithState(
        operator.__call__, OUTPUT, STATE, "append", GroupStateTimeout.EventTimeTimeout
    )


def by_group(records: DataFrame) -> GroupedData:
    """Archived records (columns stage.RECORD, vehicle_id) by groups of vehicles, for applyInPandas."""
    group = F.pmod(F.xxhash64("vehicle_id"), F.lit(BATCH_GROUPS)).alias("vehicle_group")
    return records.select(*RECORD, group).groupBy("vehicle_group")


def vehicle_stage(settings: Settings, plugged: Detection) -> VehicleStage:
    """The stage before the core, with the rules that the core looks at."""
    lookup = lookups.vehicle_file(settings.paths.home)
    return VehicleStage(clock_limits(settings), harsh_limits(settings), lookup, plugged.rules)
