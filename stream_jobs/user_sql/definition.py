"""A user's query as a file (keys in comments at its head, then one SELECT), and the table of its rows."""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import types as T  # noqa: N812  Spark's own convention

from infra.contract.errors import ConfigError
from infra.settings.settings import Settings
from stream_jobs.app.database import Connection, execute, fetch

VIEWS: Final = ("frames", "samples")
KEYS: Final = ("over", "key", "watermark_s", "about")
SKEW_FACTOR: Final = 4
"""So many times ``receipt_skew_s`` a partition may run ahead of another before rows are dropped."""

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,40}")
_COLUMN: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_KEY_LINE: Final = re.compile(r"--\s*([a-z_]+):\s*(.*)")
_WORD: Final = re.compile(r"[a-z_][a-z0-9_]*", re.IGNORECASE)
_COMMENT: Final = re.compile(r"--[^\n]*")
_STAR: Final = re.compile(r"(select|,|\.)\s*\*", re.IGNORECASE)

_TYPES: Final[Mapping[type[T.DataType], str]] = {
    T.StringType: "text", T.BooleanType: "boolean", T.DateType: "date",
    T.TimestampType: "timestamp with time zone", T.ByteType: "smallint", T.ShortType: "smallint",
    T.IntegerType: "integer", T.LongType: "bigint", T.FloatType: "real", T.DoubleType: "double precision",
    T.DecimalType: "numeric",
}  # fmt: skip
_NAME_BYTES: Final = 63
"""PostgreSQL cuts longer names."""
_TABLE_COLUMNS: Final = """
SELECT a.attname, format_type(a.atttypid, NULL) FROM pg_attribute a
WHERE a.attrelid = to_regclass(%(table)s) AND a.attnum > 0 AND NOT a.attisdropped
"""


@dataclass(frozen=True, slots=True)
class Definition:
    """One file: its SELECT over ``view``, the columns that are the key of its table.

    ``text`` is the whole file, so that the lines of Spark's messages are the file's.
    """

    path: Path
    name: str
    view: str
    key: tuple[str, ...]
    watermark_s: int
    text: str

    @property
    def query(self) -> str:
        """Name of the streaming query."""
        return f"sql_{self.name}"

    @property
    def table(self) -> str:
        """The table's name with its schema."""
        return f"user_sql.{self.name}"

    @property
    def statement(self) -> str:
        """The file without the semicolon at its end."""
        return self.text.rstrip().removesuffix(";")

    @property
    def version(self) -> int:
        """Changes with the statement and its view: its state then begins anew."""
        plain = " ".join(_COMMENT.sub("", self.statement).split())
        return zlib.crc32(f"{self.view} {self.watermark_s} {plain}".encode())

    def reads(self, names: Collection[str]) -> tuple[str, ...]:
        """Those of ``names`` that the statement reads; all of them where it has a ``*`` of its own."""
        statement = _COMMENT.sub("", self.text)
        words = {word.lower() for word in _WORD.findall(statement)}
        return tuple(name for name in names if name in words or _STAR.search(statement))

    def wrong(self, reason: str, line: int | None = None) -> ConfigError:
        """The error that says where in the file something is wrong."""
        return wrong(self.path, line, reason)


def wrong(path: Path, line: int | None, reason: str) -> ConfigError:
    """The same before a file is known to be one."""
    place = "" if line is None else f", line {line}"
    return ConfigError(f"SQL on the stream, {path}{place}: {reason}")


def least_watermark_s(settings: Settings) -> int:
    """The delay of a watermark of event time behind which no frame in time lies; 60 s by default.

    What such a watermark drops is lost to the query, a timer that runs early costs little: so partitions may
    lie apart in receive time by more than ``receipt_skew_s``.
    """
    jobs = settings.jobs
    return jobs.lateness_s + jobs.ahead_s + SKEW_FACTOR * jobs.receipt_skew_s


def read_folder(folder: Path, least_watermark_s: int) -> tuple[Definition, ...]:
    """All ``*.sql`` of a folder, by name; raises ConfigError naming file, line and what is wrong."""
    if not folder.is_dir():
        raise ConfigError(f"SQL on the stream: {folder} (ODOGRAPH_JOBS_SQL_DIR) is no folder")
    return tuple(read_file(path, least_watermark_s) for path in sorted(folder.glob("*.sql")))


