"""The ledger: sums that balance, and every number of a device in one place or missing."""

from __future__ import annotations

from dataclasses import replace

from stream_jobs.audit.edge import EdgeDevice
from stream_jobs.audit.ledger import (
    WHOLE,
    Absent,
    DeviceCount,
    Figures,
    Ledger,
    Scope,
    absent,
    enter_again,
    of_device,
)

DATABASE = {
    "counted": 90,
    "repaired": 3,
    "late": 3,
    "late_open": 0,
    "quarantined": 2,
    "dead": 5,
    "dead_distinct": 4,
    "not_kept": 0,
    "deferred": 0,
    "deferred_open": 0,
}
EDGE = {"generated": 95, "poison": 4, "sent": 104, "acked": 104}
ARCHIVE = {"archived": 100, "distinct": 95, "duplicate": 5}


def balance(
    edge: dict[str, int], appended: int, archive: dict[str, int], database: dict[str, int],
    dead_archived: int = 0,
) -> Ledger:  # fmt: skip
    return Ledger(**edge, **archive, **database, appended=appended, dead_archived=dead_archived)


COUNTED = Figures(
    generated=6, duplicate=2, in_time=4, late=1, quarantined=1, late_records=2, quarantined_records=1
)
SEEN = DeviceCount(COUNTED, first_seq=2, last_seq=9, gaps=[(4, 5)])
RUN = EdgeDevice(14, lost=[(0, 0), (4, 4)], dropped=[(12, 12)], on_board=[(13, 13)], from_ms=1000,
                  ended_ms=9000, sent=True)  # fmt: skip


def test_a_run_where_everything_is_found_again_has_residual_0() -> None:
    ledger = balance(EDGE, 100, ARCHIVE, DATABASE)
    assert (ledger.counted, ledger.duplicate, ledger.residual) == (90, 5, 0)


def test_a_frame_lost_on_the_way_is_missing() -> None:
    ledger = balance(EDGE | {"generated": 96}, 100, ARCHIVE, DATABASE)
    assert (ledger.missing_on_the_way, ledger.residual) == (1, 1)


def test_messages_counted_and_not_kept_explain_what_is_missing_and_no_more() -> None:
    def residual(generated: int, not_kept: int) -> int:
        edge, database = EDGE | {"generated": generated}, DATABASE | {"not_kept": not_kept}
        return balance(edge, 100, ARCHIVE, database).residual

    assert (residual(98, 3), residual(98, 7), residual(98, 1)) == (0, 0, 2)


def test_a_record_the_archive_lacks_is_missing() -> None:
    ledger = balance(EDGE, 101, ARCHIVE, DATABASE)
    assert (ledger.missing_in_archive, ledger.residual) == (1, 1)


def test_a_frame_counted_twice_in_windows_shows() -> None:
    ledger = balance(EDGE, 100, ARCHIVE, DATABASE | {"counted": 91})
    assert (ledger.missing_in_windows, ledger.residual) == (-1, 1)


def test_frames_put_off_are_accounted_for_until_they_are_in_their_windows() -> None:
    put_off = {"deferred": 7, "deferred_open": 7}
    during = balance(EDGE, 100, ARCHIVE, DATABASE | put_off | {"counted": 83})
    after = balance(EDGE, 100, ARCHIVE, DATABASE | put_off | {"deferred_open": 0})
    assert (during.residual, after.residual) == (0, 0)
    assert balance(EDGE, 100, ARCHIVE, DATABASE | put_off).missing_in_windows == -7, "in two places"
    one = Figures(generated=9, in_time=9, counted=5, deferred=4)
    assert (one.residual, Figures(generated=9, in_time=9, counted=5).residual) == (0, 4)


def test_losses_and_gains_do_not_cancel() -> None:
    ledger = balance(EDGE | {"generated": 96}, 100, ARCHIVE, DATABASE | {"counted": 91})
    assert ledger.residual == 2


def test_between_two_moments_only_what_came_in_between_counts() -> None:
    ledger = balance(EDGE, 100, ARCHIVE, DATABASE)
    assert (ledger - ledger).appended == 0


def test_what_a_back_fill_brought_in_was_never_in_the_topic() -> None:
    archive = ARCHIVE | {"archived": 110, "distinct": 105}
    database = DATABASE | {"counted": 100}
    assert balance(EDGE, 100, archive, database).residual == 20
    backfilled = archive | {"backfilled": 10, "backfilled_distinct": 10}
    assert balance(EDGE, 100, backfilled, database).residual == 0


def test_a_re_injected_frame_leaves_the_residual_0() -> None:
    before = balance(EDGE, 100, ARCHIVE, DATABASE)
    after = ARCHIVE | {"archived": 101, "distinct": 96}
    late = DATABASE | {"late": 4}
    assert (before.residual, balance(EDGE, 101, after, late).residual) == (0, 1)
    assert balance(EDGE, 101, after, late, dead_archived=1).residual == 0


