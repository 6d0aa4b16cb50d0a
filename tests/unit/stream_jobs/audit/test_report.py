"""An account's residual, and what it lacks in words."""

from __future__ import annotations

from datetime import timedelta, timezone

from stream_jobs.audit.archive import LogGap
from stream_jobs.audit.collect import Account, Gap, WindowGap
from stream_jobs.audit.ledger import WHOLE, Figures
from stream_jobs.audit.report import Finding, findings


def account() -> Account:
    lossy = Figures(generated=9, missing=3, in_time=6, counted=5)
    unlisted = Figures(late_records=2, late_listed=1)
    total = Figures(generated=9, missing=3, in_time=6, counted=5, late_records=2, late_listed=1)
    return Account(
        WHOLE,
        {"A": lossy, "B": unlisted},
        total,
        [Gap("A", 7, [(2, 3), (8, 8)])],
        [WindowGap("A", 1_763_596_800_000, 6, 5, 7, 0, 9)],
        [LogGap("t", 1, [(4, 9)], 2)],
    )


def test_all_that_is_missing_and_all_that_differs_is_in_the_residual() -> None:
    assert account().residual == (3 + 1) + 1 + (6 + 2)


def test_the_brokers_own_count_explains_at_most_what_is_missing_between_vehicle_and_archive() -> None:
    found = account()
    found.broker_dropped = 2
    assert (found.dropped_by_broker, found.residual) == (2, 13 - 2)
    found.broker_dropped = 40
    assert (found.dropped_by_broker, found.residual) == (3, 13 - 3)


def test_what_went_with_a_session_of_the_bridge_is_named_with_it_and_explained() -> None:
    found = account()
    found.gaps = [
        Gap("A", 7, [(2, 3)], "2025-11-20 00:00:00 UTC, odograph-bridge: taken"),
        Gap("A", 7, [(8, 8)]),
    ]
    found.broker_dropped = 40
    assert (found.lost_with_session, found.dropped_by_broker, found.residual) == (2, 1, 13 - 3)
    what = "boot 7 seq 2-3; lost with the session of 2025-11-20 00:00:00 UTC, odograph-bridge: taken"
    assert next(findings(found)) == Finding("vehicle to archive", "A", what, 2)


def test_messages_beyond_a_vehicles_limit_explain_so_many_of_its_missing_frames() -> None:
    found = account()
    found.vehicles["A"].not_kept = 2
    assert found.residual == 13 - 2
    found.vehicles["A"].not_kept = 40
    assert found.residual == 13 - 3


def test_each_thing_that_lacks_is_named_between_its_stages() -> None:
    east = timezone(timedelta(hours=1), "CET")
    assert list(findings(account(), east)) == [
        Finding("vehicle to archive", "A", "boot 7 seq 2-3, 8", 3),
        Finding("log to archive", None, "t/1 offsets 4-9", 6),
        Finding("log to archive", None, "t/1: records archived twice", 2),
        Finding(
            "archive to windows",
            "A",
            "window 2025-11-20 01:00:00 CET: 6 frames archived (boot 7 seq 0-9), 5 counted",
            1,
        ),
        Finding("archive to lists", "B", "late: 2 records archived, 1 listed", 1),
    ]
