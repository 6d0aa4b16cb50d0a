"""One detector for each rule of the query `vehicles`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import singledispatch

from infra.contract.errors import ConfigError
from stream_jobs.rules.detect.base import Detector
from stream_jobs.rules.detect.baseline import BaselineDetector
from stream_jobs.rules.detect.count import CountDetector, Counting, ReversalDetector
from stream_jobs.rules.detect.geofence import GeofenceDetector
from stream_jobs.rules.detect.level import ArmedDetector, LevelDetector, MeanDetector
from stream_jobs.rules.detect.raising import Raising
from stream_jobs.rules.detect.silence import CloneDetector, SilenceDetector
from stream_jobs.rules.detect.slope import SlopeDetector
from stream_jobs.rules.detect.unchanged import UnchangedDetector
from stream_jobs.rules.kinds import (
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
from stream_jobs.rules.model import Rule


def detectors(rules: Iterable[Rule]) -> tuple[Detector, ...]:
    """The detectors of rules of the query `vehicles`, in their order; raises ConfigError for any other."""
    return tuple(_detector(rule) for rule in rules)


def _detector(rule: Rule) -> Detector:
    stateful = rule.stateful
    if stateful is None:
        raise ConfigError(f"rule {rule.id} belongs to query {rule.query}, which has no detectors")
    inner = _make(stateful.spec, rule, stateful)
    if stateful.armed is None:
        return inner
    return ArmedDetector(_ms(stateful.armed_for_s), _ms(stateful.armed_pause_s), _ms(stateful.gap_s), inner)


def _ms(seconds: float) -> int:
    return round(1000 * seconds)


@singledispatch
def _make(spec: object, rule: Rule, stateful: Stateful) -> Detector:  # noqa: ARG001  one signature for all
    raise ConfigError(f"rule {rule.id}: no detector for {spec!r}")


@_make.register
def _(spec: Level, rule: Rule, stateful: Stateful) -> Detector:
    raising = Raising.of(rule, stateful, spec.raise_for_s)
    if spec.mean_s == 0:
        return LevelDetector(raising)
    return MeanDetector(raising, _ms(spec.mean_s), stateful.clear_level)


@_make.register
def _(spec: Slope, rule: Rule, stateful: Stateful) -> Detector:
    gap_ms = max(_ms(stateful.gap_s), _ms(spec.span_s))
    raising = Raising.of(rule, stateful, 0.0)
    return SlopeDetector(raising, _ms(spec.span_s), spec.per_s, spec.sure, stateful.clear_level, gap_ms)


@_make.register
def _(spec: Baseline, rule: Rule, stateful: Stateful) -> Detector:
    raising = Raising.of(rule, stateful, spec.raise_for_s)
    raising = replace(raising, gap_ms=max(raising.gap_ms, _ms(spec.pause_s)))
    return BaselineDetector(raising, spec, stateful.clear_level)


@_make.register
def _(spec: Unchanged, rule: Rule, stateful: Stateful) -> Detector:
    return UnchangedDetector(Raising.of(rule, stateful, 0.0), spec.frames, _ms(spec.raise_for_s))


@_make.register
def _(spec: Count, rule: Rule, stateful: Stateful) -> Detector:  # noqa: ARG001
    counting = Counting(spec.times, _ms(spec.span_s))
    if spec.reversal is not None:
        return ReversalDetector(counting, spec.reversal)
    return CountDetector(counting, _ms(spec.absent_s), _ms(rule.clear_for_s or 0), spec.apart)


@_make.register
def _(spec: Geofence, rule: Rule, stateful: Stateful) -> Detector:  # noqa: ARG001
    return GeofenceDetector(spec.fences, spec.on == "enter", spec.margin_m, _ms(stateful.gap_s))


@_make.register
def _(spec: Silence, rule: Rule, stateful: Stateful) -> Detector:  # noqa: ARG001
    return SilenceDetector(_ms(spec.silent_for_s))


@_make.register
def _(spec: Clone, rule: Rule, stateful: Stateful) -> Detector:  # noqa: ARG001
    return CloneDetector(_ms(spec.overlap_s), _ms(rule.clear_for_s or 0))
