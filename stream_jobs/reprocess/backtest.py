"""Alerts that changed rules would have raised and lost: the archive through the core with both rule sets."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec
from pyspark.sql import SparkSession

from infra.contract.errors import ConfigError
from infra.settings.settings import Settings
from stream_jobs.alerts.derive import Alert, Finding, merge
from stream_jobs.archive.manifest import HOUR_MS, telemetry_of
from stream_jobs.events.writes import ClearTimes
from stream_jobs.reprocess.alerts import finding_of
from stream_jobs.reprocess.feed import WHOLE, Feeder, Wanted, remake_of
from stream_jobs.reprocess.plan import Span, hours_ms
from stream_jobs.rules.evaluation import check_translations
from stream_jobs.rules.instant import check_expressions, rule_schemas
from stream_jobs.rules.model import INSTANT, VEHICLES, Level, Rule, Stateful
from stream_jobs.rules.rule_set import of_rules
from stream_jobs.vehicles.rows import AlertRow, unpack

MARK: Final = "@changed"
"""Behind the id of a changed rule, so that both sets may run at once."""


@dataclass(frozen=True, slots=True)
class Episode:
    """One alert from its first finding to its end; ``ended_ms`` None: not over at the end of the history."""

    vehicle_id: str
    rule: str
    rule_version: int
    severity: str
    opened_ms: int
    ended_ms: int | None
    value: float | None
    limit: float | None
    findings: int


@dataclass(frozen=True, slots=True)
class Change:
    """An alert that both sets raise."""

    before: Episode
    after: Episode

    @property
    def later_s(self) -> float:
        """The seconds by which the changed one begins later (negative: sooner)."""
        return (self.after.opened_ms - self.before.opened_ms) / 1000


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a changed set of rules raises besides, what it raises no more, and what both raise."""

    raised: tuple[Episode, ...]
    lost: tuple[Episode, ...]
    kept: tuple[Change, ...]


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
        check_expressions(session(), path, of_spark, rule_schemas())
    ids = {rule.id for rule in changed}
    before = [rule for rule in in_force if rule.id in ids]
    old, new = ([_stateful(path, rule) for rule in rules] for rules in (before, changed))
    check_translations(path, [*old, *new])
    both = [*old, *(replace(rule, id=rule.id + MARK) for rule in new)]
    feeder = Feeder(settings, session, warm=bool(of_spark))
    plain, marked = parted(_findings(feeder, settings, both, span, lead_ms))
    times = (span.from_ms, span.until_ms)
    return compare(episodes(plain, before, *times), episodes(marked, changed, *times))


def _stateful(path: Path, rule: Rule) -> Rule:
    """A rule of one frame as a level that need not last: the same alerts by the same core."""
    if rule.query == VEHICLES:
        return rule
    if rule.source != "frame":
        raise ConfigError(
            f"rules file {path}, rule {rule.id}: crash records are not in the archive of telemetry"
        )
    assert rule.query == INSTANT
    return replace(rule, query=VEHICLES, stateful=Stateful(Level()))


def _findings(
    feeder: Feeder, settings: Settings, rules: Sequence[Rule], span: Span, lead_ms: int
) -> list[AlertRow]:
    """What stateful rules find in the span and its run-up; the clock runs on to its end."""
    first_ms = span.from_ms - lead_ms
    received = (first_ms, span.until_ms + settings.jobs.backtest_late_h * HOUR_MS)
    files = feeder.files(hours_ms([received]))
    if not files:
        folder = telemetry_of(settings.paths.home)
        raise ConfigError(f"the archive {folder} has nothing of that span; see --from and --to (UTC)")
    times = [] if span.vehicle_id is None else [(span.vehicle_id, 0, 0)]
    wanted = Wanted((first_ms, span.until_ms), received, span.vehicle_id is None, times)
    remake = remake_of(settings, of_rules(rules), None, span.until_ms)
    found = [unpack(body) for kind, _, body in feeder(files, wanted, remake) if kind == WHOLE]
    return [row for row in found if isinstance(row, AlertRow)]


