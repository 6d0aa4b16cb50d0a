"""What the rules of the query ``vehicles`` say of each frame: their Spark SQL, evaluated by DuckDB by column.

sqlglot translates each expression once, when the rules are loaded; DuckDB evaluates all of them over a batch
of frames in one query, and numpy makes a rule's flags of them. Both engines give the same answers, null
included: rules may call only what CALLS names, and a property test compares the two on generated frames for
every shipped rule. What does not translate is refused with rule and key (check_translations).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
import structlog
from sqlglot import expressions as sx
from sqlglot.errors import SqlglotError

from infra.clients.duck import PlannedQuery
from stream_jobs.frames.reading import FRAME_SCHEMA
from stream_jobs.rules import model
from stream_jobs.rules.inputs import Names, RuleInputs, beyond, unknown_inputs
from stream_jobs.rules.model import Gives, Rule
from stream_jobs.vehicles.lookups import COLUMNS, HISTORY

log = structlog.get_logger("stream_jobs.rules")
CALLS: Final = (
    sx.Abs, sx.Array, sx.ArrayMax, sx.ArrayMin, sx.ArraySize, sx.Case, sx.Cast, sx.Coalesce, sx.Connector,
    sx.Greatest, sx.If, sx.Least, sx.VarMap,
)  # fmt: skip
"""The functions that rules may call: both engines agree on them."""
NOT_KNOWN: Final = np.int8(0)
_YES, _NO = (pa.scalar(answer, pa.int8()) for answer in (1, -1))
_READ: Final[dict[Gives, Callable[[Any], Any]]] = {
    "BOOLEAN": lambda column: pc.fill_null(pc.if_else(column, _YES, _NO), 0).to_numpy(zero_copy_only=False),
    "DOUBLE": lambda column: pc.fill_null(column, np.nan).to_numpy(zero_copy_only=False),
    "VARCHAR[]": lambda column: column,
}


class UntranslatableError(ValueError):
    """An expression that DuckDB cannot evaluate as Spark does; the message says what of it."""


@cache
def translated(text: str) -> str:
    """Spark SQL as DuckDB's. Raises UntranslatableError."""
    try:
        tree = sqlglot.parse_one(text, read="spark")
        for node in tree.walk():
            if isinstance(node, sx.Query) or (isinstance(node, sx.Func) and not isinstance(node, CALLS)):
                raise UntranslatableError(f"may not use {node.sql(dialect='spark')}")
        return tree.transform(_as_spark).sql(dialect="duckdb")
    except (SqlglotError, RecursionError) as error:
        raise UntranslatableError(f"is not understood: {str(error).splitlines()[0]}") from error


def _as_spark(node: sx.Expression) -> sx.Expression:
    """What the engines do differently: a cast to a whole number cuts off; null has the size -1."""
    if isinstance(node, sx.Cast) and node.to.this in sx.DataType.INTEGER_TYPES:
        node.this.replace(sx.Anonymous(this="trunc", expressions=[node.this.copy()]))
    if isinstance(node, sx.ArraySize):  # what stands in its place is not looked at again
        size = sx.ArraySize(this=node.this.transform(_as_spark))
        return sx.Coalesce(this=size, expressions=[sx.Literal.number(-1)])
    return node


@cache
def check(text: str, gives: Gives) -> None:
    """Raises UntranslatableError where DuckDB cannot evaluate the expression, or it gives something else."""
    try:
        found = str(_one_frame().sql(f"SELECT {translated(text)} FROM frames").types[0])  # noqa: S608
        is_list, is_flag = found.endswith("[]"), found == "BOOLEAN"
        if is_list != (gives == "VARCHAR[]") or is_flag != (gives == "BOOLEAN") or found == "VARCHAR":
            raise UntranslatableError(f"gives {found}, not {gives}")
        _one_frame().execute(f"SELECT {_column(text, gives)} FROM frames").fetchall()  # noqa: S608  translated
    except duckdb.Error as error:
        raise UntranslatableError(f"cannot be evaluated: {str(error).splitlines()[0]}") from error


_SAMPLES: Final = {
    pa.string(): "text", pa.int64(): 1, pa.float64(): 1.0, pa.bool_(): True,
    pa.list_(pa.float64()): [1.0], pa.list_(pa.string()): ["text"],
}  # fmt: skip


