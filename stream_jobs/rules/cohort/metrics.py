"""What is compared within a cohort: data out of a YAML file. Pure but for reading it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infra.contract.messages import SEVERITIES
from stream_jobs.maintenance.rollups import NAMES
from stream_jobs.rules.entries import Entry, read_entries

SHIPPED: Final = Path(__file__).with_name("metrics.yaml")
RULE: Final = "cohort_"
"""Before a metric's name it is the id of its rule."""
CLEAR_SHARE: Final = 0.75
"""Of the limit, where a metric does not say below which z it is over."""
MOST_BUCKETS: Final = 100
SIDES: Final[Mapping[str, tuple[int, ...]]] = {"above": (1,), "below": (-1,), "both": (1, -1)}
_ID: Final = re.compile(r"[a-z][a-z0-9_]{0,39}")
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]*(?!\w|\s*\()", re.IGNORECASE)
"""A word that is no function."""
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
_TEXTS: Final = ("metric", "value", "unit", "side", "severity", "message")
_WHOLE: Final = ("buckets", "version")


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric; ``value`` and ``when`` are SQL over the columns of a bucket, ``floor`` is in ``unit``."""

    metric: str
    value: str
    unit: str
    side: str
    z: float
    floor: float
    buckets: int
    severity: str
    version: int
    message: str
    clear_z: float
    when: str = "true"

    @property
    def rule(self) -> str:
        """The id of its rule."""
        return RULE + self.metric

    def beyond(self, z: float) -> int:
        """On which side ``z`` is beyond the limit: 1 above, -1 below, 0 not."""
        return next((side for side in SIDES[self.side] if side * z >= self.z), 0)


def load_metrics(path: Path | None = None) -> tuple[Metric, ...]:
    """The metrics in ``path``, or those that ship; raises ConfigError naming file, metric and key."""
    entries = read_entries(path or SHIPPED, "cohort metrics", "metrics", "metric")
    return tuple(_metric(entry) for entry in entries)


def _metric(entry: Entry) -> Metric:
    entry.check_keys((*_TEXTS, "z", "floor", *_WHOLE), ("when", "clear_z"))
    texts = {key: entry.text(key) for key in (*_TEXTS, "when") if key in entry}
    if _ID.fullmatch(texts["metric"]) is None:
        raise entry.wrong("metric", "is not a name of a-z, 0-9 and _ that starts with a letter")
    for key, words in (("side", SIDES), ("severity", SEVERITIES)):
        entry.word(key, None, words)
    for key in ("value", "when"):
        _check_sql(entry, key, texts.get(key, "").lower())
    z, floor = entry.positive("z"), entry.positive("floor")
    clear_z = entry.positive("clear_z", CLEAR_SHARE * z)
    if clear_z > z:
        raise entry.wrong("clear_z", f"{clear_z:g} is not above 0 and at most z")
    whole = {key: entry.whole(key, None, 1, MOST_BUCKETS) for key in _WHOLE}
    return Metric(**texts, **whole, z=z, floor=floor, clear_z=clear_z)  # type: ignore[arg-type]


def _check_sql(entry: Entry, key: str, text: str) -> None:
    if text and (not _PLAIN.fullmatch(text) or "--" in text or "/*" in text):
        raise entry.wrong(key, f"{text!r} has more than columns, numbers, operators and functions")
    calls = set(_CALL.findall(text)) - _KEYWORDS - _FUNCTIONS
    if calls:
        known = ", ".join(sorted(_FUNCTIONS))
        raise entry.wrong(key, f"calls {', '.join(sorted(calls))}; functions are {known}")
    unknown = set(_NAME.findall(text)) - _KEYWORDS - set(NAMES)
    if unknown:
        raise entry.wrong(
            key, f"names what is no column of odograph.vehicle_minute: {', '.join(sorted(unknown))}"
        )