def read_file(path: Path, least_watermark_s: int) -> Definition:
    """One file; raises ConfigError. Whether Spark understands the statement is not looked at here."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise wrong(path, None, f"cannot be read: {error}") from error
    if _NAME.fullmatch(path.stem) is None:
        raise wrong(
            path, None, "its name must be of a-z, 0-9 and _, begin with a letter, have at most 41 of them"
        )
    head = _head(path, text)
    first = next(iter(_WORD.findall(_COMMENT.sub("", text))), "").lower()
    if first not in ("select", "with"):
        raise wrong(
            path, None, "after the remarks there must be one statement that begins with SELECT or WITH"
        )
    line, view = head["over"]
    if view not in VIEWS:
        raise wrong(path, line, f"`over` is {view!r}, none of {', '.join(VIEWS)}")
    line, columns = head["key"]
    key = tuple(name.strip() for name in columns.split(","))
    for name in key:
        if _COLUMN.fullmatch(name) is None:
            raise wrong(path, line, f"`key`: {name!r} is no name of a column (a-z, 0-9, _)")
    if len(set(key)) < len(key):
        raise wrong(path, line, "`key` has a column twice")
    line, delay = head.get("watermark_s", (0, str(least_watermark_s)))
    if not delay.isdecimal() or int(delay) < least_watermark_s:
        reason = f"`watermark_s` is {delay!r}, not whole seconds from {least_watermark_s} on (the jobs' own)"
        raise wrong(path, line, reason)
    return Definition(path, path.stem, view, key, int(delay), text)


def _head(path: Path, text: str) -> dict[str, tuple[int, str]]:
    """Line and value of each key."""
    found: dict[str, tuple[int, str]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.startswith("--"):
            break
        match = _KEY_LINE.match(line)
        if match is None:
            continue
        name = match[1]
        if name not in KEYS:
            raise wrong(path, number, f"`{name}` is unknown; known: {', '.join(KEYS)}")
        if name in found:
            raise wrong(path, number, f"`{name}` is there twice")
        found[name] = (number, match[2].strip())
    for name, form, why in (
        ("over", " | ".join(VIEWS), ""), ("key", "column, column", ": what a row is told apart by")
    ):  # fmt: skip
        if name not in found:
            raise wrong(path, 1, f"`-- {name}: {form}` is missing before the SELECT{why}")
    return found


def columns_of(definition: Definition, schema: T.StructType) -> dict[str, str]:
    """PostgreSQL's type of each column; raises ConfigError for one without, or a key that is not there."""
    columns: dict[str, str] = {}
    for field in schema.fields:
        name, kind, given = field.name, _TYPES.get(type(field.dataType)), field.dataType
        if isinstance(given, T.StructType) and {"start", "end"} <= set(given.names):
            reason = f" is a {given.simpleString()}: take {name}.start AS {name}_start instead"
        elif kind is None:
            reason = f" is a {given.simpleString()}, which has no column type: take it apart or cast it"
        elif not name.isidentifier() or name != name.lower() or len(name) > _NAME_BYTES:
            reason = ": name it by `AS name`, of a-z, 0-9 and _"
        elif name in columns:
            reason = " is there twice"
        else:
            columns[name] = kind
            continue
        raise definition.wrong(f"column `{name}`{reason}")
    for name in definition.key:
        if name not in columns:
            raise definition.wrong(f"`key`: {name} is no column of the SELECT ({', '.join(columns)})")
    return columns


def ensure_table(connection: Connection, definition: Definition, columns: Mapping[str, str]) -> None:
    """Make the table from the query's columns unless it stands with these already; raises ConfigError."""
    table = definition.table
    found = dict(map(tuple, fetch(connection, _TABLE_COLUMNS, {"table": table})))
    if not found:
        body = ", ".join(f'"{name}" {kind}' for name, kind in columns.items())
        execute(connection, f"CREATE TABLE {table} ({body})")
        key = _quoted(definition.key)  # a null in it is a value like any other
        execute(connection, f"CREATE UNIQUE INDEX ON {table} ({key}) NULLS NOT DISTINCT")
        execute(connection, f"GRANT SELECT ON {table} TO odograph_dashboard")
    elif found != columns:
        stands, given = (", ".join(f"{n} {kind}" for n, kind in sorted(c.items())) for c in (found, columns))
        raise definition.wrong(
            f"table {table} has the columns {stands}, the query gives {given}; "
            "drop the table or give the file another name"
        )


def upsert(definition: Definition, columns: Mapping[str, str]) -> str:
    """The staged rows into the table; a row with a key that is there takes its place."""
    change = ", ".join(f'"{name}" = excluded."{name}"' for name in columns if name not in definition.key)
    names = _quoted(columns)
    return (
        f"INSERT INTO {definition.table} ({names}) SELECT {names} FROM staged_{definition.name} "  # noqa: S608
        f"ON CONFLICT ({_quoted(definition.key)}) DO {f'UPDATE SET {change}' if change else 'NOTHING'}"
    )


def _quoted(names: Collection[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
