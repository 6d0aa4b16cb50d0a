"""What the rules file says of rules that last (query `vehicles`), checked key by key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from infra.contract.messages import SEVERITIES
from stream_jobs.rule_errors import text, wrong
from stream_jobs.rule_fences import load_fences
from stream_jobs.rule_kinds import (
    GAP_S,
    KINDS,
    NO_VALUE,
    PER_S,
    Baseline,
    Clone,
    Count,
    Geofence,
    Lasting,
    Level,
    Silence,
    Slope,
    Unchanged,
)

Entry = Mapping[str, Any]

DAYS_MAX_S: Final = 90 * 86_400
LEVEL_MAX: Final = 1e9
GENERAL: Final = ("query", "kind", "while", "while_for_s", "while_pause_s", "gap_s", "names")
"""Keys that every kind may have, besides those of a rule of one frame."""
OWN: Final[dict[str, tuple[str, ...]]] = {
    "level": ("raise_for_s", "mean_s", "clear", "escalate"),
    "slope": ("span_s", "per", "sure", "clear", "escalate"),
    "baseline": (
        *("raise_for_s", "by", "against", "warm_up", "memory_s", "steady_s", "mean_s"),
        *("pause_s", "learn", "clear", "escalate"),
    ),
    "count": ("times", "span_s", "absent_s", "apart", "reversal"),
    "geofence": ("fences", "fences_file", "on", "margin_m"),
    "silence": ("silent_for_s",),
    "unchanged": ("raise_for_s", "frames"),
    "clone": ("overlap_s",),
}
_AGAINST: Final = ("mean", "p01", "p05", "median", "p95", "p99")


class Reader:
    """Numbers and words of one rule's entry; what is wrong is named by file, rule and key."""

    def __init__(self, path: Path, rule: str, entry: Entry) -> None:
        self.path, self.rule, self.entry = path, rule, entry

    def seconds(self, key: str, default: float | None, least: float = 0.0) -> float:
        """A time in seconds, at most 90 days; ``default`` None: it must be there."""
        return self.number(key, default, least, DAYS_MAX_S)

    def number(self, key: str, default: float | None, least: float, most: float) -> float:
        """A number in a range."""
        if key not in self.entry and default is None:
            raise wrong(self.path, self.rule, key, f"is missing: kind {self.entry['kind']} needs it")
        value = self.entry.get(key, default)
        if type(value) not in (int, float) or not least <= value <= most:  # NaN is in no range
            raise wrong(self.path, self.rule, key, f"{value!r} is not a number in {least:.10g}..{most:.10g}")
        return float(value)

    def whole(self, key: str, default: int | None, least: int, most: int) -> int:
        """A whole number in a range."""
        value = self.number(key, default, least, most)
        if value != int(value):
            raise wrong(self.path, self.rule, key, f"{value!r} is not a whole number")
        return int(value)

    def word(self, key: str, default: str | None, choices: tuple[str, ...]) -> str:
        """One of a few words."""
        value = self.entry.get(key, default)
        if value not in choices:
            raise wrong(self.path, self.rule, key, f"{value!r} is none of {', '.join(choices)}")
        return str(value)

    def flag(self, key: str) -> bool:
        """True or false; left out: false."""
        value = self.entry.get(key, False)
        if type(value) is not bool:
            raise wrong(self.path, self.rule, key, f"{value!r} is neither true nor false")
        return value

    def sql(self, key: str) -> str | None:
        """An expression, or None where left out."""
        return text(self.path, self.rule, key, self.entry[key]) if key in self.entry else None


def known_keys(path: Path, rule: str, entry: Entry) -> tuple[str, ...]:
    """The keys that a rule of this kind may have besides a frame rule's; raises ConfigError for the kind."""
    kind = Reader(path, rule, entry).word("kind", None, tuple(KINDS))
    return (*GENERAL, *OWN[kind])


def read_lasting(path: Path, rule: str, entry: Entry) -> Lasting:
    """The part of a rule that lasts; raises ConfigError naming file, rule and key."""
    reader = Reader(path, rule, entry)
    common = Lasting(
        spec=_SPECS[entry["kind"]](reader),
        armed=reader.sql("while"),
        armed_for_s=reader.seconds("while_for_s", 0.0),
        armed_pause_s=reader.seconds("while_pause_s", 0.0),
        learn=reader.sql("learn"),
        names=reader.sql("names"),
        gap_s=reader.seconds("gap_s", GAP_S, least=1.0),
        escalate=_escalate(reader),
    )
    if {"while_for_s", "while_pause_s"} & set(entry) and "while" not in entry:
        raise wrong(path, rule, "while", "is missing: `while_for_s` and `while_pause_s` are about it")
    return _with_clear(reader, common)


