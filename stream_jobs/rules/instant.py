"""Instant rules in Spark: their expressions checked before anything runs, and the findings of single records,
which are parsed and judged by Spark's expressions, since real-time mode runs no Python.

Input are records (stream_jobs/app/queries.py); output is a row a finding with the contract's ALERT_KEYS.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  Spark's own convention
from pyspark.sql import types as T  # noqa: N812  Spark's own convention
from pyspark.sql.pandas.types import from_arrow_schema

from infra.contract.errors import ConfigError
from infra.contract.messages import ALERT_KEYS
from infra.contract.verdict import OK, QUARANTINED, UNREADABLE, ClockLimits, exceptions
from stream_jobs.app.schema import HEAD
from stream_jobs.frames.batch import RANGES, VIN
from stream_jobs.frames.plausibility import POSITION, plausible_place, with_plausible
from stream_jobs.frames.reading import FRAME_SCHEMA
from stream_jobs.rules.model import Gives, Rule, wrong
from stream_jobs.rules.sql_guard import expression

FRAME: Final = from_arrow_schema(FRAME_SCHEMA)  # head and signals: fast ones arrays, slow ones scalars
DELTA_VS: Final = ("delta_v_kmh", "delta_v_lat_kmh")
_CRASH_FIELDS: Final = {
    T.StringType(): ("vehicle_id", "crash_id", "profile"),
    T.LongType(): ("boot_id", "seq", "event_ms", "ignition_cycle", "multi_event", "part"),
    T.BooleanType(): ("airbag_deployed", "belt_on", "warning_lamp_on", "complete"),
    T.DoubleType(): ("delta_v_max_kmh", "delta_v_max_ms", *POSITION),
    T.ArrayType(T.DoubleType()): DELTA_VS,
}
CRASH: Final = T.StructType([T.StructField(n, kind) for kind, names in _CRASH_FIELDS.items() for n in names])
"""What the rules see of a crash record's JSON."""

_FINDINGS: Final = (
    "array<struct<rule:string,rule_version:int,severity:string,value:double,limit:double,message:string>>"
)
_STRICT_JSON: Final = {"mode": "PERMISSIVE", "allowNonNumericNumbers": "false"}
Expected = type[T.BooleanType] | type[T.NumericType] | type[T.ArrayType]
EXPECTED: Final[dict[Gives, tuple[Expected, str]]] = {
    "BOOLEAN": (T.BooleanType, "true or false"), "DOUBLE": (T.NumericType, "a number"),
    "VARCHAR[]": (T.ArrayType, "an array of texts"),
}  # fmt: skip


def check_expressions(spark: SparkSession, path: Path, rules: Iterable[Rule]) -> None:
    """Let Spark analyse all expressions of instant rules; raises ConfigError naming the key.

    Aggregates, generators and unknown columns are refused too.
    """
    crash = T.StructType([*CRASH, T.StructField("impact_kmh", T.DoubleType())])
    empty = {s: spark.createDataFrame([], schema) for s, schema in (("frame", FRAME), ("crash", crash))}
    for rule in rules:
        rows, given, types = empty[rule.source], rule.expressions(), list[T.DataType]()
        with suppress(PySparkException, ConfigError):  # all of them at once, because asking is what costs
            types = _types(rows, [text for _, text, _ in given])
        for place, (key, text, gives) in enumerate(given):
            try:
                found = types[place] if types else _types(rows, [text])[0]
            except (PySparkException, ConfigError) as error:
                first_line = str(error).strip().splitlines()[0]
                raise wrong(path, rule.id, key, f"is not understood: {first_line}") from error
            expected, wanted = EXPECTED[gives]
            if not isinstance(found, expected):
                raise wrong(path, rule.id, key, f"gives {found.simpleString()}, not {wanted}")


def _types(rows: DataFrame, texts: Sequence[str]) -> list[T.DataType]:
    """What expressions give; in a filter too, since Spark refuses aggregates and generators there."""
    columns = [expression(text) for text in texts]
    there = reduce(lambda a, b: a & b, (column.isNotNull() for column in columns))
    return [field.dataType for field in rows.where(there).select(*columns).schema]


def parse(records: DataFrame, schema: T.StructType) -> DataFrame:
    """Records with the fields of ``schema`` out of ``value``; all null where that is no JSON object.

    A head field outside the contract's range is null too: no arithmetic on it can overflow later. So is the
    vehicle of what lies under another vehicle's ``key``: it is nobody's.
    """
    parsed = F.from_json(F.col("value").cast("string"), schema, _STRICT_JSON)
    others = [c for c in records.columns if c != "value"]
    # The array of one is a fence: without it the optimizer copies the parsing into every later filter.
    fenced = records.select(*others, F.explode(F.array(parsed)).alias("frame"))
    return fenced.select(*others, *(_field(name) for name in schema.fieldNames()))


def _field(name: str) -> Column:
    value = F.col("frame").getField(name)
    if name == "vehicle_id":
        return F.when(value.rlike(VIN) & (value == F.col("key").cast("string")), value).alias(name)
    if name not in RANGES:
        return value.alias(name)
    low, high = RANGES[name]
    return F.when(value.between(low, high), value).alias(name)


