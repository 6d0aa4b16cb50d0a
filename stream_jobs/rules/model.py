"""Alert rules: data with Spark SQL expressions, read from a YAML file.

Nothing of Spark is needed here; rule_check.py lets Spark judge the expressions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from infra.contract.errors import ConfigError
from infra.contract.messages import SEVERITIES
from stream_jobs.rules.entries import Entry, read_entries
from stream_jobs.rules.kinds import NO_VALUE, VALUELESS, Stateful
from stream_jobs.rules.stateful import known_keys, read_stateful

SHIPPED: Final = Path(__file__).with_name("rules.yaml")
SOURCES: Final = ("frame", "crash")
SIDES: Final = ("above", "below")
QUERIES: Final = ("instant", "vehicles")
INSTANT, VEHICLES = QUERIES
VERSION_MAX: Final = 2**31 - 1
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
    stateful: Stateful | None = None
    """What a rule of the query ``vehicles`` has besides; None for ``instant``."""

    def words(self) -> set[str]:
        """Every word of the expressions: the columns it reads are among them."""
        texts = [self.condition, self.value, self.limit]
        if self.stateful is not None:
            stateful = self.stateful
            texts += [stateful.clear, stateful.armed, stateful.learn, stateful.names]
        return set(_WORD.findall(" ".join(each for each in texts if each)))


def of_query(rules: Iterable[Rule], query: str) -> tuple[Rule, ...]:
    """The rules of one query."""
    return tuple(rule for rule in rules if rule.query == query)


def load_rules(path: Path | None = None) -> tuple[Rule, ...]:
    """The rules in ``path``, or those that ship; raises ConfigError naming file, rule and key."""
    return tuple(_rule(entry) for entry in read_entries(path or SHIPPED, "rules file", "rules", "id"))


def wrong(path: Path, rule: str, key: str, reason: str) -> ConfigError:
    """The error that says where in the rules file something is wrong."""
    return Entry(f"rules file {path}", "rule", rule, {}).wrong(key, reason)


def _rule(entry: Entry) -> Rule:
    lasts = entry.values.get("query") == VEHICLES
    if lasts:
        entry = _with_defaults(entry)
    entry.check_keys(_REQUIRED, (*_OPTIONAL, *(known_keys(entry) if lasts else ())))
    if _ID.fullmatch(entry.name) is None or not isinstance(entry.values["id"], str):
        raise entry.wrong("id", "is not a name of a-z, 0-9 and _ that starts with a letter")
    limit, beyond = _limit(entry)
    return Rule(
        id=entry.name,
        version=entry.whole("version", None, 1, VERSION_MAX),
        severity=entry.word("severity", None, SEVERITIES),
        source=entry.word("source", None, SOURCES[:1] if lasts else SOURCES),
        condition=entry.text("condition", "true"),
        value=entry.text("value"),
        limit=limit,
        beyond=beyond,
        clear_for_s=_clear_for(entry),
        message=entry.text("message"),
        query=entry.word("query", INSTANT, QUERIES),
        stateful=read_stateful(entry) if lasts else None,
    )


def _with_defaults(entry: Entry) -> Entry:
    """A rule that lasts is over frames; some kinds make their value themselves."""
    value = {"value": NO_VALUE} if entry.values.get("kind") in VALUELESS else {}
    return replace(entry, values={"source": "frame"} | value | dict(entry.values))


def _limit(entry: Entry) -> tuple[str | None, str | None]:
    if ("limit" in entry) != ("beyond" in entry):
        missing = "beyond" if "limit" in entry else "limit"
        raise entry.wrong(missing, "is missing: `limit` and `beyond` go together")
    if "limit" not in entry:
        return None, None
    beyond, limit = entry.word("beyond", None, SIDES), entry.values["limit"]
    return (repr(float(limit)) + "D" if type(limit) in (int, float) else entry.text("limit")), beyond


def _clear_for(entry: Entry) -> float | None:
    endless = "a crash: it does not clear by itself" if entry.values["source"] == "crash" else None
    if entry.values.get("kind") in UNTIMED:
        endless = f"kind {entry.values['kind']}: it says when it ends"
    if endless is not None:
        if "clear_for_s" in entry:
            raise entry.wrong("clear_for_s", f"has no meaning for {endless}")
        return None
    seconds = entry.values.get("clear_for_s", CLEAR_FOR_S)
    if type(seconds) not in (int, float) or not 0 < seconds <= 86_400:
        raise entry.wrong("clear_for_s", f"{seconds!r} is not a number of seconds in 0..86400")
    return float(seconds)
