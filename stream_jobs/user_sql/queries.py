"""The users' queries as streaming queries of the application."""

from __future__ import annotations

from functools import partial

from pyspark.sql import DataFrame, SparkSession

from infra.contract.verdict import clock_limits
from infra.settings.settings import Settings
from stream_jobs.app.queries import Query, SinkParts
from stream_jobs.user_sql.check import analysed, check
from stream_jobs.user_sql.definition import Definition, least_watermark_s, read_folder
from stream_jobs.user_sql.sink import UserSink


def user_queries(settings: Settings, spark: SparkSession) -> tuple[Query, ...]:
    """Those of the folder in the settings, none without one; raises ConfigError where one is not sound."""
    folder = settings.jobs.sql_dir
    if folder is None:
        return ()
    found = read_folder(folder, least_watermark_s(settings))
    for definition in found:
        check(spark, definition, clock_limits(settings))
    return tuple(_query(definition) for definition in found)


def _query(definition: Definition) -> Query:
    return Query(
        name=definition.query,
        operators=definition.version,
        replaces=(),
        trigger_s=lambda s: s.jobs.trigger_s,
        max_offsets=lambda s: s.jobs.max_offsets,
        transform=partial(_rows, definition),
        sink=partial(_sink, definition),
        may_fail=True,
    )


def _rows(definition: Definition, records: DataFrame, settings: Settings) -> DataFrame:
    return analysed(definition, records, clock_limits(settings))


def _sink(definition: Definition, parts: SinkParts) -> UserSink:
    return UserSink(definition, parts.database, parts.claims)
