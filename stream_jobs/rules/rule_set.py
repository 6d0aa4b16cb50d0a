"""The rules that the query ``vehicles`` looks at, with a detector for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from infra.contract.errors import ConfigError
from infra.settings.settings import Settings
from stream_jobs.rules.detect.base import Detector, Raising
from stream_jobs.rules.detect.baseline import BaselineDetector
from stream_jobs.rules.detect.geofence import GeofenceDetector
from stream_jobs.rules.detect.level import ArmedDetector, CourseDetector, LevelDetector, UnchangedDetector
from stream_jobs.rules.detect.occurrence import (
    CloneDetector,
    CountDetector,
    ReversalDetector,
    SilenceDetector,
)
from stream_jobs.rules.model import (
    VEHICLES,
    Baseline,
    Clone,
    Count,
    Geofence,
    Level,
    Rule,
    Silence,
    Slope,
    Stateful,
    Unchanged,
    load_rules,
    of_query,
)


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules, and a detector for each."""

    rules: tuple[Rule, ...] = ()
    detectors: tuple[Detector, ...] = ()


def rules_in_force(settings: Settings) -> RuleSet:
    """The rules in force; raises ConfigError where the rules file is wrong."""
    return of_rules(load_rules(settings.jobs.rules))


def of_rules(rules: Iterable[Rule]) -> RuleSet:
    """Those of the query ``vehicles`` among ``rules``."""
    mine = of_query(rules, VEHICLES)
    return RuleSet(mine, detectors(mine))


def detectors(rules: Iterable[Rule]) -> tuple[Detector, ...]:
    """The detectors of rules of the query `vehicles`, in their order; raises ConfigError for any other."""
    return tuple(_detector(rule) for rule in rules)


def _detector(rule: Rule) -> Detector:
    more = rule.stateful
    if more is None:
        raise ConfigError(f"rule {rule.id} belongs to query {rule.query}, which has no detectors")
    inner = _MADE[type(more.spec)](rule, more, more.spec)
    if more.armed is None:
        return inner
    return ArmedDetector(_ms(more.armed_for_s), _ms(more.armed_pause_s), _ms(more.gap_s), inner)


def _ms(seconds: float | None) -> int:
    return round(1000 * (seconds or 0))


def _level(rule: Rule, more: Stateful, spec: Level) -> Detector:
    raising = Raising.of(rule, spec.raise_for_s)
    if spec.mean_s == 0:
        return LevelDetector(raising)
    return CourseDetector(raising, _ms(spec.mean_s), more.clear_level)


def _slope(rule: Rule, more: Stateful, spec: Slope) -> Detector:
    gap_ms = max(_ms(more.gap_s), _ms(spec.span_s))
    return CourseDetector(Raising.of(rule), _ms(spec.span_s), more.clear_level, spec.per_s, spec.sure, gap_ms)


def _baseline(rule: Rule, more: Stateful, spec: Baseline) -> Detector:
    raising = Raising.of(rule, spec.raise_for_s)
    return BaselineDetector(
        replace(raising, gap_ms=max(raising.gap_ms, _ms(spec.pause_s))), spec, more.clear_level
    )


def _count(rule: Rule, more: Stateful, spec: Count) -> Detector:  # noqa: ARG001  one signature for all
    if spec.reversal is not None:
        return ReversalDetector(spec.times, _ms(spec.span_s), spec.reversal)
    times, span_ms = spec.times, _ms(spec.span_s)
    return CountDetector(times, span_ms, _ms(spec.absent_s), _ms(rule.clear_for_s), spec.apart)


_MADE: Final[dict[type, Callable[[Rule, Stateful, Any], Detector]]] = {
    Level: _level,
    Slope: _slope,
    Baseline: _baseline,
    Count: _count,
    Unchanged: lambda rule, _, spec: UnchangedDetector(Raising.of(rule), spec.frames, _ms(spec.raise_for_s)),
    Geofence: lambda _, more, spec: GeofenceDetector(
        spec.fences, spec.on == "enter", spec.margin_m, _ms(more.gap_s)
    ),
    Silence: lambda _, __, spec: SilenceDetector(_ms(spec.silent_for_s)),
    Clone: lambda rule, _, spec: CloneDetector(_ms(spec.overlap_s), _ms(rule.clear_for_s)),
}
