"""What is compared within a cohort: data out of a YAML file. Pure but for reading it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from infra.contract.errors import ConfigError
from infra.contract.messages import SEVERITIES
from infra.contract.yaml_file import read_yaml
from stream_jobs.rollups.columns import NAMES

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
_NUMBERS: Final = ("z", "floor")
_WHOLE: Final = ("buckets", "version")
_OPTIONAL: Final = ("when", "clear_z")


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
    path = path or SHIPPED
    document = read_yaml(path, "cohort metrics")
    entries = document.get("metrics") if isinstance(document, dict) and len(document) == 1 else None
    if not isinstance(entries, list):
        raise ConfigError(f"cohort metrics {path}: expected one key, `metrics`, with a list of metrics")
    metrics = tuple(_metric(path, place, entry) for place, entry in enumerate(entries, start=1))
    names = [metric.metric for metric in metrics]
    for name in names:
        if names.count(name) > 1:
            raise _wrong(path, name, "metric", "is used twice")
    return metrics


def _metric(path: Path, place: int, entry: object) -> Metric:
    if not isinstance(entry, dict):
        raise ConfigError(f"cohort metrics {path}, metric {place}: expected keys and values")
    name = str(entry.get("metric", f"number {place}"))
    _check(path, name, entry)
    for key in ("value", "when"):
        text = entry.get(key, "").lower()
        if text and (not _PLAIN.fullmatch(text) or "--" in text or "/*" in text):
            raise _wrong(path, name, key, f"{text!r} has more than columns, numbers, operators and functions")
        calls = set(_CALL.findall(text)) - _KEYWORDS - _FUNCTIONS
        if calls:
            known = ", ".join(sorted(_FUNCTIONS))
            raise _wrong(path, name, key, f"calls {', '.join(sorted(calls))}; functions are {known}")
        unknown = set(_NAME.findall(text)) - _KEYWORDS - set(NAMES)
        if unknown:
            names = ", ".join(sorted(unknown))
            raise _wrong(path, name, key, f"names what is no column of odograph.vehicle_minute: {names}")
    z = float(entry["z"])
    clear_z = float(entry.get("clear_z", CLEAR_SHARE * z))
    if not 0 < clear_z <= z:
        raise _wrong(path, name, "clear_z", f"{clear_z:g} is not above 0 and at most z")
    texts = {key: entry[key].strip() for key in (*_TEXTS, "when") if key in entry}
    return Metric(**(entry | texts | {"z": z, "floor": float(entry["floor"]), "clear_z": clear_z}))


def _check(path: Path, name: str, entry: Mapping[Any, Any]) -> None:
    required = (*_TEXTS, *_NUMBERS, *_WHOLE)
    for key in entry:
        if key not in (*required, *_OPTIONAL):
            raise _wrong(path, name, str(key), f"is unknown; known: {', '.join((*required, *_OPTIONAL))}")
    for key in required:
        if key not in entry:
            raise _wrong(path, name, key, "is missing")
    for key, value in entry.items():
        reason = _reason(key, value)
        if reason:
            raise _wrong(path, name, key, f"{value!r} is {reason}")
    if _ID.fullmatch(entry["metric"]) is None:
        raise _wrong(path, name, "metric", "is not a name of a-z, 0-9 and _ that starts with a letter")
    for key, words in (("side", tuple(SIDES)), ("severity", SEVERITIES)):
        if entry[key] not in words:
            raise _wrong(path, name, key, f"{entry[key]!r} is none of {', '.join(words)}")


def _reason(key: str, value: object) -> str:
    """Why a value cannot be one of its key; empty: it can."""
    if key in (*_TEXTS, "when"):
        return "" if isinstance(value, str) and value.strip() else "not a text"
    if key in _WHOLE:
        good = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST_BUCKETS
        return "" if good else f"not a whole number in 1..{MOST_BUCKETS}"
    number = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")
    return "" if number else "not a number above 0"


def _wrong(path: Path, name: str, key: str, reason: str) -> ConfigError:
    return ConfigError(f"cohort metrics {path}, metric {name}: `{key}` {reason}")