def with_verdict(frames: DataFrame, limits: ClockLimits) -> DataFrame:
    """Frames with ``span_ms``, from first to last sample, and ``verdict``, the first that fits."""
    readable = reduce(lambda a, b: a & b, (F.col(name).isNotNull() for name in HEAD))
    span_ms = (F.col("n") - 1) * F.col("dt_ms")
    verdict = F.when(~readable, UNREADABLE)
    for fits, word in exceptions(F.col("t0_ms"), span_ms, F.col("received_ms"), limits):
        verdict = verdict.when(fits, word)
    return frames.withColumns({"span_ms": span_ms, "verdict": verdict.otherwise(OK)})


def frame_findings(records: DataFrame, rules: Sequence[Rule], limits: ClockLimits) -> DataFrame:
    """Findings in telemetry; none from a quarantined frame. A late one does raise: its times tell its age."""
    words = set[str]().union(*(rule.words() for rule in rules))
    schema = T.StructType([f for f in FRAME if f.name in words.union(HEAD, POSITION)])
    judged = with_verdict(parse(records, schema), limits)
    placed = words.union(POSITION) if words.intersection(POSITION) else words
    seen = with_plausible(judged, [f.name for f in schema if f.name in placed and f.name not in HEAD])
    # Where a frame was is asked only of one that raises something; a rule may have asked before: it stays so.
    found = with_plausible(_raised(seen, rules, ~F.col("verdict").isin(*QUARANTINED)), POSITION)
    last_known = {n: F.try_element_at(F.filter(n, lambda x: x.isNotNull()), F.lit(-1)) for n in POSITION}
    event_ms = F.col("t0_ms") + F.col("span_ms")
    return _alerts(found.withColumns(last_known).withColumn("event_ms", event_ms), "seq")


def crash_findings(records: DataFrame, rules: Sequence[Rule], limits: ClockLimits) -> DataFrame:
    """Findings in crash records; none is kept back: an unbelievable clock is replaced by the receipt.

    Of a record in parts, part 0 is judged: it repeats what rules see, so its findings are those of the whole.
    """
    # The largest change of speed by magnitude in either direction.
    peaks = [F.array_max(F.transform(F.col(name), F.abs)) for name in DELTA_VS]
    impact_kmh = F.greatest(F.abs(F.col("delta_v_max_kmh")), *peaks)
    crashes = parse(records, CRASH).withColumn("impact_kmh", impact_kmh)
    crashes = crashes.withColumns(dict(zip(POSITION, plausible_place(), strict=True)))
    believed = F.col("event_ms").between(limits.floor_ms, F.col("received_ms") + limits.ahead_ms)
    named = F.col("vehicle_id").isNotNull() & F.col("crash_id").isNotNull()
    whole = named & (F.col("part").isNull() | (F.col("part") == 0))
    event_ms = F.when(believed, F.col("event_ms")).otherwise(F.col("received_ms"))
    return _alerts(_raised(crashes, rules, whole).withColumn("event_ms", event_ms), "crash_id")


def kafka_records(alerts: DataFrame) -> DataFrame:
    """Alerts as Kafka's ``key`` (the vehicle) and ``value`` (JSON with every key, null where not known)."""
    value = F.to_json(F.struct(*ALERT_KEYS), {"ignoreNullFields": "false"})
    return alerts.select(F.col("vehicle_id").alias("key"), value.alias("value"))


def _raised(rows: DataFrame, rules: Sequence[Rule], gate: Column) -> DataFrame:
    """A row a ``finding``: of nearly every row none.

    What decides that is in a column by itself: Spark compiles a column, and interprets what it unfolds.
    """
    holds, findings = [], []
    for rule in rules:
        condition, value, limit = expression(rule.condition), expression(rule.value), F.lit(None)
        if rule.limit is not None:
            limit = expression(rule.limit)
            condition &= value > limit if rule.beyond == "above" else value < limit
        about = F.lit(None) if rule.names is None else F.array_join(expression(rule.names), ", ")
        about = F.nullif(about.cast("string"), F.lit(""))
        finding = F.struct(
            F.concat_ws(".", F.lit(rule.id), *[about] * rule.apart).alias("rule"),
            F.lit(rule.version).alias("rule_version"),
            F.lit(rule.severity).alias("severity"),
            value.cast("double").alias("value"),
            limit.cast("double").alias("limit"),
            F.concat_ws(": ", F.lit(rule.message), about).alias("message"),
        )
        holds.append(condition)
        findings.append(F.when(condition, finding))
    some = reduce(lambda a, b: a | b, holds, F.lit(False))
    judged = rows.withColumn("findings", F.when(gate & some, F.array(*findings).cast(_FINDINGS)))
    return judged.withColumn("finding", F.explode(F.array_compact("findings"))).drop("findings")


def _alerts(judged: DataFrame, identity: str) -> DataFrame:
    """The contract's columns. The id hashes what makes a finding the same one: found again, it is no news.

    ``identity``: the column that tells records of a boot apart.
    """
    same = ("vehicle_id", "finding.rule", "finding.rule_version", "boot_id", identity)
    alert_id = F.substring(F.sha2(F.concat_ws("|", *same), 256), 1, 32).alias("alert_id")
    flat = judged.select(alert_id, "*", "finding.*")
    return flat.select(*ALERT_KEYS)
