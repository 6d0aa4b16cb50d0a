"""The table of a user's query: its columns out of the query's, its statements. Pure; SQL as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import types as T  # noqa: N812  Spark's own convention

from stream_jobs.user_sql.definition import Definition, wrong

SCHEMA: Final = "user_sql"
READER: Final = "odograph_dashboard"
_TYPES: Final[Mapping[type[T.DataType], str]] = {
    T.StringType: "text",
    T.BooleanType: "boolean",
    T.ByteType: "smallint",
    T.ShortType: "smallint",
    T.IntegerType: "integer",
    T.LongType: "bigint",
    T.FloatType: "real",
    T.DoubleType: "double precision",
    T.DecimalType: "numeric",
    T.DateType: "date",
    T.TimestampType: "timestamp with time zone",
}
_MOST_BYTES: Final = 63
"""PostgreSQL cuts longer names."""

TABLE_COLUMNS: Final = """
SELECT a.attname, format_type(a.atttypid, NULL) FROM pg_attribute a
WHERE a.attrelid = to_regclass(%(table)s) AND a.attnum > 0 AND NOT a.attisdropped
"""


def columns_of(definition: Definition, schema: T.StructType) -> dict[str, str]:
    """PostgreSQL's type of each column; raises ConfigError for one without, or a key that is not there."""
    columns: dict[str, str] = {}
    for field in schema.fields:
        kind = _TYPES.get(type(field.dataType))
        if kind is None:
            raise wrong(definition.path, None, f"column `{field.name}` {_advice(field)}")
        if not field.name.isidentifier() or field.name != field.name.lower() or len(field.name) > _MOST_BYTES:
            raise wrong(
                definition.path, None, f"column `{field.name}`: name it by `AS name`, of a-z, 0-9 and _"
            )
        if field.name in columns:
            raise wrong(definition.path, None, f"column `{field.name}` is there twice")
        columns[field.name] = kind
    for name in definition.key:
        if name not in columns:
            raise wrong(
                definition.path, None, f"`key`: {name} is no column of the SELECT ({', '.join(columns)})"
            )
    return columns


def _advice(field: T.StructField) -> str:
    kind = field.dataType.simpleString()
    if isinstance(field.dataType, T.StructType) and {"start", "end"} <= set(field.dataType.names):
        return f"is a {kind}: take {field.name}.start AS {field.name}_start instead"
    return f"is a {kind}, which has no column type: take it apart or cast it"


def table_of(definition: Definition) -> str:
    """The table's name with its schema."""
    return f"{SCHEMA}.{definition.name}"


def create(definition: Definition, columns: Mapping[str, str]) -> tuple[str, ...]:
    """The statements that make the table; a null in the key is a value like any other."""
    table = table_of(definition)
    body = ", ".join(f'"{name}" {kind}' for name, kind in columns.items())
    return (
        f"CREATE TABLE {table} ({body})",
        f"CREATE UNIQUE INDEX ON {table} ({_names(definition.key)}) NULLS NOT DISTINCT",
        f"GRANT SELECT ON {table} TO {READER}",
    )


def upsert(definition: Definition, columns: Mapping[str, str]) -> str:
    """The staged rows into the table; a row with a key that is there takes its place."""
    others = [name for name in columns if name not in definition.key]
    change = ", ".join(f'"{name}" = excluded."{name}"' for name in others)
    names = _names([*columns])
    return (
        f"INSERT INTO {table_of(definition)} ({names}) SELECT {names} FROM staged_{definition.name} "  # noqa: S608
        f"ON CONFLICT ({_names(definition.key)}) DO {f'UPDATE SET {change}' if others else 'NOTHING'}"
    )


def _names(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
