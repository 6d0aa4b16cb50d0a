"""The archive through the core of the stream, with whatever rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from infra.contract.errors import ConfigError
from infra.settings.settings import Settings
from stream_jobs.archive.manifest import HOUR_MS, telemetry_of
from stream_jobs.reprocess.backtest.compare import Comparison, compare, episodes, renamed, with_mark
from stream_jobs.reprocess.feed import WHOLE, Feeder, Wanted, remake_of
from stream_jobs.reprocess.plan import Span, hours_ms
from stream_jobs.rules.check import check_expressions, check_translations
from stream_jobs.rules.findings import rule_schemas
from stream_jobs.rules.kinds import Level, Stateful
from stream_jobs.rules.model import INSTANT, VEHICLES, Rule
from stream_jobs.rules.rule_set import of_rules
from stream_jobs.vehicles.rows import AlertRow, unpack

MARK: Final = "@changed"


def rehearse(
    session: Callable[[], SparkSession], settings: Settings, path: Path, in_force: Sequence[Rule],
    changed: Sequence[Rule], span: Span, lead_ms: int,
) -> Comparison:  # fmt: skip
    """The changed rules of the file ``path`` beside those in force with the same ids, over one history.

    Alerts that open in the span count; ``lead_ms`` is read before: without a run-up a rule that lasts would
    be raised late at the begin of the span.

    Raises ConfigError for a rule that cannot be rehearsed, an expression that Spark refuses, and a span of
    which the archive has nothing.
    """
    of_spark = [rule for rule in changed if rule.query == INSTANT]
    if of_spark:
        check_expressions(session(), path, of_spark, rule_schemas())
    ids = {rule.id for rule in changed}
    before = [rule for rule in in_force if rule.id in ids]
    old, new = ([_lasting(path, rule) for rule in rules] for rules in (before, changed))
    check_translations(path, [*old, *new])
    both = [*old, *with_mark(new, MARK)]
    plain, marked = renamed(
        findings(Feeder(settings, session, warm=bool(of_spark)), settings, both, span, lead_ms), MARK
    )
    times = (span.from_ms, span.until_ms)
    return compare(episodes(plain, before, *times), episodes(marked, changed, *times))


def findings(
    feeder: Feeder, settings: Settings, rules: Sequence[Rule], span: Span, lead_ms: int
) -> list[AlertRow]:
    """What rules that last find in the span and its run-up; the clock runs on to its end."""
    first_ms = span.from_ms - lead_ms
    received = (first_ms, span.until_ms + settings.jobs.rehearse_late_h * HOUR_MS)
    files = feeder.files(hours_ms([received]))
    if not files:
        folder = telemetry_of(settings.paths.home)
        raise ConfigError(f"the archive {folder} has nothing of that span; see --from and --to (UTC)")
    wanted = Wanted((first_ms, span.until_ms), received, span.vehicle_id is None)
    if span.vehicle_id is not None:
        wanted = replace(wanted, times=[(span.vehicle_id, 0, 0)])
    remake = remake_of(settings, of_rules(rules), None, span.until_ms)
    found = [unpack(body) for kind, _, body in feeder(files, wanted, remake) if kind == WHOLE]
    return [row for row in found if isinstance(row, AlertRow)]


def _lasting(path: Path, rule: Rule) -> Rule:
    """A rule of one frame as a level that need not last: the same alerts by the same core."""
    if rule.query == VEHICLES:
        return rule
    if rule.source != "frame":
        raise ConfigError(
            f"rules file {path}, rule {rule.id}: crash records are not in the archive of telemetry"
        )
    assert rule.query == INSTANT
    return replace(rule, query=VEHICLES, stateful=Stateful(Level()))
