"""Alerts that changed rules would have raised and lost: the archive through the core with both rule sets."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from pyspark.sql import SparkSession

from infra.contract.errors import ConfigError
from infra.settings.settings import Settings
from stream_jobs.alerts.derive import Alert, AlertRow, Finding, merge
from stream_jobs.archive import reader
from stream_jobs.archive.manifest import HOUR_MS, archive_of
from stream_jobs.events.writes import clears_after_ms
from stream_jobs.reprocess.alerts import finding_of
from stream_jobs.reprocess.feed import WHOLE, Feeder, Remake, Wanted
from stream_jobs.reprocess.queue import Span
from stream_jobs.rules.evaluation import check_translations
from stream_jobs.rules.instant import check_expressions
from stream_jobs.rules.model import INSTANT, VEHICLES, Level, Rule
from stream_jobs.rules.rule_set import of_rules
from stream_jobs.vehicles.rows import unpack

MARK: Final = "@changed"  # behind the id of a changed rule, so that both sets may run at once


class Change(NamedTuple):
    """An alert that both sets raise."""

    before: Alert
    after: Alert

    @property
    def later_s(self) -> float:
        """The seconds by which the changed one begins later (negative: sooner)."""
        return (self.after.opened_ms - self.before.opened_ms) / 1000


class Comparison(NamedTuple):
    """What a changed set of rules raises besides, what it raises no more, and what both raise.

    ``cleared_ms`` None: not over at the end of the history.
    """

    raised: tuple[Alert, ...]
    lost: tuple[Alert, ...]
    kept: tuple[Change, ...]

    def by_rule(self) -> dict[str, Mapping[str, int]]:
        """Counts of each rule: in force, changed, raised, lost, kept."""
        raised, lost = (Counter(alert.rule for alert in group) for group in (self.raised, self.lost))
        kept = Counter(change.after.rule for change in self.kept)
        return {
            rule: {
                "in_force": lost[rule] + kept[rule], "changed": raised[rule] + kept[rule],
                "raised": raised[rule], "lost": lost[rule], "kept": kept[rule],
            }
            for rule in sorted({*raised, *lost, *kept})
        }  # fmt: skip


def backtest(
    session: Callable[[], SparkSession], settings: Settings, path: Path, in_force: Sequence[Rule],
    changed: Sequence[Rule], span: Span, lead_ms: int,
) -> Comparison:  # fmt: skip
    """The changed rules of the file ``path`` beside those in force with the same ids, over one history.

    Alerts that open in the span count; ``lead_ms`` is read before, because without it a stateful rule would
    raise late at the begin of the span. Raises ConfigError for a rule that cannot be tested, an expression
    that Spark refuses, and a span of which the archive has nothing.
    """
    of_spark = [rule for rule in changed if rule.query == INSTANT]
    if of_spark:
        check_expressions(session(), path, of_spark)
    ids = {rule.id for rule in changed}
    before = [rule for rule in in_force if rule.id in ids]
    old, new = ([_stateful(path, rule) for rule in rules] for rules in (before, changed))
    check_translations(path, [*old, *new])
    both = of_rules([*old, *(replace(rule, id=rule.id + MARK) for rule in new)])
    first_ms = span.from_ms - lead_ms
    received = (first_ms, span.until_ms + settings.jobs.backtest_late_h * HOUR_MS)
    folder = archive_of(settings.paths.home)
    files = reader.files(folder, received[0], received[1] + 1)
    if not files:
        raise ConfigError(f"the archive {folder} has nothing of that span; see --from and --to (UTC)")
    wanted = Wanted((first_ms, span.until_ms), received, span.vehicle_id)
    feeder = Feeder(session, warm=bool(of_spark))
    made = feeder(files, wanted, Remake(settings, both, None, span.until_ms))
    found = (unpack(body) for kind, _, body in made if kind == WHOLE)
    plain, marked = parted(row for row in found if isinstance(row, AlertRow))
    bounds = (span.from_ms, span.until_ms)
    return compare(episodes(plain, before, *bounds), episodes(marked, changed, *bounds))


def _stateful(path: Path, rule: Rule) -> Rule:
    """A rule of one frame as a level that need not last: the same alerts by the same core."""
    if rule.query == VEHICLES:
        return rule
    if rule.source != "frame":
        raise ConfigError(
            f"rules file {path}, rule {rule.id}: crash records are not in the archive of telemetry"
        )
    return replace(rule, query=VEHICLES, spec=Level())


def parted(rows: Iterable[AlertRow]) -> tuple[list[AlertRow], list[AlertRow]]:
    """Findings of the rules in force, and of the changed ones, whose MARK is taken off."""
    plain, marked = list[AlertRow](), list[AlertRow]()
    for row in rows:
        found = marked if row.rule.partition(".")[0].endswith(MARK) else plain
        found.append(msgspec.structs.replace(row, rule=row.rule.replace(MARK, "", 1)))
    return plain, marked


def episodes(rows: Iterable[AlertRow], rules: Sequence[Rule], from_ms: int, until_ms: int) -> list[Alert]:
    """The alerts that findings make, by the life of alerts that the store gives them.

    Those that open in ``from_ms`` .. ``until_ms``; by vehicle, rule and time.
    """
    clear_times = {rule.id: rule.clear_for_s for rule in rules}
    grouped: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for row in sorted(rows, key=lambda r: (r.event_ms, r.ended)):
        grouped[row.vehicle_id, row.rule].append(finding_of(row, row.received_ms))
    made = []
    for (_, rule), findings in sorted(grouped.items()):
        clear_for_ms = clears_after_ms(clear_times, rule)
        for a in merge([], findings, clear_for_ms):
            ended_ms = a.cleared_ms
            if ended_ms is None and clear_for_ms is not None and a.last_ms + clear_for_ms <= until_ms:
                ended_ms = a.last_ms + clear_for_ms
            if from_ms <= a.opened_ms < until_ms:
                made.append(replace(a, cleared_ms=ended_ms))
    return made


def compare(before: Sequence[Alert], after: Sequence[Alert]) -> Comparison:
    """Alerts of one vehicle and rule that overlap in time are the same; each is matched at most once."""

    def overlap(one: Alert, other: Alert) -> bool:
        one_ends = one.cleared_ms is None or other.opened_ms <= one.cleared_ms
        return one_ends and (other.cleared_ms is None or one.opened_ms <= other.cleared_ms)

    left: dict[tuple[str, str], list[Alert]] = defaultdict(list)
    for alert in before:
        left[alert.vehicle_id, alert.rule].append(alert)
    raised, kept = [], []
    for alert in after:
        candidates = left[alert.vehicle_id, alert.rule]
        same = next((old for old in candidates if overlap(old, alert)), None)
        if same is None:
            raised.append(alert)
        else:
            candidates.remove(same)
            kept.append(Change(same, alert))
    return Comparison(tuple(raised), tuple(chain.from_iterable(left.values())), tuple(kept))


def as_json(comparison: Comparison) -> dict[str, Any]:
    """All of it for a machine."""
    raised, lost = ([*map(_told, alerts)] for alerts in comparison[:2])
    kept = [
        _told(change.after) | {"later_s": change.later_s, "severity_before": change.before.severity}
        for change in comparison.kept
    ]
    return {"rules": comparison.by_rule(), "raised": raised, "lost": lost, "kept": kept}


def _told(alert: Alert) -> dict[str, Any]:
    names = ("vehicle_id", "rule", "rule_version", "severity", "opened_ms", "limit", "findings")
    known = {name: getattr(alert, name) for name in names}
    return known | {"ended_ms": alert.cleared_ms, "value": alert.worst_value}
