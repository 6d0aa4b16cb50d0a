"""What is compared within a cohort: data out of a YAML file. Pure but for reading it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from infra.contract.messages import Severity
from stream_jobs.maintenance.rollups import NAMES
from stream_jobs.rules.model import Number, Text, Whole, read_entries

SHIPPED: Final = Path(__file__).with_name("metrics.yaml")
RULE: Final = "cohort_"  # before a metric's name it is the id of its rule
CLEAR_SHARE: Final = 0.75  # of the limit, where a metric does not say below which z it is over
SIDES: Final[Mapping[str, tuple[int, ...]]] = {"above": (1,), "below": (-1,), "both": (1, -1)}
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]*(?!\w|\s*\()", re.IGNORECASE)  # a word that is no function
_KEYWORDS: Final = frozenset(
    ("and", "or", "not", "is", "null", "between", "in", "case", "when", "then", "else", "end")
)
_FUNCTIONS: Final = frozenset(
    ("abs", "ceil", "coalesce", "exp", "floor", "greatest", "least", "ln", "nullif", "power", "round", "sqrt")
)
"""Functions that compute from their arguments; others of PostgreSQL sleep, read files or end sessions."""
_CALL: Final = re.compile(r"([a-z_][a-z0-9_]*)\s*\(", re.IGNORECASE)
_PLAIN: Final = re.compile(r"[\s\w.,()<>=!+*/%-]+", re.ASCII)
"""No text, quoted name, statement's end, cast or parameter; remarks are looked for apart."""


def _sql(sql: str) -> str:
    """SQL that only computes from the columns of a bucket."""
    lower = sql.lower()
    if not _PLAIN.fullmatch(lower) or "--" in lower or "/*" in lower:
        raise ValueError(f"{lower!r} has more than columns, numbers, operators and functions")
    calls = set(_CALL.findall(lower)) - _KEYWORDS - _FUNCTIONS
    if calls:
        known = ", ".join(sorted(_FUNCTIONS))
        raise ValueError(f"calls {', '.join(sorted(calls))}; functions are {known}")
    unknown = set(_NAME.findall(lower)) - _KEYWORDS - set(NAMES)
    if unknown:
        raise ValueError(f"names what is no column of odograph.vehicle_minute: {', '.join(sorted(unknown))}")
    return sql


Positive = Annotated[Number, Field(gt=0)]
Sql = Annotated[Text, AfterValidator(_sql)]
Count = Annotated[Whole, Field(ge=1, le=100)]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric; ``value`` and ``when`` are SQL over the columns of a bucket, ``floor`` is in ``unit``."""

    metric: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
    value: Sql
    unit: Text
    side: Literal["above", "below", "both"]
    z: Positive
    floor: Positive
    buckets: Count
    severity: Severity
    version: Count
    message: Text
    clear_z: Positive
    when: Sql = "true"

    @property
    def id(self) -> str:
        """The id of its rule."""
        return RULE + self.metric

    def summary(self) -> dict[str, Any]:
        """Its rule in short; the limit is in scales of the cohort."""
        return {
            "id": self.id, "version": self.version, "severity": self.severity, "query": "cohort",
            "kind": "cohort", "source": "vehicle_minute", "beyond": self.side, "limit": f"z {self.z:g}",
            "clear_for_s": None, "message": self.message,
        }  # fmt: skip

    def beyond(self, z: float) -> int:
        """On which side ``z`` is beyond the limit: 1 above, -1 below, 0 not."""
        return next((side for side in SIDES[self.side] if side * z >= self.z), 0)


_KEYS: Final = tuple(each.name for each in fields(Metric))


def load_metrics(path: Path | None = None) -> tuple[Metric, ...]:
    """The metrics in ``path``, or those that ship; raises ConfigError naming file, metric and key."""
    found = []
    for entry in read_entries(path or SHIPPED, "cohort metrics", "metrics", "metric"):
        entry.check_keys(_KEYS[:-2], _KEYS[-2:])
        metric = entry.read(Metric, {} if "clear_z" in entry else {"clear_z": 1.0})
        if "clear_z" not in entry:
            metric = replace(metric, clear_z=CLEAR_SHARE * metric.z)
        if metric.clear_z > metric.z:
            raise entry.wrong("clear_z", f"{metric.clear_z:g} is not above 0 and at most z")
        found.append(metric)
    return tuple(found)
