"""What SQL that people write may do: compute from the rows it is given, and nothing else.

Judged on Spark's parsed plan, before names are resolved and before anything is read or run. Both lists say
what may be there; what they do not name is refused, so that a new statement of Spark is refused too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  Spark's own convention

from infra.contract.errors import ConfigError

_TERMS: Final = "org.apache.spark.sql.catalyst.expressions"
"""Package of all terms that need no resolution: literals, operators, casts, CASE, LIKE, lambdas, windows."""
_SUBQUERIES: Final = frozenset(("ScalarSubquery", "ListQuery", "Exists", "LateralSubquery"))
_OPERATORS: Final = frozenset(
    (
        *("Project", "Filter", "Aggregate", "UnresolvedHaving", "SubqueryAlias", "UnresolvedWith"),
        *("UnresolvedSubqueryColumnAliases", "UnresolvedRelation", "Join", "LateralJoin", "Generate"),
        *("Union", "Distinct", "Except", "Intersect", "Sort", "GlobalLimit", "LocalLimit", "Offset"),
        *("OneRowRelation", "LocalRelation", "UnresolvedInlineTable"),
    )
)
"""Operators of a SELECT. All of their expressions are among what Spark calls a node's expressions: of
WithWindowDefinition, for one, they are not. A hint, TRANSFORM, a table function, a table's past and all that
writes are other operators."""
_UNRESOLVED: Final = frozenset(
    (
        *("UnresolvedAttribute", "UnresolvedFunction", "UnresolvedAlias", "UnresolvedExtractValue"),
        *("MultiAlias", "UnresolvedStar", "UnresolvedStarExceptOrReplace", "UnresolvedOrdinal"),
    )
)
"""Expressions that wait for their resolution; no IDENTIFIER(), no parameter."""
_GROUPS: Final = frozenset(
    f"{name}_funcs"
    for name in (
        *("agg", "array", "bitwise", "collection", "conditional", "conversion", "datetime", "generator"),
        *("hash", "json", "lambda", "map", "math", "predicate", "string", "struct", "variant", "window"),
    )
)
"""Spark's groups of functions that compute from their arguments alone. Others run classes (reflect), read
files (from_protobuf, from_avro, from_xml by their options; input_file_name) or tell of the machine."""
_ENVIRONMENT: Final = frozenset(
    (
        *("current_catalog", "current_database", "current_path", "current_schema", "current_user"),
        *("session_user", "user"),
    )
)
"""Functions that are called without parentheses too."""
_LEAVES: Final = frozenset(("OneRowRelation", "LocalRelation", "CTERelationRef"))
"""What an analysed query reads besides its view: rows written in it."""


@dataclass(frozen=True, slots=True)
class Objection:
    """Why a text is refused; the line is counted from 1, None where Spark does not tell it."""

    line: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class _Node:
    """A node of Spark's tree; ``java`` is the node itself, ``kind`` and ``package`` those of its class."""

    java: Any
    kind: str
    package: str
    operator: bool
    """A plan's; else it is a term of an expression."""
    readable: frozenset[str]
    """What may be read here: the view and the names of the WITHs around; empty in an expression by itself."""


def query_objection(spark: SparkSession, statement: str, view: str) -> Objection | None:
    """The first thing in the statement that is no part of one SELECT over the view; Spark's errors go up."""
    nodes = _nodes(_parser(spark).parsePlan(statement), True, frozenset((view,)))
    return next(filter(None, (_objection(spark, node) for node in nodes)), None)


def foreign_relation(rows: DataFrame, view: str) -> str | None:
    """What an analysed query reads that is neither the view nor rows of its own; None: nothing."""
    for node in _nodes(rows._jdf.queryExecution().analyzed(), True, frozenset((view,))):
        if node.operator and node.java.children().isEmpty() and node.kind not in _LEAVES:
            return str(node.java.nodeName())
    return None


def expression(text: str) -> Column:
    """A rule's expression as a column; raises ConfigError for one that does more than compute."""
    reason = _expression_objection(text)
    if reason is not None:
        raise ConfigError(f"expression {text!r}: {reason}")
    return F.expr(text)


@lru_cache(maxsize=4096)
def _expression_objection(text: str) -> str | None:
    spark = SparkSession.active()
    nodes = _nodes(_parser(spark).parseExpression(text), False, frozenset())
    found = next(filter(None, (_objection(spark, node) for node in nodes)), None)
    return None if found is None else found.reason


def _parser(spark: SparkSession) -> Any:
    session: Any = spark._jsparkSession
    return session.sessionState().sqlParser()


def _nodes(java: Any, operator: bool, readable: frozenset[str]) -> Iterator[_Node]:
    """A plan or an expression with all that is below it, subqueries too, but nothing below the view."""
    package, _, kind = java.getClass().getName().rpartition(".")
    yield _Node(java, kind, package, operator, readable)
    if kind == "View" and java.desc().identifier().table() in readable:
        return
    if kind == "UnresolvedWith":
        for named in _each(java.cteRelations()):
            yield from _nodes(named._2(), True, readable)
            readable |= {named._1().lower()}
    for child in _each(java.children()):
        yield from _nodes(child, operator, readable)
    if operator:
        for term in _each(java.expressions()):
            yield from _nodes(term, False, readable)
    elif kind in _SUBQUERIES:
        yield from _nodes(java.plan(), True, readable)


def _objection(spark: SparkSession, node: _Node) -> Objection | None:
    reason = _of_operator(node) if node.operator else _of_term(spark, node)
    if reason is None:
        return None
    line = node.java.origin().line()
    return Objection(line.get() if line.isDefined() else None, reason)


def _of_operator(node: _Node) -> str | None:
    if node.kind not in _OPERATORS:
        return f"{node.kind} is no part of one SELECT over the view"
    if node.kind == "UnresolvedWith" and node.java.allowRecursion():
        return "WITH RECURSIVE is not taken"
    if node.kind == "UnresolvedRelation":
        name = ".".join(_each(node.java.multipartIdentifier()))
        if name.lower() not in node.readable or not node.java.options().isEmpty():
            return f"it reads {name}; only {', '.join(sorted(node.readable))} may be read, without options"
    return None


def _of_term(spark: SparkSession, node: _Node) -> str | None:
    if node.kind in _SUBQUERIES and not node.readable:
        return "a subquery has no place in a rule"
    if node.kind == "UnresolvedFunction":
        return _of_function(spark, ".".join(_each(node.java.nameParts())).lower())
    if node.kind == "UnresolvedGenerator":
        return _of_function(spark, node.java.name().unquotedString().lower())
    if node.kind == "UnresolvedAttribute" and node.java.name().lower() in _ENVIRONMENT:
        return f"{node.java.name()} tells of the machine, not of the rows"
    if node.kind in _UNRESOLVED or node.package.startswith(_TERMS):
        return None
    return f"{node.kind} is no part of an expression over the rows"


def _of_function(spark: SparkSession, name: str) -> str | None:
    jvm: Any = spark._jvm
    found = jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry.expressions().get(name)
    if found.isDefined() and found.get()._1().getGroup() in _GROUPS:
        return None
    return f"function {name} is not known, or does more than compute from its arguments"


def _each(sequence: Any) -> Iterator[Any]:
    iterator = sequence.iterator()
    while iterator.hasNext():
        yield iterator.next()
