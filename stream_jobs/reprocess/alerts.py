"""What late frames change of a vehicle's findings and alerts: computed, then written in one transaction.

Findings first: which are new, which are withdrawn, which come back. Then the alerts that those touch are made
again by the life of alerts that the store gives them (alerts.merge), and put in the places of the old ones.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import msgspec

from infra.clients.db import sql_of
from infra.contract.seq_ranges import merged
from stream_jobs.alerts.derive import Alert, AlertRow, Finding, merge
from stream_jobs.app.database import Connection, execute, fetch
from stream_jobs.events import writes as store
from stream_jobs.events.rows import with_rows
from stream_jobs.events.writes import ClearTimes, clears_after_ms
from stream_jobs.reprocess.queue import Counts

SQL: Final = sql_of(__file__)

MARGIN_MS: Final = 7 * 86_400_000  # read to both sides of what changed: an alert is seldom longer

_LOCK: Final = "SELECT 1 FROM odograph.consumer_offset WHERE topic = 'alerts' FOR UPDATE"
"""The event store moves these rows with each batch: while they are ours it opens no alert beside us."""
_ALERTS: Final = SQL["alerts"].format(columns=store.ALERT_COLUMNS)
_ADDED: Final = "UPDATE odograph.alert SET restated_at = now() WHERE first_alert_id = ANY(%(ids)s)"


class StoredFinding(NamedTuple):
    """A row of odograph.alert_event. ``restated_ms``: when the batch layer found it, None: the stream did."""

    finding: Finding
    restated_ms: int | None
    withdrawn: bool


class StoredAlert(NamedTuple):
    """An alert as it stands; ``by_hand``: somebody ended it."""

    alert: Alert
    withdrawn: bool
    by_hand: bool


class FindingChanges(NamedTuple):
    """New findings, and ids of those that are withdrawn and of those that come back."""

    added: tuple[Finding, ...]
    withdrawn: frozenset[str]
    revived: frozenset[str]


class AlertChanges(NamedTuple):
    """Alerts to insert, those to put in place of others by their numbers, numbers of those to withdraw."""

    added: tuple[Alert, ...]
    changed: tuple[Alert, ...]
    withdrawn: tuple[int, ...]


def finding_changes(
    whole: Sequence[AlertRow], streamed: Collection[str], stored: Mapping[str, StoredFinding],
    late_ms: int, now_ms: int,
) -> FindingChanges:  # fmt: skip
    """``whole``: findings of all frames in order; ``streamed``: ids of those of the frames as they came.

    One that both runs have and the table has not stays out: its memory was another. One that the batch layer
    found once goes only where late frames came after that, by ``late_ms``.
    """
    now = {row.alert_id: row for row in whole}
    added = (finding_of(row, now_ms) for key, row in now.items() if key not in streamed and key not in stored)

    def outdated(key: str, each: StoredFinding) -> bool:
        return key in streamed or (each.restated_ms is not None and each.restated_ms < late_ms)

    return FindingChanges(
        tuple(added),
        frozenset(k for k, s in stored.items() if not s.withdrawn and k not in now and outdated(k, s)),
        frozenset(k for k, s in stored.items() if s.withdrawn and k in now),
    )


def finding_of(row: AlertRow, now_ms: int) -> Finding:
    """A finding of the core as one of the topic would be, found at ``now_ms``."""
    return Finding(**msgspec.structs.asdict(row), alerted_ms=now_ms)


def alert_changes(
    stored: Sequence[StoredAlert], live: Iterable[Finding], moved: Iterable[Finding],
    clear_for_ms: int | None, seen_ms: int,
) -> AlertChanges:  # fmt: skip
    """Alerts of one vehicle and rule whose findings are ``live`` now that some ``moved``: came or went.

    ``seen_ms`` is the vehicle's newest event: an alert without a finding for ``clear_for_ms`` is over.
    """
    clear_ms, moments = clear_for_ms or 0, [finding.event_ms for finding in moved]
    spans = [(min(moments), max(moments)), *((s.alert.opened_ms, s.alert.last_ms) for s in stored)]
    # The time of alerts whose findings may belong together with those that moved.
    first, last = next(span for span in merged(spans, clear_ms) if span[0] <= moments[0] <= span[1])
    touched = [s for s in stored if first <= s.alert.opened_ms <= last]
    low, high = first - clear_ms, last + clear_ms
    findings = sorted(live, key=lambda f: (f.event_ms, f.ended))
    near = [finding for finding in findings if low <= finding.event_ms <= high]
    # Nothing else ends an alert that is over, and only the newest may be active.
    later = any(s.alert.opened_ms > high for s in stored if not s.withdrawn)
    made = []
    for alert in merge([], near, clear_for_ms):
        over = later or (clear_for_ms is not None and seen_ms > alert.last_ms + clear_for_ms)
        ends = alert.cleared_ms is None and over
        made.append(replace(alert, cleared_ms=alert.last_ms + clear_ms) if ends else alert)
    return _placed(touched, made)


def _placed(touched: Sequence[StoredAlert], made: Sequence[Alert]) -> AlertChanges:
    """Each alert in the place of the one that it is, by its first finding, else by overlap in time, if it is
    another; an end by hand stands.
    """
    left, changed, added = list(touched), list[Alert](), list(made)

    def is_same(stored: StoredAlert, alert: Alert, by_time: bool) -> bool:
        was = stored.alert
        overlaps = was.opened_ms <= alert.last_ms and alert.opened_ms <= was.last_ms
        return was.first_alert_id == alert.first_alert_id or (by_time and overlaps and not stored.withdrawn)

    for by_time in (False, True):
        waiting, added = added, []
        for alert in waiting:
            stored = next((s for s in left if is_same(s, alert, by_time)), None)
            if stored is None:
                added.append(alert)
                continue
            left.remove(stored)
            was = stored.alert
            after = replace(alert, alert_no=was.alert_no, first_alert_id=was.first_alert_id)
            if stored.by_hand and was.cleared_ms is not None and was.cleared_ms >= alert.last_ms:
                after = replace(after, cleared_ms=was.cleared_ms)
            if after != was or stored.withdrawn:
                changed.append(after)
    withdrawn = (s.alert.alert_no for s in left if not s.withdrawn and s.alert.alert_no is not None)
    return AlertChanges(tuple(added), tuple(changed), tuple(withdrawn))


def restate_alerts(
    connection: Connection, vehicle_id: str, whole: Sequence[AlertRow], streamed: Sequence[AlertRow],
    rules: Sequence[str], clear_times: ClearTimes, now_ms: int,
) -> Counts:  # fmt: skip
    """Findings and alerts of a vehicle as ``whole`` has them where that is not what the stream could see."""
    moments = [row.event_ms for row in (*whole, *streamed)]
    if not moments:
        return Counts()
    execute(connection, _LOCK)
    rows = fetch(connection, SQL["findings"], {"vehicle": vehicle_id, "rules": [*rules], **_bounds(moments)})
    stored = {row[0]: StoredFinding(Finding(*row[:-2]), *row[-2:]) for row in rows}
    low_ms, high_ms = min(moments), max(moments)
    inside = {key: each for key, each in stored.items() if low_ms <= each.finding.event_ms <= high_ms}
    ((seen_ms, late_ms),) = fetch(connection, SQL["times"], {"vehicle": vehicle_id})
    changes = finding_changes(whole, {row.alert_id for row in streamed}, inside, late_ms or 0, now_ms)
    if not any(changes):
        return Counts()
    with_rows(connection, store.INSERT_FINDINGS, changes.added)
    added, gone, back = [finding.alert_id for finding in changes.added], changes.withdrawn, changes.revived
    execute(connection, SQL["mark"], {"added": added, "withdrawn": [*gone], "revived": [*back]})
    live = [s.finding for k, s in stored.items() if k in back or not (s.withdrawn or k in gone)]
    moved = [*changes.added, *(stored[key].finding for key in (*gone, *back))]
    names = sorted({finding.rule for finding in moved})
    values = {"vehicle": vehicle_id, "names": names, **_bounds([finding.event_ms for finding in moved])}
    alerts = [StoredAlert(Alert(*row[:-2]), *row[-2:]) for row in fetch(connection, _ALERTS, values)]
    counts = Counts()
    for name in names:
        mine = [each for each in alerts if each.alert.rule == name]
        now, some = ([f for f in each if f.rule == name] for each in ((*live, *changes.added), moved))
        made = alert_changes(mine, now, some, clears_after_ms(clear_times, name), seen_ms or 0)
        _write_alerts(connection, made)
        counts += Counts(**{f"alerts_{name}": len(each) for name, each in made._asdict().items()})
    return counts


def _bounds(moments: Sequence[int]) -> dict[str, int]:
    return {"low_ms": min(moments) - MARGIN_MS, "high_ms": max(moments) + MARGIN_MS}


def _write_alerts(connection: Connection, changes: AlertChanges) -> None:
    """What is withdrawn first, so that no two alerts of one rule are active at once."""
    execute(connection, SQL["withdrawn"], {"numbers": [*changes.withdrawn]})
    store.put_alerts(connection, [*changes.changed, *changes.added])
    execute(connection, SQL["changed"], {"numbers": [alert.alert_no for alert in changes.changed]})
    execute(connection, _ADDED, {"ids": [alert.first_alert_id for alert in changes.added]})
