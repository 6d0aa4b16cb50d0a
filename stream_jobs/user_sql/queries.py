"""Users' queries: files (keys in comments at the head, then one SELECT), judged by Spark, run as streaming
queries of the application, written to their tables.

The views that they read are ``frames``, a row a frame, and ``samples``, a row a sample. Both hold frames with
verdict ok, each identity once; ``event_time`` carries the watermark.
"""

import json
import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  Spark's own convention
from pyspark.sql import types as T  # noqa: N812  Spark's own convention

from infra.contract.errors import ConfigError
from infra.contract.signals import BY_NAME, SIGNALS
from infra.contract.verdict import OK, ClockLimits, clock_limits
from infra.settings.settings import Settings
from stream_jobs.app.database import TYPES, Connection, Database, execute, fetch, stage
from stream_jobs.app.queries import Query
from stream_jobs.app.schema import HEAD, IDENTITY, WATERMARK_METADATA
from stream_jobs.app.session import build_session
from stream_jobs.app.statements import Table, quoted
from stream_jobs.frames.batch import in_range, verdicts
from stream_jobs.frames.plausibility import POSITION, plausible_columns
from stream_jobs.frames.reading import FRAME_SCHEMA, HEAD_SCHEMA, read
from stream_jobs.recovery.ledger import BatchClaims
from stream_jobs.rules.instant import FRAME
from stream_jobs.rules.sql_guard import foreign_relation, query_objection

