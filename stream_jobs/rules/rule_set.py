"""The rules that the query ``vehicles`` looks at, with a detector for each."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from infra.settings.settings import Settings
from stream_jobs.rules import model
from stream_jobs.rules.detect import level, occurrence
from stream_jobs.rules.detect.base import Detector, Raising
from stream_jobs.rules.detect.baseline import BaselineDetector
from stream_jobs.rules.detect.geofence import GeofenceDetector


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules, and a detector for each."""

    rules: tuple[model.Rule, ...] = ()
    detectors: tuple[Detector, ...] = ()


def rules_in_force(settings: Settings) -> RuleSet:
    """The rules in force; raises ConfigError where the rules file is wrong."""
    return of_rules(model.load_rules(settings.jobs.rules))


def of_rules(rules: Iterable[model.Rule]) -> RuleSet:
    """Those of the query ``vehicles`` among ``rules``."""
    mine = model.of_query(rules, model.VEHICLES)
    return RuleSet(mine, tuple(_detector(rule) for rule in mine))


def _detector(rule: model.Rule) -> Detector:
    more = rule.stateful
    assert more is not None
    inner = _OF_KIND[type(more.spec)](rule, more, more.spec)
    if more.armed is None:
        return inner
    return level.ArmedDetector(_ms(more.armed_for_s), _ms(more.armed_pause_s), _ms(more.gap_s), inner)


def _ms(seconds: float | None) -> int:
    return round(1000 * (seconds or 0))


def _level(rule: model.Rule, more: model.Stateful, spec: model.Level) -> Detector:
    raising = Raising.of(rule, spec.raise_for_s)
    if not spec.mean_s:
        return level.LevelDetector(raising)
    return level.CourseDetector(raising, _ms(spec.mean_s), more.clear_level)


def _count(rule: model.Rule, _: model.Stateful, spec: model.Count) -> Detector:
    times, span_ms = spec.times, _ms(spec.span_s)
    if spec.reversal is not None:
        return occurrence.ReversalDetector(times, span_ms, spec.reversal)
    return occurrence.CountDetector(times, span_ms, _ms(spec.absent_s), _ms(rule.clear_for_s), rule.apart)


_OF_KIND: Final[dict[type, Callable[[model.Rule, model.Stateful, Any], Detector]]] = {
    model.Level: _level,
    model.Slope: lambda rule, more, spec: level.CourseDetector(
        Raising.of(rule), _ms(spec.span_s), more.clear_level, model.PER_S[spec.per], spec.sure,
        max(_ms(more.gap_s), _ms(spec.span_s)),
    ),
    model.Baseline: lambda rule, more, spec: BaselineDetector(
        Raising.of(rule, spec.raise_for_s, spec.pause_s), spec, more.clear_level
    ),
    model.Count: _count,
    model.Unchanged: lambda rule, _, spec: level.UnchangedDetector(Raising.of(rule), spec),
    model.Geofence: lambda _, more, spec: GeofenceDetector(
        spec.fences, spec.on == "enter", spec.margin_m, _ms(more.gap_s)
    ),
    model.Silence: lambda _, __, spec: occurrence.SilenceDetector(_ms(spec.silent_for_s)),
    model.Clone: lambda rule, _, spec: occurrence.CloneDetector(_ms(spec.overlap_s), _ms(rule.clear_for_s)),
}  # fmt: skip
