"""The life of an alert, from findings alone."""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from stream_jobs.alerts.derive import Alert, Finding, merge, worse

T0 = 1_790_000_000_000
MINUTE = 60_000
HOT = Finding(
    alert_id="a1",
    vehicle_id="1HGCM82633A004352",
    rule="coolant_critical",
    rule_version=1,
    severity="MAJOR",
    event_ms=T0,
    received_ms=T0 + 400,
    alerted_ms=T0 + 410,
    message="Coolant above 115 degC",
    value=117.0,
    limit=115.0,
    lat_deg=52.5,
    lon_deg=13.4,
    boot_id=1,
    seq=7,
)


def at(offset_ms: int, alert_id: str, value: float = 117.0, severity: str = "MAJOR") -> Finding:
    """A finding some time after T0, received at once."""
    event_ms = T0 + offset_ms
    return structs.replace(
        HOT, alert_id=alert_id, event_ms=event_ms, received_ms=event_ms + 400, value=value, severity=severity
    )


def stored(alerts: tuple[Alert, ...]) -> list[Alert]:
    return [replace(alert, alert_no=number) for number, alert in enumerate(alerts, start=1)]


def test_a_first_finding_opens_an_alert() -> None:
    (alert,) = merge([], [HOT], MINUTE)
    assert (alert.opened_ms, alert.last_ms, alert.cleared_ms, alert.findings) == (T0, T0, None, 1)
    assert (alert.value, alert.worst_value, alert.limit, alert.first_alert_id) == (117.0, 117.0, 115.0, "a1")


def test_further_findings_update_the_same_alert() -> None:
    (alert,) = merge([], [HOT, at(1000, "a2", 121.0), at(2000, "a3", 118.0)], MINUTE)
    assert (alert.opened_ms, alert.last_ms, alert.findings) == (T0, T0 + 2000, 3)
    assert (alert.value, alert.worst_value) == (118.0, 121.0)
    assert alert.first_alert_id == "a1"


def test_a_finding_beyond_the_clear_time_ends_the_old_alert_and_opens_another() -> None:
    first, second = merge([], [HOT, at(MINUTE + 1, "a2")], MINUTE)
    assert (first.cleared_ms, first.findings) == (T0 + MINUTE, 1)
    assert (second.opened_ms, second.cleared_ms) == (T0 + MINUTE + 1, None)


def test_a_finding_at_the_clear_time_still_belongs_to_the_alert() -> None:
    (alert,) = merge([], [HOT, at(MINUTE, "a2")], MINUTE)
    assert (alert.findings, alert.cleared_ms) == (2, None)


def test_an_older_finding_within_reach_moves_the_beginning_and_no_newest_value() -> None:
    (alert,) = merge([], [at(5000, "a2", 118.0), at(0, "a1", 125.0)], MINUTE)
    assert (alert.opened_ms, alert.last_ms) == (T0, T0 + 5000)
    assert (alert.value, alert.worst_value) == (118.0, 125.0)


def test_a_much_older_finding_becomes_an_alert_of_its_own_that_is_over() -> None:
    known = stored(merge([], [HOT], MINUTE))
    alerts = merge(known, [at(-10 * MINUTE, "old")], MINUTE)
    assert [(a.opened_ms, a.cleared_ms) for a in alerts] == [(T0, None), (T0 - 10 * MINUTE, T0 - 9 * MINUTE)]


def test_a_finding_that_was_still_on_its_way_reopens_a_cleared_alert() -> None:
    known = [replace(stored(merge([], [HOT], MINUTE))[0], cleared_ms=T0 + MINUTE)]
    (alert,) = merge(known, [at(30_000, "a2")], MINUTE)
    assert (alert.alert_no, alert.cleared_ms, alert.last_ms) == (1, None, T0 + 30_000)


def test_severity_rises_and_does_not_fall_while_the_alert_is_active() -> None:
    (alert,) = merge([], [HOT, at(1000, "a2", severity="CRITICAL"), at(2000, "a3")], MINUTE)
    assert alert.severity == "CRITICAL"


def test_an_alert_without_clear_time_takes_every_later_finding() -> None:
    (alert,) = merge([], [HOT, at(100 * MINUTE, "a2")], None)
    assert (alert.findings, alert.cleared_ms) == (2, None)


def test_after_a_person_cleared_it_such_an_alert_opens_anew() -> None:
    known = [replace(stored(merge([], [HOT], None))[0], cleared_ms=T0 + 1)]
    alerts = merge(known, [at(2, "a2")], None)
    assert [(a.alert_no, a.cleared_ms) for a in alerts] == [(1, T0 + 1), (None, None)]


def test_a_backlog_gives_the_alerts_that_were_given_live() -> None:
    findings = [at(0, "a1"), at(1000, "a2"), at(90_000, "a3"), at(91_000, "a4"), at(300_000, "a5")]
    live: list[Alert] = []
    for finding in findings:
        live = stored(merge(live, [finding], MINUTE))
    assert stored(merge([], findings, MINUTE)) == live


def test_a_finding_more_than_fifteen_minutes_old_on_receipt_is_late() -> None:
    assert not structs.replace(HOT, received_ms=T0 + 15 * MINUTE).late
    assert structs.replace(HOT, received_ms=T0 + 15 * MINUTE + 1).late


def test_an_alert_is_late_only_while_all_its_findings_are() -> None:
    late = structs.replace(HOT, received_ms=T0 + 20 * MINUTE)
    assert merge([], [late], MINUTE)[0].late
    assert not merge([], [late, at(1000, "a2")], MINUTE)[0].late


def test_worse_is_further_beyond_the_limit_on_either_side() -> None:
    assert worse(117.0, 121.0, 115.0) == 121.0
    assert worse(11.5, 10.9, 12.0) == 10.9
    assert worse(None, -40.0, None) == -40.0
    assert worse(30.0, -40.0, None) == -40.0


def test_an_end_clears_the_active_alert_at_its_time_and_opens_none() -> None:
    end = structs.replace(at(50_000, "end"), ended=True)
    (alert,) = merge([], [HOT, end], None)
    assert (alert.cleared_ms, alert.findings, alert.value) == (T0 + 50_000, 1, 117.0)
    assert merge([], [end], None) == ()
    (first, second) = merge([alert], [at(60_000, "a2")], None)
    assert (first.cleared_ms, second.cleared_ms) == (T0 + 50_000, None)


def test_an_alert_knows_since_when_it_has_held_and_keeps_its_value_where_a_finding_has_none() -> None:
    first = structs.replace(HOT, since_ms=T0 - 30_000)
    (alert,) = merge([], [first, structs.replace(at(1000, "a2"), value=None, since_ms=T0 - 20_000)], MINUTE)
    assert (alert.since_ms, alert.value, alert.last_ms) == (T0 - 30_000, 117.0, T0 + 1000)