def _with_clear(reader: Reader, common: Lasting) -> Lasting:
    if "clear" not in reader.entry:
        return common
    if "limit" not in reader.entry:
        raise wrong(reader.path, reader.rule, "clear", "has no meaning without a `limit`")
    clear = reader.entry["clear"]
    if type(clear) in (int, float):
        return replace(common, clear_level=reader.number("clear", None, -LEVEL_MAX, LEVEL_MAX))
    own_value = not isinstance(common.spec, Level) or common.spec.mean_s > 0
    if own_value:
        raise wrong(reader.path, reader.rule, "clear", f"{clear!r} is not a number, which this kind needs")
    return replace(common, clear=text(reader.path, reader.rule, "clear", clear))


def _escalate(reader: Reader) -> tuple[tuple[float, str], ...]:
    steps = reader.entry.get("escalate", [])
    if not isinstance(steps, list):
        raise wrong(reader.path, reader.rule, "escalate", "is not a list of {limit, severity}")
    if steps and "beyond" not in reader.entry:
        raise wrong(reader.path, reader.rule, "escalate", "has no meaning without a `limit`")
    found = [_step(reader, step) for step in steps]
    sign = 1 if reader.entry.get("beyond") == "above" else -1
    if found != sorted(found, key=lambda step: sign * step[0]):
        raise wrong(reader.path, reader.rule, "escalate", "is not in order, from the nearest limit on")
    return tuple(found)


def _step(reader: Reader, step: object) -> tuple[float, str]:
    if not isinstance(step, dict) or sorted(step) != ["limit", "severity"]:
        raise wrong(reader.path, reader.rule, "escalate", f"{step!r} is not {{limit, severity}}")
    inner = Reader(reader.path, reader.rule, step)
    return inner.number("limit", None, -LEVEL_MAX, LEVEL_MAX), inner.word("severity", None, SEVERITIES)


def _slope(reader: Reader) -> Slope:
    span_s = reader.seconds("span_s", None, least=1.0)
    per = reader.word("per", None, tuple(PER_S))
    return Slope(span_s, PER_S[per], reader.number("sure", 0.0, 0, 10))


def _baseline(reader: Reader) -> Baseline:
    return Baseline(
        raise_for_s=reader.seconds("raise_for_s", 0.0),
        by=reader.word("by", "z", ("z", "share", "difference")),
        against=reader.word("against", "mean", _AGAINST),
        warm_up=reader.whole("warm_up", 300, 5, 10_000_000),
        memory_s=reader.seconds("memory_s", 604_800.0, least=1.0),
        steady_s=reader.seconds("steady_s", 0.0),
        mean_s=reader.seconds("mean_s", 0.0),
        pause_s=reader.seconds("pause_s", 0.0),
    )


def _count(reader: Reader) -> Count:
    return Count(
        times=reader.whole("times", 1, 1, 32),
        span_s=reader.seconds("span_s", 86_400.0, least=1.0),
        absent_s=reader.seconds("absent_s", 5.0),
        apart=reader.flag("apart"),
        reversal=_reversal(reader),
    )


def _reversal(reader: Reader) -> float | None:
    if "reversal" not in reader.entry:
        return None
    if reader.entry["value"] == NO_VALUE:
        raise wrong(reader.path, reader.rule, "value", "is missing: `reversal` looks at its course")
    return reader.number("reversal", None, 1e-9, 1e9)


def _geofence(reader: Reader) -> Geofence:
    return Geofence(
        fences=load_fences(reader.path, reader.rule, reader.entry),
        on=reader.word("on", "enter", ("enter", "exit")),
        margin_m=reader.number("margin_m", 50.0, 0, 10_000),
    )


_SPECS: Final[dict[str, Callable[[Reader], Any]]] = {
    "level": lambda r: Level(r.seconds("raise_for_s", 0.0), r.seconds("mean_s", 0.0)),
    "slope": _slope,
    "baseline": _baseline,
    "count": _count,
    "geofence": _geofence,
    "silence": lambda r: Silence(r.seconds("silent_for_s", None, least=1.0)),
    "unchanged": lambda r: Unchanged(
        r.seconds("raise_for_s", None, least=1.0), r.whole("frames", 30, 2, 100_000)
    ),
    "clone": lambda r: Clone(r.seconds("overlap_s", 30.0, least=1.0)),
}
