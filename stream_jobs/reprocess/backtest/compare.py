"""Alerts of two sets of rules over the same history, put beside each other; pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from stream_jobs.alerts.derive import Alert, Finding, merge
from stream_jobs.events.writes import ClearTimes
from stream_jobs.reprocess.alert_changes import finding_of
from stream_jobs.rules.model import Rule
from stream_jobs.vehicles.rows import AlertRow


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
    """An alert that both sets raise; the seconds by which the changed one comes later (negative: sooner)."""

    before: Episode
    after: Episode

    @property
    def later_s(self) -> float:
        """How much later it begins."""
        return (self.after.opened_ms - self.before.opened_ms) / 1000


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a changed set of rules raises besides, what it raises no more, and what both raise."""

    raised: tuple[Episode, ...]
    lost: tuple[Episode, ...]
    kept: tuple[Change, ...]


def episodes(rows: Iterable[AlertRow], rules: Sequence[Rule], from_ms: int, until_ms: int) -> list[Episode]:
    """The alerts that findings make, by the life of alerts that the store gives them.

    Those that open in ``from_ms`` .. ``until_ms``; by vehicle, rule and time.
    """
    clear_times = ClearTimes.of(rules)
    grouped: dict[tuple[str, str], list[AlertRow]] = defaultdict(list)
    for row in rows:
        grouped[row.vehicle_id, row.rule].append(row)
    found = [
        _episode(alert, clear_times.ms(rule), until_ms)
        for (_, rule), group in sorted(grouped.items())
        for alert in merge([], _findings(group), clear_times.ms(rule))
    ]
    return [episode for episode in found if from_ms <= episode.opened_ms < until_ms]


def _findings(rows: Iterable[AlertRow]) -> list[Finding]:
    return [finding_of(row, row.received_ms) for row in sorted(rows, key=lambda r: (r.event_ms, r.ended))]


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
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for word, group in (("raised", comparison.raised), ("lost", comparison.lost)):
        for episode in group:
            counts[episode.rule][word] += 1
    for change in comparison.kept:
        counts[change.after.rule]["kept"] += 1
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


def renamed(rows: Iterable[AlertRow], mark: str) -> tuple[list[AlertRow], list[AlertRow]]:
    """Findings of the rules in force, and of the changed ones: theirs bear ``mark`` behind the rule's id."""
    plain: list[AlertRow] = []
    marked: list[AlertRow] = []
    for row in rows:
        head, point, part = row.rule.partition(".")
        if head.endswith(mark):
            marked.append(_as(row, head.removesuffix(mark) + point + part))
        else:
            plain.append(row)
    return plain, marked


def _as(row: AlertRow, rule: str) -> AlertRow:
    return AlertRow(**{name: getattr(row, name) for name in row.__struct_fields__} | {"rule": rule})


def with_mark(rules: Iterable[Rule], mark: str) -> tuple[Rule, ...]:
    """The rules under names of their own, so that both sets may run at once."""
    return tuple(replace(rule, id=rule.id + mark) for rule in rules)