MEMORY_MB: Final = 1024
_AT: Final = re.compile(r"\(line (\d+), pos \d+\)|line (\d+) pos \d+")
_MESSAGE_CHARS: Final = 500
VIEWS: Final = ("frames", "samples")
KEYS: Final = ("over", "key", "watermark_s", "about")
SKEW_FACTOR: Final = 4  # times ``receipt_skew_s`` a partition may be ahead of another before rows are dropped

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,40}")
_COLUMN: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_KEY_LINE: Final = re.compile(r"--\s*([a-z_]+):\s*(.*)")
_WORD: Final = re.compile(r"[a-z_][a-z0-9_]*", re.IGNORECASE)
_COMMENT: Final = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`)|--[^\n]*""", re.DOTALL)
"""A remark; or what is in quotes, as group 1, in which two dashes begin none."""
_STAR: Final = re.compile(r"(\b(select|distinct|all)|,|\.|\bstruct\s*\()\s*\*", re.IGNORECASE)

_TYPES: Final[Mapping[type[T.DataType], str]] = {
    T.StringType: "text", T.BooleanType: "boolean", T.DateType: "date",
    T.TimestampType: "timestamp with time zone", T.ByteType: "smallint", T.ShortType: "smallint",
    T.IntegerType: "integer", T.LongType: "bigint", T.FloatType: "real", T.DoubleType: "double precision",
    T.DecimalType: "numeric",
}  # fmt: skip
_NAME_BYTES: Final = 63  # PostgreSQL cuts longer names
_KEY_OF: Final = """
SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
WHERE i.indrelid = to_regclass(%(table)s) AND i.indisunique ORDER BY 1
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
        return f"sql_{self.name}"

    @property
    def table(self) -> str:
        return f"user_sql.{self.name}"

    @property
    def statement(self) -> str:
        return self.text.rstrip().removesuffix(";")

    @property
    def version(self) -> str:
        """Changes with the statement and its view: its state then begins anew."""
        plain = " ".join(_without_remarks(self.statement).split())
        return str(zlib.crc32(f"{self.view} {self.watermark_s} {plain}".encode()))

    def reads(self, names: Collection[str]) -> tuple[str, ...]:
        """Those of ``names`` that the statement reads; all of them where it has a ``*`` of its own."""
        statement = _without_remarks(self.text)
        words = {word.lower() for word in _WORD.findall(statement)}
        return tuple(name for name in names if name in words or _STAR.search(statement))


def _without_remarks(text: str) -> str:
    return _COMMENT.sub(lambda found: found[1] or "", text)


def wrong(path: Path, reason: str, line: int | None = None) -> ConfigError:
    """The error of a file, with the line where it is known."""
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
        raise wrong(path, f"cannot be read: {error}") from error
    if _NAME.fullmatch(path.stem) is None:
        raise wrong(path, "its name must be of a-z, 0-9 and _, begin with a letter, have at most 41 of them")
    head = _head(path, text)
    first = next(iter(_WORD.findall(_without_remarks(text))), "").lower()
    if first not in ("select", "with"):
        raise wrong(path, "after the remarks there must be one statement that begins with SELECT or WITH")
    line, view = head["over"]
    if view not in VIEWS:
        raise wrong(path, f"`over` is {view!r}, none of {', '.join(VIEWS)}", line)
    line, columns = head["key"]
    key = tuple(name.strip() for name in columns.split(","))
    for name in key:
        if _COLUMN.fullmatch(name) is None:
            raise wrong(path, f"`key`: {name!r} is no name of a column (a-z, 0-9, _)", line)
    if len(set(key)) < len(key):
        raise wrong(path, "`key` has a column twice", line)
    line, delay = head.get("watermark_s", (0, str(least_watermark_s)))
    if not delay.isdecimal() or len(delay) > 9 or int(delay) < least_watermark_s:
        reason = f"`watermark_s` is {delay!r}, not whole seconds from {least_watermark_s} on (the jobs' own)"
        raise wrong(path, reason, line)
    return Definition(path, path.stem, view, key, int(delay), text)


def _head(path: Path, text: str) -> dict[str, tuple[int, str]]:
    found: dict[str, tuple[int, str]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.startswith("--"):
            break
        match = _KEY_LINE.match(line)
        if match is None:
            continue
        name = match[1]
        if name not in KEYS:
            raise wrong(path, f"`{name}` is unknown; known: {', '.join(KEYS)}", number)
        if name in found:
            raise wrong(path, f"`{name}` is there twice", number)
        found[name] = (number, match[2].strip())
    for name, form, why in (
        ("over", " | ".join(VIEWS), ""), ("key", "column, column", ": what a row is told apart by")
    ):  # fmt: skip
        if name not in found:
            raise wrong(path, f"`-- {name}: {form}` is missing before the SELECT{why}", 1)
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
        elif not name.isidentifier() or name != name.lower() or len(name.encode()) > _NAME_BYTES:
            reason = ": name it by `AS name`, of a-z, 0-9 and _"
        elif name in columns:
            reason = " is there twice"
        else:
            columns[name] = kind
            continue
        raise wrong(definition.path, f"column `{name}`{reason}")
    for name in definition.key:
        if name not in columns:
            raise wrong(definition.path, f"`key`: {name} is no column of the SELECT ({', '.join(columns)})")
    return columns


def ensure_table(connection: Connection, definition: Definition, columns: Mapping[str, str]) -> None:
    """Make the table from the query's columns unless it stands with these and the key; raises ConfigError."""
    table = definition.table
    found = dict(map(tuple, fetch(connection, TYPES, {"table": table})))
    if not found:
        body = ", ".join(f'"{name}" {kind}' for name, kind in columns.items())
        execute(connection, f"CREATE TABLE {table} ({body})")
        key = quoted(definition.key)  # a null in it is a value like any other
        execute(connection, f"CREATE UNIQUE INDEX ON {table} ({key}) NULLS NOT DISTINCT")
        execute(connection, f"GRANT SELECT ON {table} TO odograph_dashboard")
        return
    reason, held = "", [name for (name,) in fetch(connection, _KEY_OF, {"table": table})]
    if found != columns:
        stands, given = (", ".join(f"{n} {kind}" for n, kind in sorted(c.items())) for c in (found, columns))
        reason = f"table {table} has the columns {stands}, the query gives {given}"
    elif held != sorted(definition.key):
        stands, given = ", ".join(held), ", ".join(definition.key)
        reason = f"table {table} has the key ({stands}), `-- key:` says ({given})"
    if reason:
        raise wrong(definition.path, f"{reason}; drop the table or give the file another name")


def user_queries(settings: Settings, spark: SparkSession) -> tuple[Query, ...]:
    """Those of the folder in the settings, none without one; raises ConfigError where one is not sound."""
    folder = settings.jobs.sql_dir
    found = () if folder is None else read_folder(folder, least_watermark_s(settings))
    for definition in found:
        check(spark, definition, clock_limits(settings))
    return tuple(_query(definition) for definition in found)


def _query(definition: Definition) -> Query:
    return Query(
        name=definition.query, operators=definition.version, may_fail=True,
        transform=lambda records, s: _analysed(definition, records, clock_limits(s)),
        sink=lambda _s, _where, database, claims: UserSink(definition, database, claims),
    )  # fmt: skip


def check(spark: SparkSession, definition: Definition, limits: ClockLimits) -> T.StructType:
    """The columns that the query gives; raises ConfigError naming file, line and what is wrong.

    Spark says only at a query's start what cannot stream; here it is asked without starting one.
    """
    rate = spark.readStream.format("rate").option("rowsPerSecond", 1).load()
    records = rate.selectExpr("binary('') AS key", "value AS received_ms", "binary('') AS value")
    rows = _analysed(definition, records, limits)
    jvm: Any = spark._jvm
    spark_sql = jvm.org.apache.spark.sql
    try:
        spark_sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(
            rows._jdf.queryExecution().analyzed(), spark_sql.streaming.OutputMode.Update()
        )
    except PySparkException as error:
        raise _of_file(definition, error) from error
    return rows.schema


def _analysed(definition: Definition, records: DataFrame, limits: ClockLimits) -> DataFrame:
    """What the definition makes of ``records`` (key, received_ms, value).

    Raises ConfigError, before it runs, where it is more than one SELECT over the view or Spark refuses it.
    """
    spark = records.sparkSession
    try:
        objection = query_objection(definition.statement, definition.view)
        if objection is not None:
            raise wrong(definition.path, *objection)
        view(definition, records, limits).createOrReplaceTempView(definition.view)
        rows = spark.sql(definition.statement)
        foreign = foreign_relation(rows, definition.view)
    except PySparkException as error:
        raise _of_file(definition, error) from error
    if foreign is not None:
        raise wrong(definition.path, f"it reads {foreign} besides the view {definition.view}")
    if not rows.isStreaming:
        raise wrong(definition.path, f"it does not read the view {definition.view}")
    columns_of(definition, rows.schema)
    return rows


def _of_file(definition: Definition, error: Exception) -> ConfigError:
    """Spark's error as one of the file."""
    text = " ".join(str(error).partition("\n\n")[0].partition(";\n")[0].split())[:_MESSAGE_CHARS]
    at = _AT.search(str(error))
    return wrong(definition.path, text, int(at[1] or at[2]) if at else None)


def view(definition: Definition, records: DataFrame, limits: ClockLimits) -> DataFrame:
    """The view with the signals that the definition reads: of samples, slow ones are repeated.

    Spark forgets that a time computed from the watermarked one is event time: its metadata says so.
    """
    signals = definition.reads([signal.name for signal in SIGNALS])
    received_ms = T.StructField("received_ms", T.LongType())
    fields = [*(FRAME[name] for name in HEAD), received_ms, *(FRAME[name] for name in signals)]
    asked = records.select("key", "received_ms", "value")
    frames = asked.mapInArrow(lambda some: frames_of(some, signals, limits), T.StructType(fields))
    timed = frames.withColumn("t0_time", F.timestamp_millis("t0_ms"))
    # The watermark only bounds what is remembered.
    timed = timed.withWatermark("t0_time", f"{definition.watermark_s} seconds")
    once = timed.dropDuplicatesWithinWatermark(list(IDENTITY))
    received_at = F.timestamp_millis("received_ms").alias("received_at")
    if definition.view == "frames":
        return once.select(F.col("t0_time").alias("event_time"), received_at, *HEAD, *signals)
    fast, slow = ([name for name in signals if BY_NAME[name].rate == rate] for rate in ("fast", "slow"))
    index = F.sequence(F.lit(0), F.col("n").cast("int") - 1).alias("sample")
    rows = once.select("received_ms", *HEAD, *slow, F.inline(F.arrays_zip(index, *fast)))
    event_time = F.timestamp_millis(F.col("t0_ms") + F.col("sample") * F.col("dt_ms"))
    return rows.select(
        event_time.alias("event_time", metadata={WATERMARK_METADATA: definition.watermark_s * 1000}),
        received_at, "vehicle_id", "boot_id", "seq", "sample", "dt_ms", *signals,
    )  # fmt: skip


def frames_of(
    batches: Iterable[pa.RecordBatch], signals: tuple[str, ...], limits: ClockLimits
) -> Iterator[pa.RecordBatch]:
    """In Python workers: records to frames with verdict ok. Out of range is null, and so is position 0, 0.

    A fast signal is an array of as many values as the frame has samples.
    """
    asked = {*signals, *(POSITION if set(POSITION) & set(signals) else ())}
    schema = pa.schema([*HEAD_SCHEMA, *(FRAME_SCHEMA.field(name) for name in sorted(asked))])
    for batch in batches:
        table = in_range(read(batch.column("value"), schema))
        received_ms = batch.column("received_ms")
        chosen = pa.array(verdicts(table, received_ms.to_numpy(), limits, batch.column("key")) == OK)
        table = table.filter(chosen).combine_chunks()
        columns = {name: table[name].combine_chunks() for name in HEAD}
        columns["received_ms"] = received_ms.filter(chosen)
        columns |= plausible_columns(table, signals, whole=True)
        yield pa.RecordBatch.from_pydict(columns)


def check_files(
    settings: Settings, files: Sequence[Path], conf: Mapping[str, str], *, as_json: bool
) -> Iterator[str]:
    """Judge files in a Spark with ``conf``, without services; all are read before it starts.

    What the sound ones are and their columns. Raises ConfigError at the first that is not sound.
    """
    definitions = [read_file(path, least_watermark_s(settings)) for path in files]
    spark = build_session(settings, "odograph-sql-check", MEMORY_MB, "local[1]", conf)
    try:
        for d in definitions:
            columns = columns_of(d, check(spark, d, clock_limits(settings)))
            known = {"file": str(d.path), "query": d.query, "view": d.view, "table": d.table, "key": d.key}
            head = f"{d.path}: sound; table {d.table}, key ({', '.join(d.key)})"
            lines = [head, *(f"  {name:<24} {kind}" for name, kind in columns.items())]
            yield json.dumps({**known, "columns": columns}) if as_json else "\n".join(lines)
    finally:
        spark.stop()


class UserSink:
    """foreachBatch writer: a query's rows by their key, in one ledger transaction a batch.

    Makes the table where it is not there; raises ConfigError where it has other columns.
    """

    def __init__(self, definition: Definition, database: Database, claims: BatchClaims) -> None:
        self._definition, self._database, self._claims = definition, database, claims
        self._table_stands = False

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        definition, rows = self._definition, batch.toArrow()
        columns = columns_of(definition, batch.schema)

        def write(connection: Connection) -> None:
            if self._claims.claim(connection, batch_id, rows.num_rows) and rows.num_rows:
                stage(connection, definition.table, rows)
                execute(connection, Table(definition.table, definition.key, "").put([*columns]))

        if not self._table_stands:
            self._database.run(lambda connection: ensure_table(connection, definition, columns))
            self._table_stands = True
        refuse_doubles(definition, rows)
        self._database.run(write)


def refuse_doubles(definition: Definition, rows: pa.Table) -> None:
    """Raises ConfigError where two rows of a batch have one key: which is to stay would be chance."""
    keys = rows.select(definition.key).group_by(list(definition.key)).aggregate([])
    if keys.num_rows < rows.num_rows:
        several, key = rows.num_rows - keys.num_rows, ", ".join(definition.key)
        reason = f"`key` ({key}) does not tell rows apart: {several} of a batch are others'; "
        raise wrong(definition.path, f"{reason}add columns to it, or GROUP BY it")