def parted(rows: Iterable[AlertRow]) -> tuple[list[AlertRow], list[AlertRow]]:
    """Findings of the rules in force, and of the changed ones, whose MARK is taken off."""
    plain: list[AlertRow] = []
    marked: list[AlertRow] = []
    for row in rows:
        head, point, part = row.rule.partition(".")
        if head.endswith(MARK):
            marked.append(msgspec.structs.replace(row, rule=head.removesuffix(MARK) + point + part))
        else:
            plain.append(row)
    return plain, marked


def episodes(rows: Iterable[AlertRow], rules: Sequence[Rule], from_ms: int, until_ms: int) -> list[Episode]:
    """The alerts that findings make, by the life of alerts that the store gives them.

    Those that open in ``from_ms`` .. ``until_ms``; by vehicle, rule and time.
    """
    clear_times = ClearTimes.of(rules)
    grouped: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for row in sorted(rows, key=lambda r: (r.event_ms, r.ended)):
        grouped[row.vehicle_id, row.rule].append(finding_of(row, row.received_ms))
    return [
        _episode(alert, clear_times.ms(rule), until_ms)
        for (_, rule), findings in sorted(grouped.items())
        for alert in merge([], findings, clear_times.ms(rule))
        if from_ms <= alert.opened_ms < until_ms
    ]


def _episode(alert: Alert, clear_for_ms: int | None, until_ms: int) -> Episode:
    ended_ms = alert.cleared_ms
    if ended_ms is None and clear_for_ms is not None and alert.last_ms + clear_for_ms <= until_ms:
        ended_ms = alert.last_ms + clear_for_ms
    return Episode(
        alert.vehicle_id, alert.rule, alert.rule_version, alert.severity, alert.opened_ms, ended_ms,
        alert.worst_value, alert.limit, alert.findings,
    )  # fmt: skip


def compare(before: Sequence[Episode], after: Sequence[Episode]) -> Comparison:
    """Alerts of one vehicle and rule that overlap in time are the same; each is matched at most once."""
    left: dict[tuple[str, str], list[Episode]] = defaultdict(list)
    for episode in before:
        left[episode.vehicle_id, episode.rule].append(episode)
    raised, kept = [], []
    for episode in after:
        candidates = left[episode.vehicle_id, episode.rule]
        same = next((old for old in candidates if _overlap(old, episode)), None)
        if same is None:
            raised.append(episode)
        else:
            candidates.remove(same)
            kept.append(Change(same, episode))
    lost = [episode for group in left.values() for episode in group]
    return Comparison(tuple(raised), tuple(lost), tuple(kept))


def _overlap(one: Episode, other: Episode) -> bool:
    one_ends = one.ended_ms is None or other.opened_ms <= one.ended_ms
    return one_ends and (other.ended_ms is None or one.opened_ms <= other.ended_ms)


def by_rule(comparison: Comparison) -> dict[str, Mapping[str, int]]:
    """Counts of each rule: in force, changed, raised, lost, kept."""
    kept = tuple(change.after for change in comparison.kept)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for word, group in (("raised", comparison.raised), ("lost", comparison.lost), ("kept", kept)):
        for episode in group:
            counts[episode.rule][word] += 1
    return {
        rule: {
            "in_force": count["lost"] + count["kept"], "changed": count["raised"] + count["kept"],
            **{word: count[word] for word in ("raised", "lost", "kept")},
        }
        for rule, count in sorted(counts.items())
    }  # fmt: skip


def as_json(comparison: Comparison) -> dict[str, Any]:
    """All of it for a machine."""
    return {
        "rules": by_rule(comparison),
        "raised": [asdict(episode) for episode in comparison.raised],
        "lost": [asdict(episode) for episode in comparison.lost],
        "kept": [
            asdict(change.after) | {"later_s": change.later_s, "severity_before": change.before.severity}
            for change in comparison.kept
        ],
    }