@cache
def _one_frame() -> duckdb.DuckDBPyConnection:
    """A table of one frame that has all signals: DuckDB finds that a value cannot be cast when there is one.

    One connection for all checks: each takes 10 ms to make.
    """
    kinds = {field.name: field.type for field in FRAME_SCHEMA}
    kinds |= dict.fromkeys(COLUMNS, pa.string()) | dict.fromkeys(HISTORY, pa.float64())
    frame = pa.table({name: pa.array([_SAMPLES[kind]], kind) for name, kind in kinds.items()})
    return duckdb.connect(config={"threads": 1, "enable_external_access": False}).register("frames", frame)


def check_translations(path: Path, rules: Iterable[Rule]) -> None:
    """Rules of the query vehicles are evaluated by DuckDB: raises ConfigError where it cannot."""
    for rule in model.of_query(rules, model.VEHICLES):
        for key, text, gives in rule.expressions():
            try:
                check(text, gives)
            except UntranslatableError as error:
                raise model.wrong(path, rule.id, key, str(error)) from error


class Evaluator:
    """Evaluates rules over frames. It has a DuckDB connection of its own: one for a thread."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self._wanted = tuple(dict.fromkeys(each[1:] for rule in rules for each in rule.expressions()))
        self._query = self._planned()
        self._guarded: PlannedQuery | None = None

    def _planned(self, guarded: bool = False) -> PlannedQuery:
        columns = (f"{_column(*pair, guarded)} AS c{k}" for k, pair in enumerate(self._wanted))
        return PlannedQuery(f"SELECT {', '.join(columns)} FROM frames", "frames")  # noqa: S608  translated

    def _answers(self, frames: pa.Table) -> pa.Table:
        """A column an expression, null for a frame for which it fails (an overflow), as in Spark."""
        try:
            return self._query(frames)
        except duckdb.Error as error:
            if self._guarded is None:
                log.error("an expression fails and is null there", reason=str(error).partition("\n")[0])
                self._guarded = self._planned(guarded=True)
            return self._guarded(frames)

    def __call__(self, frames: pa.Table) -> RuleInputs:
        """What all rules say of ``frames``: a row a frame, with the columns that the rules name."""
        columns = (column.combine_chunks() for column in self._answers(frames).columns)
        answers = {pair: _READ[pair[1]](each) for pair, each in zip(self._wanted, columns, strict=True)}
        inputs = unknown_inputs(len(self._rules), frames.num_rows)
        named = {k: rule.names for k, rule in enumerate(self._rules) if rule.names}
        for k, rule in enumerate(self._rules):
            flags, inputs.values[k], inputs.limits[k] = _evaluated(rule, answers)
            for of_rules, answer in zip(inputs.flags, flags, strict=True):
                of_rules[k] = answer
        names = {text: Names.of_texts(answers[text, "VARCHAR[]"]) for text in {*named.values()}}  # of many
        return replace(inputs, names={k: names[text] for k, text in named.items()})


def _column(text: str, gives: Gives, guarded: bool = False) -> str:
    """An expression as a column of DuckDB; a name that is not known (a gear) is no name.

    ``guarded``: null (of names none) for a frame for which it fails; costs more.
    """
    column, is_names = f"({translated(text)})::{gives}", gives == "VARCHAR[]"
    column = f"list_filter({column}, lambda x: x IS NOT NULL)" if is_names else column
    column = f"TRY({column})" if guarded else column
    return f"coalesce({column}, [])" if is_names else column


def _evaluated(rule: Rule, answers: Mapping[tuple[str, Gives], Any]) -> tuple[Any, Any, Any]:
    """One rule's FLAGS, value and limit (of kind unchanged: what the value follows) by frame; kinds with a
    value of their own know it where it counts.
    """
    condition, value = answers[rule.condition, "BOOLEAN"], answers[rule.value, "DOUBLE"]
    limit_of = rule.limit or rule.follows()
    limit = np.nan if limit_of is None else answers[limit_of, "DOUBLE"]
    holds, clears = condition, NOT_KNOWN
    if isinstance(rule.spec, model.Level) and rule.spec.mean_s == 0:
        above = rule.beyond == "above"
        holds = condition if rule.limit is None else np.minimum(condition, beyond(value, limit, above))
        if rule.clear is not None:
            back = answers[rule.clear, "BOOLEAN"]
        elif rule.clear_level is not None:
            back = -beyond(value, rule.clear_level, above)
        else:
            back = -holds
        clears = np.maximum(-condition, back)
    elif not isinstance(rule.spec, (model.Baseline, model.Count, model.Unchanged)):
        value = np.where(condition > 0, value, np.nan)
    armed = NOT_KNOWN if rule.armed is None else answers[rule.armed, "BOOLEAN"]
    learns = condition if rule.learn is None else answers[rule.learn, "BOOLEAN"]
    return (holds, clears, armed, learns), value, limit
