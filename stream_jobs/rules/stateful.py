"""What the rules file says of rules that last (query `vehicles`), checked key by key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from infra.contract.messages import SEVERITIES
from stream_jobs.rules.entries import Entry
from stream_jobs.rules.fences import load_fences
from stream_jobs.rules.kinds import (
    GAP_S,
    KINDS,
    NO_VALUE,
    PER_S,
    Baseline,
    Clone,
    Count,
    Geofence,
    Level,
    Silence,
    Slope,
    Stateful,
    Unchanged,
)

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


def known_keys(entry: Entry) -> tuple[str, ...]:
    """The keys that a rule of this kind may have besides a frame rule's; raises ConfigError for the kind."""
    return (*GENERAL, *OWN[entry.word("kind", None, KINDS)])


def _sql(entry: Entry, key: str) -> str | None:
    """An expression, or None where left out."""
    return entry.text(key) if key in entry else None


def read_stateful(reader: Entry) -> Stateful:
    """The part of a rule that lasts; raises ConfigError naming file, rule and key."""
    common = Stateful(
        spec=_SPECS[reader.values["kind"]](reader),
        armed=_sql(reader, "while"),
        armed_for_s=reader.seconds("while_for_s", 0.0),
        armed_pause_s=reader.seconds("while_pause_s", 0.0),
        learn=_sql(reader, "learn"),
        names=_sql(reader, "names"),
        gap_s=reader.seconds("gap_s", GAP_S, least=1.0),
        escalate=_escalate(reader),
    )
    if {"while_for_s", "while_pause_s"} & set(reader.values) and "while" not in reader:
        raise reader.wrong("while", "is missing: `while_for_s` and `while_pause_s` are about it")
    return _with_clear(reader, common)


def _with_clear(reader: Entry, common: Stateful) -> Stateful:
    if "clear" not in reader:
        return common
    if "limit" not in reader:
        raise reader.wrong("clear", "has no meaning without a `limit`")
    clear = reader.values["clear"]
    if type(clear) in (int, float):
        return replace(common, clear_level=reader.number("clear", None, -LEVEL_MAX, LEVEL_MAX))
    own_value = not isinstance(common.spec, Level) or common.spec.mean_s > 0
    if own_value:
        raise reader.wrong("clear", f"{clear!r} is not a number, which this kind needs")
    return replace(common, clear=reader.text("clear"))


def _escalate(reader: Entry) -> tuple[tuple[float, str], ...]:
    steps = reader.values.get("escalate", [])
    if not isinstance(steps, list):
        raise reader.wrong("escalate", "is not a list of {limit, severity}")
    if steps and "beyond" not in reader:
        raise reader.wrong("escalate", "has no meaning without a `limit`")
    found = [_step(reader, step) for step in steps]
    sign = 1 if reader.values.get("beyond") == "above" else -1
    if found != sorted(found, key=lambda step: sign * step[0]):
        raise reader.wrong("escalate", "is not in order, from the nearest limit on")
    return tuple(found)


def _step(reader: Entry, step: object) -> tuple[float, str]:
    if not isinstance(step, dict) or sorted(step) != ["limit", "severity"]:
        raise reader.wrong("escalate", f"{step!r} is not {{limit, severity}}")
    inner = replace(reader, values=step)
    return inner.number("limit", None, -LEVEL_MAX, LEVEL_MAX), inner.word("severity", None, SEVERITIES)


def _slope(reader: Entry) -> Slope:
    span_s = reader.seconds("span_s", None, least=1.0)
    per = reader.word("per", None, PER_S)
    return Slope(span_s, PER_S[per], reader.number("sure", 0.0, 0, 10))


def _baseline(reader: Entry) -> Baseline:
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


def _count(reader: Entry) -> Count:
    return Count(
        times=reader.whole("times", 1, 1, 32),
        span_s=reader.seconds("span_s", 86_400.0, least=1.0),
        absent_s=reader.seconds("absent_s", 5.0),
        apart=reader.flag("apart"),
        reversal=_reversal(reader),
    )


def _reversal(reader: Entry) -> float | None:
    if "reversal" not in reader:
        return None
    if reader.values["value"] == NO_VALUE:
        raise reader.wrong("value", "is missing: `reversal` looks at its course")
    return reader.number("reversal", None, 1e-9, 1e9)


def _geofence(reader: Entry) -> Geofence:
    return Geofence(
        fences=load_fences(reader),
        on=reader.word("on", "enter", ("enter", "exit")),
        margin_m=reader.number("margin_m", 50.0, 0, 10_000),
    )


_SPECS: Final[dict[str, Callable[[Entry], Any]]] = {
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
