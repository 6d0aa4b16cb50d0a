"""Where records come from: Kafka, and the archive.

A record is (topic, partition, log_offset, key, received_ms, value): the same columns from every source.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, GroupedData, SparkSession
from pyspark.sql import functions as F  # noqa: N812  Spark's own convention

from infra.contract.topics import kafka_topic
from infra.settings.settings import Endpoints, Settings

FETCHING: Final = {"kafka.max.poll.records": "5000", "kafka.max.partition.fetch.bytes": str(4 << 20)}
"""A batch knows how much there is for it: few large answers cost Kafka and Spark less than many small."""
BATCH_GROUPS: Final = 256
"""Into so many groups archived vehicles are cut."""


def kafka_stream(
    spark: SparkSession, settings: Settings, endpoints: Endpoints, topic: str, max_offsets: int
) -> DataFrame:
    """Records of a topic as they come, at most ``max_offsets`` in a batch; lost offsets are an error."""
    options = kafka_options(settings, endpoints, topic) | FETCHING
    reader = spark.readStream.format("kafka").options(**options)
    return record_columns(reader.option("maxOffsetsPerTrigger", max_offsets).load())


def kafka_options(settings: Settings, endpoints: Endpoints, topic: str) -> dict[str, str]:
    """Options of Spark's Kafka source for one topic of this installation."""
    return {
        "kafka.bootstrap.servers": endpoints.kafka_bootstrap,
        "subscribe": kafka_topic(settings.kafka.prefix, topic),
        "startingOffsets": "earliest",
        "failOnDataLoss": "true",
    }


def record_columns(raw: DataFrame) -> DataFrame:
    """The record's columns out of Spark's Kafka columns; the Kafka timestamp is the bridge's receive time."""
    return raw.select(
        "topic",
        "partition",
        F.col("offset").alias("log_offset"),
        "key",
        F.unix_millis("timestamp").alias("received_ms"),
        "value",
    )


def by_group(records: DataFrame, *columns: str) -> GroupedData:
    """``columns`` of archived records by groups of vehicles; one group at a time is in a worker's memory."""
    group = F.pmod(F.xxhash64("vehicle_id"), F.lit(BATCH_GROUPS)).alias("vehicle_group")
    return records.select(*columns, group).groupBy("vehicle_group")


def archive(spark: SparkSession, files: list[str]) -> DataFrame:
    """Archived records with their index columns, out of the Parquet ``files``."""
    return spark.read.parquet(*files)