def test_without_a_run_only_the_gaps_between_frames_lack() -> None:
    assert absent(SEEN, None, WHOLE) == Absent([(4, 5)], [])


def test_a_run_tells_what_came_before_the_first_frame_and_behind_the_last() -> None:
    assert absent(SEEN, RUN, WHOLE) == Absent([(0, 1), (4, 5), (10, 13)], [])


def test_a_device_of_which_nothing_came_lacks_altogether() -> None:
    assert absent(None, RUN, WHOLE) == Absent([(0, 13)], [])
    assert absent(None, replace(RUN, sent=False), WHOLE) == Absent([], [])


def test_a_gap_belongs_to_the_scope_of_the_frame_before_it() -> None:
    later = Scope(2000, 9001)
    assert absent(SEEN, RUN, later) == Absent([(4, 5), (10, 13)], [])
    seen = replace(SEEN, following=12)
    assert absent(seen, RUN, later) == Absent([(4, 5), (10, 11)], [])
    assert absent(None, RUN, later) == Absent([], [])


def test_what_never_left_and_what_is_dead_is_not_missing() -> None:
    figures, missing = of_device(
        SEEN, RUN, absent(SEEN, RUN, WHOLE), elsewhere=[], dead=[(10, 10)], waiting=[]
    )
    assert missing == [(1, 1), (5, 5), (11, 11)]
    assert figures == Figures(
        generated=14, lost_on_link=2, dropped_on_board=1, on_board=1, dead=1, missing=3,
        in_time=4, late=1, quarantined=1, duplicate=2, late_records=2, quarantined_records=1,
    )  # fmt: skip
    places = ("lost_on_link", "dropped_on_board", "on_board", "on_the_way", "dead", "missing", "in_time",
              "late", "quarantined")  # fmt: skip
    assert sum(getattr(figures, name) for name in places) == figures.generated


def test_behind_the_last_frame_of_a_run_that_goes_on_frames_are_on_their_way() -> None:
    run = replace(RUN, ended_ms=None)
    figures, missing = of_device(SEEN, run, absent(SEEN, run, WHOLE), elsewhere=[], dead=[], waiting=[])
    assert (figures.on_the_way, missing) == (2, [(1, 1), (5, 5)])


def test_the_end_of_a_run_lacks_only_once_it_lies_before_the_end_of_the_scope() -> None:
    assert absent(SEEN, RUN, Scope(0, 9000)) == Absent([(0, 1), (4, 5)], [(10, 13)])
    assert absent(SEEN, RUN, Scope(0, 9001)) == Absent([(0, 1), (4, 5), (10, 13)], [])


def test_frames_that_wait_in_the_log_are_on_their_way() -> None:
    lacking = absent(SEEN, None, WHOLE)
    figures, missing = of_device(SEEN, None, lacking, elsewhere=[], dead=[], waiting=[(4, 4), (77, 99)])
    assert (figures.on_the_way, missing) == (1, [(5, 5)])


def test_frames_that_the_archive_has_at_another_moment_are_none_of_this_scope() -> None:
    figures, missing = of_device(
        SEEN, None, absent(SEEN, None, WHOLE), elsewhere=[(4, 4)], dead=[], waiting=[]
    )
    assert (figures.generated, missing) == (7, [(5, 5)])


def test_each_disagreement_counts_in_the_residual_and_none_cancels_another() -> None:
    figures = Figures(in_time=4, late_records=2, quarantined_records=1)
    figures.add(Figures(counted=4, late_listed=2, quarantined_listed=1))
    assert figures.residual == 0
    figures.add(Figures(counted=1, late_listed=-1, quarantined_listed=2))
    assert figures.residual == 4
    figures.missing = 3
    assert figures.residual == 7


def test_what_windows_counted_under_a_used_number_is_a_frame_of_its_own_and_explains_no_more() -> None:
    figures = Figures(generated=5, in_time=4, counted=6, late=1, duplicate=3)
    assert (enter_again(figures, 1), figures.residual) == (1, 1)
    assert (enter_again(figures, 5), figures.residual) == (1, 0)
    assert figures == Figures(generated=7, in_time=6, counted=6, late=1, duplicate=1)
    lossy = Figures(generated=4, in_time=4, counted=3)
    assert (enter_again(lossy, 5), lossy.residual) == (0, 1)


def test_the_total_is_the_sum_of_all_vehicles() -> None:
    found = Figures(generated=2, missing=1)
    found.add(Figures(generated=3, counted=3))
    assert found == Figures(generated=5, missing=1, counted=3)
