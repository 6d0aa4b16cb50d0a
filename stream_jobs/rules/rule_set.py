"""The rules that the query ``vehicles`` looks at, with a detector for each."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from infra.settings.settings import Settings
from stream_jobs.rules import model
from stream_jobs.rules.detect import level, occurrence
from stream_jobs.rules.detect.base import Detector
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


_OF_KIND: Final[dict[type, Callable[[model.Rule, Any], Detector]]] = {
    model.Level: level.LevelDetector,
    model.Slope: level.CourseDetector,
    model.Baseline: BaselineDetector,
    model.Count: occurrence.CountDetector,
    model.Unchanged: level.UnchangedDetector,
    model.Geofence: GeofenceDetector,
    model.Silence: occurrence.SilenceDetector,
    model.Clone: occurrence.CloneDetector,
}


def _detector(rule: model.Rule) -> Detector:
    assert rule.stateful is not None
    spec = rule.stateful.spec
    of_kind = _OF_KIND[type(spec)]
    if isinstance(spec, model.Level) and spec.mean_s:
        of_kind = level.CourseDetector
    if isinstance(spec, model.Count) and spec.reversal is not None:
        of_kind = occurrence.ReversalDetector
    inner = of_kind(rule, spec)
    return inner if rule.stateful.armed is None else level.ArmedDetector(rule, inner)
