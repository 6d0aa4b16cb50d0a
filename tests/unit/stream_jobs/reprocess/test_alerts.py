"""Findings and alerts of one vehicle and rule after frames that came behind."""

from __future__ import annotations

from dataclasses import replace

from stream_jobs.alerts.derive import Alert, AlertRow, merge
from stream_jobs.reprocess.alerts import (
    AlertChanges,
    FindingChanges,
    StoredAlert,
    StoredFinding,
    alert_changes,
    finding_changes,
    finding_of,
)

CLEAR_MS = 10_000
LATER_MS = 1_000_000


def row(at_s: int, value: float = 110.0) -> AlertRow:
    return AlertRow(
        f"id{at_s}", "V", "hot", 1, "MAJOR", at_s * 1000, value, 105.0, "hot", 1, at_s, at_s * 1000 + 500,
        None, None,
    )  # fmt: skip


def known(
    *rows: AlertRow, restated_ms: int | None = None, withdrawn: bool = False
) -> dict[str, StoredFinding]:
    return {r.alert_id: StoredFinding(finding_of(r, 0), restated_ms, withdrawn) for r in rows}


def alerts(*rows: AlertRow, withdrawn: bool = False, by_hand: bool = False) -> list[StoredAlert]:
    """Stored alerts of these findings, all of them over."""
    made = merge([], [finding_of(r, 0) for r in rows], CLEAR_MS)
    return [
        StoredAlert(replace(a, alert_no=n, cleared_ms=a.last_ms + CLEAR_MS), withdrawn, by_hand)
        for n, a in enumerate(made, start=1)
    ]


def ids(changes: FindingChanges) -> tuple[list[str], list[str], list[str]]:
    return [f.alert_id for f in changes.added], sorted(changes.withdrawn), sorted(changes.revived)


def changed(
    stored: list[StoredAlert], live: list[int], moved: list[int], seen_ms: int = LATER_MS
) -> AlertChanges:
    """After findings at ``moved`` came or went, so that those at ``live`` are left, s."""
    now, some = ([finding_of(row(at_s), 0) for at_s in each] for each in (live, moved))
    return alert_changes(stored, now, some, CLEAR_MS, seen_ms)


def spans(made: tuple[Alert, ...]) -> list[tuple[int | None, int, int, int | None]]:
    return [(a.alert_no, a.opened_ms, a.last_ms, a.cleared_ms) for a in made]


def test_only_what_the_two_runs_do_not_share_is_changed() -> None:
    stored = known(row(10), row(20), row(30))
    whole, streamed = [row(10), row(40), row(50)], {"id10", "id20", "id50"}
    assert ids(finding_changes(whole, streamed, stored, 0, 0)) == (["id40"], ["id20"], [])


def test_a_finding_of_an_earlier_run_goes_only_when_frames_came_behind_since() -> None:
    stored = known(row(10), restated_ms=5000)
    assert ids(finding_changes([], set(), stored, 4999, 0)) == ([], [], [])
    assert ids(finding_changes([], set(), stored, 5001, 0)) == ([], ["id10"], [])


def test_a_finding_that_was_taken_away_and_is_one_after_all_comes_back() -> None:
    stored = known(row(10), withdrawn=True)
    assert ids(finding_changes([row(10)], {"id10"}, stored, 0, 0)) == ([], [], ["id10"])
    made = changed(alerts(row(10), withdrawn=True), [10], [10])
    assert (spans(made.changed), made.added, made.withdrawn) == ([(1, 10_000, 10_000, 20_000)], (), ())


def test_a_new_finding_opens_an_alert_that_is_over_or_makes_one_longer() -> None:
    made = changed(alerts(row(10)), [10, 300, 18], [300, 18])
    assert spans(made.added) == [(None, 300_000, 300_000, 310_000)]
    assert spans(made.changed) == [(1, 10_000, 18_000, 28_000)]


def test_an_alert_whose_findings_all_go_is_withdrawn_and_its_neighbours_stay() -> None:
    made = changed(alerts(row(10), row(100), row(200)), [10, 200], [100])
    assert made == AlertChanges((), (), (2,))


def test_a_finding_between_two_alerts_joins_them_and_the_second_is_withdrawn() -> None:
    made = changed(alerts(row(10), row(28)), [10, 28, 19], [19])
    assert (spans(made.changed), made.withdrawn) == ([(1, 10_000, 28_000, 38_000)], (2,))


def test_a_finding_taken_from_the_middle_parts_an_alert() -> None:
    made = changed(alerts(row(10), row(19), row(28)), [10, 28], [19])
    assert spans(made.changed) == [(1, 10_000, 10_000, 20_000)]
    assert spans(made.added) == [(None, 28_000, 28_000, 38_000)]


def test_an_end_by_hand_stands_and_the_newest_alert_may_be_active() -> None:
    by_hand = [s._replace(alert=replace(s.alert, cleared_ms=15_000)) for s in alerts(row(10), by_hand=True)]
    assert spans(changed(by_hand, [10, 12], [12]).changed) == [(1, 10_000, 12_000, 15_000)]
    lasting = changed(alerts(row(10)), [10, 12], [12], seen_ms=20_000)
    assert spans(lasting.changed) == [(1, 10_000, 12_000, None)]
