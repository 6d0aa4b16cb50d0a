"""Which rules the query ``vehicles`` looks at, with what: the seam between the query and its detectors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from infra.settings.settings import Settings
from stream_jobs.rules.detect.base import Detector
from stream_jobs.rules.detect.build import detectors
from stream_jobs.rules.model import VEHICLES, Rule, load_rules, of_query


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
