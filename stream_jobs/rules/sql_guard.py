"""What SQL that people write may do: compute from the rows it is given, and nothing else.

Judged on Spark's parsed plan, before names are resolved and before anything is read or run. The lists in
sql_guard.yaml say what may be there; what they do not name is refused, as a new statement of Spark.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  Spark's own convention

from infra.contract.errors import ConfigError
from infra.settings.files import read_yaml

_TERMS: Final = "org.apache.spark.sql.catalyst.expressions"
"""Package of all terms that need no resolution: literals, operators, casts, CASE, LIKE, lambdas, windows."""
_ALLOWED: Final = read_yaml(Path(__file__).with_suffix(".yaml"), "what SQL may hold")

Objection = tuple[str, int | None]
"""Why a text is refused, and the line, counted from 1; None where Spark does not tell it."""


@dataclass(frozen=True, slots=True)
class _Node:
    """A node of Spark's tree; ``java`` is the node itself, ``kind`` and ``package`` those of its class.

    ``operator``: a plan's; else it is a term of an expression. ``readable``: what may be read here, the view
    and the names of the WITHs around; empty in an expression by itself.
    """

    java: Any
    kind: str
    package: str
    operator: bool
    readable: frozenset[str]


def query_objection(statement: str, view: str) -> Objection | None:
    """The first thing in the statement that is no part of one SELECT over the view; Spark's errors go up."""
    return _first_objection(statement, frozenset((view,)))


def foreign_relation(rows: DataFrame, view: str) -> str | None:
    """What an analysed query reads that is neither the view nor rows of its own; None: nothing."""
    for node in _nodes(rows._jdf.queryExecution().analyzed(), True, frozenset((view,))):
        if node.operator and node.java.children().isEmpty() and node.kind not in _ALLOWED["leaves"]:
            return str(node.java.nodeName())
    return None


def expression(text: str) -> Column:
    """A rule's expression as a column; raises ConfigError for one that does more than compute."""
    objection = _first_objection(text, frozenset())
    if objection is not None:
        raise ConfigError(f"expression {text!r}: {objection[0]}")
    return F.expr(text)


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
    elif kind in _ALLOWED["subqueries"]:
        yield from _nodes(java.plan(), True, readable)


@lru_cache(maxsize=4096)
def _first_objection(text: str, readable: frozenset[str]) -> Objection | None:
    """Of a query over what is ``readable``, or of an expression, where that is nothing."""
    spark: Any = SparkSession.active()
    parser, is_query = spark._jsparkSession.sessionState().sqlParser(), bool(readable)
    parsed = parser.parsePlan(text) if is_query else parser.parseExpression(text)
    for node in _nodes(parsed, is_query, readable):
        reason = _of_operator(node) if node.operator else _of_term(spark, node)
        if reason is not None:
            line = node.java.origin().line()
            return reason, line.get() if line.isDefined() else None
    return None


def _of_operator(node: _Node) -> str | None:
    if node.kind not in _ALLOWED["operators"]:
        return f"{node.kind} is no part of one SELECT over the view"
    if node.kind == "UnresolvedWith" and node.java.allowRecursion():
        return "WITH RECURSIVE is not taken"
    if node.kind == "UnresolvedRelation":
        name = ".".join(_each(node.java.multipartIdentifier()))
        if name.lower() not in node.readable or not node.java.options().isEmpty():
            return f"it reads {name}; only {', '.join(sorted(node.readable))} may be read, without options"
    return None


def _of_term(spark: Any, node: _Node) -> str | None:
    if node.kind in _ALLOWED["subqueries"] and not node.readable:
        return "a subquery has no place in a rule"
    if node.kind in ("UnresolvedFunction", "UnresolvedGenerator"):
        is_function = node.kind == "UnresolvedFunction"
        name = ".".join(_each(node.java.nameParts())) if is_function else node.java.name().unquotedString()
        registry = spark._jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry
        found = registry.expressions().get(name.lower())
        if found.isEmpty() or found.get()._1().getGroup() not in _ALLOWED["groups"]:
            return f"function {name.lower()} is not known, or does more than compute from its arguments"
        return None
    if node.kind == "UnresolvedAttribute" and node.java.name().lower() in _ALLOWED["environment"]:
        return f"{node.java.name()} tells of the machine, not of the rows"
    if node.kind in _ALLOWED["unresolved"] or node.package.startswith(_TERMS):
        return None
    return f"{node.kind} is no part of an expression over the rows"


def _each(sequence: Any) -> Iterator[Any]:
    iterator = sequence.iterator()
    while iterator.hasNext():
        yield iterator.next()
