"""What frames that came behind make of the findings and alerts of one vehicle and rule; pure.

Findings first: which are new, which are none, which are some again. Then the alerts that those touch are made
anew by the life of alerts that the store gives them (alerts.merge), and put in the places of the old ones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from stream_jobs.alerts.derive import Alert, Finding, merge
from stream_jobs.vehicles.rows import AlertRow


@dataclass(frozen=True, slots=True)
class StoredFinding:
    """A row of odograph.alert_event. ``restated_ms``: when the batch layer found it, None: the stream did.

    ``withdrawn``: the batch layer has taken it away.
    """

    finding: Finding
    restated_ms: int | None
    withdrawn: bool


@dataclass(frozen=True, slots=True)
class StoredAlert:
    """An alert as it stands; ``by_hand``: somebody ended it."""

    alert: Alert
    withdrawn: bool
    by_hand: bool


@dataclass(frozen=True, slots=True)
class FindingChanges:
    """New findings, and ids of those that are none and of those that are some again."""

    added: tuple[Finding, ...]
    withdrawn: frozenset[str]
    revived: frozenset[str]

    def __bool__(self) -> bool:
        return bool(self.added or self.withdrawn or self.revived)


@dataclass(frozen=True, slots=True)
class AlertChanges:
    """Alerts to insert, those to put in place of others by their numbers, numbers of those to withdraw."""

    added: tuple[Alert, ...]
    changed: tuple[Alert, ...]
    withdrawn: tuple[int, ...]


def finding_changes(
    whole: Sequence[AlertRow], streamed: Collection[str], stored: Mapping[str, StoredFinding],
    behind_ms: int, now_ms: int,
) -> FindingChanges:  # fmt: skip
    """``whole``: findings of all frames in order; ``streamed``: ids of those of the frames as they came.

    One that both runs have and the table has not is none of ours: its memory was another. One that the batch
    layer found once goes only where frames came behind after that, by ``behind_ms``.
    """
    now = {row.alert_id: row for row in whole}
    added = tuple(
        finding_of(row, now_ms) for key, row in now.items() if key not in streamed and key not in stored
    )
    withdrawn = frozenset(
        key
        for key, each in stored.items()
        if not each.withdrawn and key not in now and (key in streamed or _outdated(each, behind_ms))
    )
    revived = frozenset(key for key, each in stored.items() if each.withdrawn and key in now)
    return FindingChanges(added, withdrawn, revived)


def _outdated(each: StoredFinding, behind_ms: int) -> bool:
    return each.restated_ms is not None and each.restated_ms < behind_ms


def finding_of(row: AlertRow, now_ms: int) -> Finding:
    """A finding of the core as one of the topic would be, found at ``now_ms``."""
    return Finding(
        row.alert_id, row.vehicle_id, row.rule, row.rule_version, row.severity, row.event_ms, row.received_ms,
        now_ms, row.message, row.value, row.limit, row.lat_deg, row.lon_deg, row.since_ms, row.ended,
    )  # fmt: skip


def alert_changes(
    stored: Sequence[StoredAlert], before: Mapping[str, StoredFinding], changes: FindingChanges,
    clear_for_ms: int | None, seen_ms: int,
) -> AlertChanges:  # fmt: skip
    """Alerts of one vehicle and rule after ``changes`` of its findings ``before``.

    ``seen_ms`` is the vehicle's newest event: an alert without a finding for ``clear_for_ms`` is over.
    """
    gone, back = changes.withdrawn, changes.revived
    live = [s.finding for k, s in before.items() if (k in back) or not (s.withdrawn or k in gone)]
    moved = [s.finding.event_ms for k, s in before.items() if k in gone or k in back]
    moved += [finding.event_ms for finding in changes.added]
    touched, low, high = reach(stored, moved, clear_for_ms or 0)
    findings = sorted([*live, *changes.added], key=lambda f: (f.event_ms, f.ended))
    near = [finding for finding in findings if low <= finding.event_ms <= high]
    later = any(s.alert.opened_ms > high for s in stored if not s.withdrawn)
    made = [_over(alert, clear_for_ms, seen_ms, later) for alert in merge([], near, clear_for_ms)]
    return _placed(touched, made)


def reach(
    stored: Sequence[StoredAlert], moved: Sequence[int], clear_for_ms: int
) -> tuple[list[StoredAlert], int, int]:
    """Alerts whose findings may belong together with those at ``moved``, and the time that they fill."""
    low, high = min(moved), max(moved)
    touched: list[StoredAlert] = []
    left = list(stored)
    while True:
        near = [
            s
            for s in left
            if s.alert.opened_ms - clear_for_ms <= high and s.alert.last_ms + clear_for_ms >= low
        ]
        if not near:
            return touched, low - clear_for_ms, high + clear_for_ms
        touched += near
        left = [s for s in left if s not in near]
        low = min(low, *(s.alert.opened_ms for s in near))
        high = max(high, *(s.alert.last_ms for s in near))


def _over(alert: Alert, clear_for_ms: int | None, seen_ms: int, later: bool) -> Alert:
    """The alert, ended where it is over: nobody sweeps up after us, and only the newest may be active."""
    if alert.cleared_ms is not None:
        return alert
    if clear_for_ms is None:
        return replace(alert, cleared_ms=alert.last_ms) if later else alert
    over = later or seen_ms > alert.last_ms + clear_for_ms
    return replace(alert, cleared_ms=alert.last_ms + clear_for_ms) if over else alert


def _placed(touched: Sequence[StoredAlert], made: Iterable[Alert]) -> AlertChanges:
    """Each alert in the place of the one that it is: by its first finding, else by time."""
    left = list(touched)
    added, changed, waiting = [], [], []
    for alert in made:
        same = next((s for s in left if s.alert.first_alert_id == alert.first_alert_id), None)
        if same is None:
            waiting.append(alert)
        else:
            left.remove(same)
            changed += _as(same, alert)
    for alert in waiting:
        same = next((s for s in left if not s.withdrawn and _overlap(s.alert, alert)), None)
        if same is None:
            added.append(alert)
        else:
            left.remove(same)
            changed += _as(same, alert)
    withdrawn = tuple(s.alert.alert_no for s in left if not s.withdrawn and s.alert.alert_no is not None)
    return AlertChanges(tuple(added), tuple(changed), withdrawn)


def _overlap(one: Alert, other: Alert) -> bool:
    return one.opened_ms <= other.last_ms and other.opened_ms <= one.last_ms


def _as(stored: StoredAlert, alert: Alert) -> list[Alert]:
    """``alert`` as the next revision of ``stored``, if it is another; an end by hand stands."""
    was = stored.alert
    after = replace(alert, alert_no=was.alert_no, first_alert_id=was.first_alert_id)
    if stored.by_hand and was.cleared_ms is not None and was.cleared_ms >= alert.last_ms:
        after = replace(after, cleared_ms=was.cleared_ms)
    return [] if after == was and not stored.withdrawn else [after]
