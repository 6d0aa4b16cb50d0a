"""The rules that the query ``vehicles`` looks at, with a detector for each."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from infra.settings.settings import Settings
from stream_jobs.rules import model
from stream_jobs.rules.detect import level, occurrence
from stream_jobs.rules.detect.base import Detector
from stream_jobs.rules.detect.baseline import BaselineDetector
from stream_jobs.rules.detect.geofence import GeofenceDetector

RuleSet = tuple[Detector[Any], ...]
"""The detectors of rules, each with its rule."""


def rules_in_force(settings: Settings) -> RuleSet:
    """The rules in force; raises ConfigError where the rules file is wrong."""
    return of_rules(model.load_rules(settings.jobs.rules))


def of_rules(rules: Iterable[model.Rule]) -> RuleSet:
    """Those of the query ``vehicles`` among ``rules``."""
    return tuple(map(_detector, model.of_query(rules, model.VEHICLES)))


_OF_KIND: Final[dict[type, Callable[[model.Rule], Detector[Any]]]] = {
    model.Level: level.LevelDetector,
    model.Slope: level.CourseDetector,
    model.Baseline: BaselineDetector,
    model.Count: occurrence.CountDetector,
    model.Unchanged: level.UnchangedDetector,
    model.Geofence: GeofenceDetector,
    model.Silence: occurrence.SilenceDetector,
    model.Clone: occurrence.CloneDetector,
}


def _detector(rule: model.Rule) -> Detector[Any]:
    of_kind = _OF_KIND[type(rule.spec)]
    if isinstance(rule.spec, model.Level) and rule.spec.mean_s:
        of_kind = level.CourseDetector
    if isinstance(rule.spec, model.Count) and rule.spec.reversal is not None:
        of_kind = occurrence.ReversalDetector
    inner = of_kind(rule)
    return inner if rule.armed is None else level.ArmedDetector(rule, inner)
