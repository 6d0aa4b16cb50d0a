"""Spark's judgement on a user's query, without Kafka or database: names, types, whether it can stream."""

from __future__ import annotations

import re
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from infra.contract.errors import ConfigError
from infra.contract.verdict import ClockLimits
from stream_jobs.user_sql.definition import Definition, wrong
from stream_jobs.user_sql.table import columns_of
from stream_jobs.user_sql.views import rows_of

_AT: Final = re.compile(r"\(line (\d+), pos \d+\)|line (\d+) pos \d+")
_MOST: Final = 500


def check(spark: SparkSession, definition: Definition, limits: ClockLimits) -> StructType:
    """The columns that the query gives; raises ConfigError naming file, line and what is wrong.

    Spark says only at a query's start what cannot stream; here it is asked without starting one.
    """
    rate = spark.readStream.format("rate").option("rowsPerSecond", 1).load()
    records = rate.selectExpr("value AS received_ms", "cast('' AS binary) AS value")
    rows = analysed(definition, records, limits)
    spark_jvm: Any = spark._jvm
    try:
        spark_jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(
            rows._jdf.queryExecution().analyzed(),
            spark_jvm.org.apache.spark.sql.streaming.OutputMode.Update(),
        )
    except PySparkException as error:
        raise understood(definition, error) from error
    return rows.schema


def analysed(definition: Definition, records: DataFrame, limits: ClockLimits) -> DataFrame:
    """What the definition makes of ``records``; raises ConfigError where Spark does not take it."""
    try:
        rows = rows_of(definition, records, limits)
    except PySparkException as error:
        raise understood(definition, error) from error
    if not rows.isStreaming:
        raise wrong(definition.path, None, f"it does not read the view {definition.view}")
    columns_of(definition, rows.schema)
    return rows


def understood(definition: Definition, error: Exception) -> ConfigError:
    """Spark's error as one of the file."""
    text = " ".join(str(error).partition("\n\n")[0].partition(";\n")[0].split())[:_MOST]
    at = _AT.search(str(error))
    return wrong(definition.path, int(at[1] or at[2]) if at else None, text)
