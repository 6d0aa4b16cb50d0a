"""Alert rules: data with Spark SQL expressions, read from a YAML file.

Nothing of Spark is needed here; rule_check.py lets Spark judge the expressions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from infra.contract.errors import ConfigError
from infra.contract.messages import SEVERITIES
from infra.contract.yaml_file import read_yaml
from stream_jobs.rule_errors import text, wrong
from stream_jobs.rule_kinds import NO_VALUE, VALUELESS, Lasting
from stream_jobs.rule_lasting import known_keys, read_lasting

SHIPPED: Final = Path(__file__).with_name("rules.yaml")
SOURCES: Final = ("frame", "crash")
SIDES: Final = ("above", "below")
QUERIES: Final = ("instant", "vehicles")
INSTANT, VEHICLES = QUERIES
CLEAR_FOR_S: Final = 60.0
"""Seconds of event time without a finding that clear an alert whose rule does not say."""

UNTIMED: Final = ("silence", "geofence")
"""Kinds whose alerts end when their detector says so, not by a time without findings."""

_ID: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
_WORD: Final = re.compile(r"[a-z_][a-z0-9_]*", re.IGNORECASE)
_REQUIRED: Final = ("id", "version", "severity", "source", "value", "message")
_OPTIONAL: Final = ("query", "condition", "beyond", "limit", "clear_for_s")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. ``condition``, ``value`` and ``limit`` are Spark SQL over the columns of ``source``.

    ``limit`` and ``beyond`` are None together: then the condition alone decides. ``clear_for_s`` None: the
    alert does not clear by itself.
    """

    id: str
    version: int
    severity: str
    source: str
    condition: str
    value: str
    limit: str | None
    beyond: str | None
    clear_for_s: float | None
    message: str
    query: str = INSTANT
    lasting: Lasting | None = None
    """What a rule of the query ``vehicles`` has besides; None for ``instant``."""

    def words(self) -> set[str]:
        """Every word of the expressions: the columns it reads are among them."""
        texts = [self.condition, self.value, self.limit]
        if self.lasting is not None:
            lasting = self.lasting
            texts += [lasting.clear, lasting.armed, lasting.learn, lasting.names]
        return set(_WORD.findall(" ".join(each for each in texts if each)))


def of_query(rules: Iterable[Rule], query: str) -> tuple[Rule, ...]:
    """The rules of one query."""
    return tuple(rule for rule in rules if rule.query == query)


def load_rules(path: Path | None = None) -> tuple[Rule, ...]:
    """The rules in ``path``, or those that ship; raises ConfigError naming file, rule and key."""
    path = path or SHIPPED
    document = read_yaml(path, "rules file")
    if (
        not isinstance(document, dict)
        or list(document) != ["rules"]
        or not isinstance(document["rules"], list)
    ):
        raise ConfigError(f"rules file {path}: expected one key, `rules`, with a list of rules")
    rules = tuple(_rule(path, place, entry) for place, entry in enumerate(document["rules"], start=1))
    _refuse_duplicates(path, rules)
    return rules


def _refuse_duplicates(path: Path, rules: Iterable[Rule]) -> None:
    seen: set[str] = set()
    for rule in rules:
        if rule.id in seen:
            raise wrong(path, rule.id, "id", "is used twice")
        seen.add(rule.id)


def _rule(path: Path, place: int, entry: object) -> Rule:
    if not isinstance(entry, dict):
        raise ConfigError(f"rules file {path}, rule {place}: expected keys and values")
    name = str(entry.get("id", f"number {place}"))
    lasts = entry.get("query") == VEHICLES
    entry = _with_defaults(entry) if lasts else entry
    _check_keys(path, name, entry, known_keys(path, name, entry) if lasts else ())
    _check_words(path, name, entry)
    limit, beyond = _limit(path, name, entry)
    return Rule(
        id=name,
        version=entry["version"],
        severity=entry["severity"],
        source=entry["source"],
        condition=text(path, name, "condition", entry.get("condition", "true")),
        value=text(path, name, "value", entry["value"]),
        limit=limit,
        beyond=beyond,
        clear_for_s=_clear_for(path, name, entry),
        message=text(path, name, "message", entry["message"]),
        query=entry.get("query", INSTANT),
        lasting=read_lasting(path, name, entry) if lasts else None,
    )


def _with_defaults(entry: dict[Any, Any]) -> dict[Any, Any]:
    """A rule that lasts is over frames; some kinds make their value themselves."""
    value = {"value": NO_VALUE} if entry.get("kind") in VALUELESS else {}
    defaults: dict[Any, Any] = {"source": "frame"}
    return defaults | value | entry


def _check_keys(path: Path, name: str, entry: Mapping[Any, Any], more: tuple[str, ...]) -> None:
    known = (*_REQUIRED, *_OPTIONAL, *more)
    for key in entry:
        if key not in known:
            raise wrong(path, name, str(key), f"is unknown; known: {', '.join(dict.fromkeys(known))}")
    for key in _REQUIRED:
        if key not in entry:
            raise wrong(path, name, key, "is missing")


def _check_words(path: Path, name: str, entry: Mapping[str, Any]) -> None:
    if not isinstance(entry["id"], str) or _ID.fullmatch(entry["id"]) is None:
        raise wrong(path, name, "id", "is not a name of a-z, 0-9 and _ that starts with a letter")
    if type(entry["version"]) is not int or entry["version"] < 1:
        raise wrong(path, name, "version", f"{entry['version']!r} is not a whole number from 1 on")
    lasts = entry.get("query") == VEHICLES
    sources = SOURCES[:1] if lasts else SOURCES
    choices = (("severity", SEVERITIES), ("source", sources), ("query", QUERIES))
    for key, words in choices:
        if entry.get(key, INSTANT) not in words and (key in entry or key != "query"):
            raise wrong(path, name, key, f"{entry[key]!r} is none of {', '.join(words)}")


def _limit(path: Path, name: str, entry: Mapping[str, Any]) -> tuple[str | None, str | None]:
    if ("limit" in entry) != ("beyond" in entry):
        missing = "beyond" if "limit" in entry else "limit"
        raise wrong(path, name, missing, "is missing: `limit` and `beyond` go together")
    if "limit" not in entry:
        return None, None
    if entry["beyond"] not in SIDES:
        raise wrong(path, name, "beyond", f"{entry['beyond']!r} is none of {', '.join(SIDES)}")
    limit = entry["limit"]
    if type(limit) in (int, float):
        return repr(float(limit)) + "D", entry["beyond"]
    return text(path, name, "limit", limit), entry["beyond"]


def _clear_for(path: Path, name: str, entry: Mapping[str, Any]) -> float | None:
    if entry["source"] == "crash":
        if "clear_for_s" in entry:
            raise wrong(path, name, "clear_for_s", "has no meaning for a crash: it does not clear by itself")
        return None
    if entry.get("kind") in UNTIMED:
        if "clear_for_s" in entry:
            raise wrong(
                path, name, "clear_for_s", f"has no meaning for kind {entry['kind']}: it says when it ends"
            )
        return None
    seconds = entry.get("clear_for_s", CLEAR_FOR_S)
    if type(seconds) not in (int, float) or not 0 < seconds <= 86_400:
        raise wrong(path, name, "clear_for_s", f"{seconds!r} is not a number of seconds in 0..86400")
    return float(seconds)
