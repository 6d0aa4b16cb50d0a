"""What the archive says: devices' frames by verdict, gaps between numbers, holes between offsets, clones."""

from __future__ import annotations

import math
from pathlib import Path

import duckdb
import pytest

from stream_jobs.archive.manifest import HOUR_MS
from stream_jobs.archive.upkeep import expire
from stream_jobs.audit import archive
from stream_jobs.audit.archive import Clone, LogGap, cloned_vehicles
from stream_jobs.audit.ledger import WHOLE, DeviceCount, Figures, Scope
from tests.unit.stream_jobs.audit.support import BOOT, T0_MS, Record, devices, store

V = ("V", BOOT)
TOPIC = "odograph.telemetry"


def test_each_frame_has_one_fate_and_its_further_records_are_copies(tmp_path: Path) -> None:
    records = [
        Record(0), Record(0), Record(1), Record(1, verdict="late"), Record(2, verdict="late"),
        Record(2, verdict="late"), Record(3, verdict="clock_unset"),
    ]  # fmt: skip
    found, _ = devices(tmp_path, records)
    figures = Figures(
        generated=4, duplicate=3, in_time=2, late=1, quarantined=1, late_records=3, quarantined_records=1
    )
    assert found == {V: DeviceCount(figures, first_seq=0, last_seq=3)}


def test_sums_and_the_numbers_one_by_one_say_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = [Record(s, "W", topic=TOPIC if s % 3 else "other") for s in range(5, 30)]
    broken = [Record(s, "B") for s in (0, 2, 2, 3, 3, 4, 6, 7)]  # as many as from 0 to 7
    far = [Record((1 << 53) - s, "F", moved_ms=-1000 << 53) for s in (1, 2)]
    mixed = [Record(2, "M"), Record(3, "M", "late"), Record(4, "M", "clock_unset", received_ms=T0_MS),
             Record(-1, "M", "erased", received_ms=T0_MS),
             Record(5, "M", "erased", received_ms=T0_MS, moved_ms=1 << 53)]  # fmt: skip
    store(tmp_path, [*whole, *broken, *far, *mixed])
    with archive.opened(tmp_path, WHOLE) as found:
        by_sums = found.devices(), found.totals(TOPIC)
    monkeypatch.setattr(archive, "follow", lambda *_: False)
    with archive.opened(tmp_path, WHOLE) as found:
        assert (found.devices(), found.totals(TOPIC)) == by_sums
    assert by_sums[1] == {
        "archived": 40, "distinct": 37, "duplicate": 2, "backfilled": 8, "backfilled_distinct": 8,
        "of_other_logs": 0, "erased": 2,
    }  # fmt: skip


def test_gaps_lie_between_the_numbers_of_one_device(tmp_path: Path) -> None:
    records = [Record(s) for s in (3, 4, 8, 5, 12)] + [Record(6, vehicle_id="W")]
    found, _ = devices(tmp_path, records)
    assert found[V].gaps == [(6, 7), (9, 11)]
    assert (found[V].first_seq, found[V].last_seq, found["W", BOOT].gaps) == (3, 12, [])


def test_an_unreadable_record_is_no_frame_and_makes_no_gap(tmp_path: Path) -> None:
    records = [Record(4), Record(-1, verdict="unreadable", received_ms=T0_MS)]
    found, _ = devices(tmp_path, records)
    figures = found[V].figures
    assert (figures.generated, figures.duplicate, figures.quarantined_records) == (1, 1, 1)
    assert (found[V].first_seq, found[V].gaps) == (4, [])


def test_a_scope_takes_frames_by_their_first_sample_and_knows_the_number_after_it(tmp_path: Path) -> None:
    scope = Scope(T0_MS + 10_000, T0_MS + 20_000)
    late = Record(12, verdict="late", received_ms=T0_MS + 600_000)
    found, _ = devices(tmp_path, [*map(Record, (8, 9, 10, 11, 18, 25)), late], scope)
    assert (found[V].figures.generated, found[V].figures.late, found[V].following) == (4, 1, 25)
    assert found[V].gaps == [(13, 17)]


def test_what_was_received_after_the_closing_moment_is_not_looked_at(tmp_path: Path) -> None:
    scope = Scope(T0_MS, T0_MS + 60_000, seen_until_ms=T0_MS + 10_500)
    found, _ = devices(tmp_path, map(Record, (8, 9, 10)), scope)
    assert (found[V].figures.generated, found[V].last_seq) == (2, 9)


def test_a_frame_of_a_gap_that_lies_at_another_moment_is_found(tmp_path: Path) -> None:
    scope = Scope(T0_MS + 10_000, T0_MS + 20_000)
    unset = Record(12, verdict="clock_unset", received_ms=T0_MS + 900_000)
    store(tmp_path, [*map(Record, (10, 11, 14)), unset])
    with archive.opened(tmp_path, scope) as found:
        assert found.devices()[V].gaps == [(12, 13)]
        assert found.elsewhere({V: [(12, 13)]}) == {V: [(12, 12)]}


def test_holes_and_doubles_among_the_offsets_are_named(tmp_path: Path) -> None:
    assert devices(tmp_path, [Record(s, offset=s + 5) for s in range(4)])[1] == []
    _, broken = devices(tmp_path, [Record(0, offset=o) for o in (5, 5, 6, 9, 11, 12)])
    assert broken == [LogGap(TOPIC, 0, [(7, 8), (10, 10)], 1)]


def test_what_expired_is_no_hole_at_a_full_hour_that_records_came_out_of_order_at(tmp_path: Path) -> None:
    store(tmp_path, [Record(0, offset=o) for o in (5, 6, 8)], log="log")
    store(tmp_path, [Record(0, offset=o) for o in (7, 9, 12)], T0_MS + HOUR_MS, log="log")
    expire(tmp_path / "archive", [T0_MS // HOUR_MS * HOUR_MS])
    with archive.opened(tmp_path, Scope(T0_MS + HOUR_MS, T0_MS + 2 * HOUR_MS)) as found:
        assert found.log_gaps() == [LogGap(TOPIC, 0, [(10, 11)], 0)]


def test_a_window_whose_frames_were_stamped_ahead_and_expired_by_their_receipt_is_not_balanced(
    tmp_path: Path,
) -> None:
    hour_ms = T0_MS + HOUR_MS
    store(tmp_path, [Record(3603, received_ms=hour_ms - 2000)], log="log")  # its window is the next hour's
    store(tmp_path, [Record(9)], hour_ms, name="b", log="log")
    assert archive.horizon_ms(tmp_path, ahead_ms=10_000, window_ms=10_000) is None
    expire(tmp_path / "archive", [T0_MS])
    assert archive.horizon_ms(tmp_path, ahead_ms=10_000, window_ms=10_000) == hour_ms + 10_000
    assert archive.horizon_ms(tmp_path, ahead_ms=10_000, window_ms=60_000) == hour_ms + 60_000


def test_what_the_archive_holds_beyond_a_finished_batch_is_not_looked_at(tmp_path: Path) -> None:
    store(tmp_path, [Record(s, offset=s + 5) for s in range(4)])
    with archive.opened(tmp_path, Scope(0, T0_MS + 10_000), (TOPIC, "log", {0: 8})) as found:
        assert (found.log_gaps(), found.devices()[V].figures.generated) == ([], 3)


def test_what_the_archive_lacks_of_finished_batches_is_named_also_behind_its_last_record(
    tmp_path: Path,
) -> None:
    store(tmp_path, [Record(s, offset=s + 5) for s in range(4)])
    committed = (TOPIC, "log", {0: 11, 1: 2, 2: 0})
    with archive.opened(tmp_path, WHOLE, committed) as found:
        assert found.log_gaps() == [LogGap(TOPIC, 0, [(9, 10)], 0), LogGap(TOPIC, 1, [(0, 1)], 0)]
    with archive.opened(tmp_path, Scope(T0_MS, T0_MS + 60_000), committed) as found:
        assert found.log_gaps() == []


def test_offsets_of_two_logs_are_places_in_each(tmp_path: Path) -> None:
    store(tmp_path, [Record(s) for s in range(4)], name="a", log="one")
    store(tmp_path, [Record(s) for s in (4, 5, 6)], name="b", log="two")
    with archive.opened(tmp_path, WHOLE, (TOPIC, "two", {0: 2})) as found:
        assert found.log_gaps() == []
        totals = found.totals(TOPIC, logs=["two"])
    assert (totals["archived"], totals["of_other_logs"], totals["backfilled"]) == (6, 4, 0)
    with archive.opened(tmp_path, WHOLE, (TOPIC, "two", {0: 6})) as found:
        assert found.log_gaps() == [LogGap(TOPIC, 0, [(3, 5)], 0)]


def test_records_after_the_closed_part_of_what_was_asked_for_are_counted(tmp_path: Path) -> None:
    scope = Scope(T0_MS, T0_MS + 20_000, seen_until_ms=T0_MS + 21_000)
    late = Record(12, verdict="late", received_ms=T0_MS + 600_000)
    store(tmp_path, [*map(Record, (11, 19, 20, 35)), late])
    with archive.opened(tmp_path, scope) as found:
        assert (found.open_records(T0_MS + 30_000), found.open_records(T0_MS + 40_000)) == (2, 3)


def test_shares_of_the_fleet_add_up_to_the_same_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [Record(s, vehicle_id=f"V{s % 7}") for s in range(40)]
    store(tmp_path, records)
    with archive.opened(tmp_path, WHOLE) as found:
        whole = found.devices()
        monkeypatch.setattr(archive, "SHARE_ROWS", 6)
        assert found.devices() == whole
    assert whole["V3", BOOT].gaps == [(4, 9), (11, 16), (18, 23), (25, 30), (32, 37)]


def test_the_windows_of_a_vehicle_are_counted_by_first_sample_and_identity(tmp_path: Path) -> None:
    records = [Record(8), Record(8), Record(9), Record(10), Record(11, verdict="late")]
    store(tmp_path, records)
    with archive.opened(tmp_path, WHOLE) as found:
        first = T0_MS + 10_000
        assert found.windows("V", 10_000) == {T0_MS: (2, BOOT, 8, 9), first: (1, BOOT, 10, 10)}


def test_a_number_used_again_for_another_moment_in_time_is_told_of_the_vehicles_asked_for(
    tmp_path: Path,
) -> None:
    moved = [Record(8, moved_ms=ms) for ms in (0, 0, 300_000, 300_000, 600_000)]
    late = [Record(9), Record(9, verdict="late", moved_ms=300_000)]
    store(tmp_path, [*moved, *late, Record(8, "W"), Record(8, "W", moved_ms=300_000), Record(1, "X")])
    with archive.opened(tmp_path, WHOLE) as found:
        assert found.again(["V", "X"]) == {"V": 2, "X": 0}
        assert found.again([]) == {}
    with archive.opened(tmp_path, Scope(T0_MS, T0_MS + 400_000)) as found:
        assert found.again(["V", "W"]) == {"V": 1, "W": 1}


def test_an_archive_without_files_says_nothing(tmp_path: Path) -> None:
    with archive.opened(tmp_path, WHOLE) as found:
        assert (found.devices(), found.log_gaps()) == ({}, [])


def test_a_gap_lies_between_the_receipts_of_its_neighbours(tmp_path: Path) -> None:
    store(tmp_path, [Record(0), Record(1), Record(5), Record(9, "W")])
    gaps = {("V", BOOT): [(2, 4), (6, 8)], ("W", BOOT): [(0, 8)]}
    with archive.opened(tmp_path, WHOLE) as found:
        assert found.around(gaps) == {
            (("V", BOOT), 2): (T0_MS + 2000, T0_MS + 6000),
            (("V", BOOT), 6): (T0_MS + 6000, math.inf),
            (("W", BOOT), 0): (-math.inf, T0_MS + 10_000),
        }


def test_records_are_counted_by_record_and_by_identity_and_a_back_fills_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = [Record(1), Record(1), Record(2)]
    filled = [Record(2, verdict="late", topic="day"), Record(3, verdict="clock_ahead", topic="day")]
    store(tmp_path, [*live, *filled])
    expected = {"archived": 5, "distinct": 3, "duplicate": 1, "backfilled": 0,
                "backfilled_distinct": 0, "of_other_logs": 0, "erased": 0}  # fmt: skip
    with archive.opened(tmp_path, WHOLE) as found:
        assert found.totals() == expected
        monkeypatch.setattr(archive, "SHARE_ROWS", 2)
        by_topic = found.totals(TOPIC, logs=["a log"])
    assert by_topic == expected | {"backfilled": 2, "backfilled_distinct": 1}
    with archive.opened(tmp_path / "empty", WHOLE) as found:
        assert found.totals() == dict.fromkeys(expected, 0)


def test_records_of_an_erased_vehicle_are_counted_and_its_marks_are_no_frames(tmp_path: Path) -> None:
    erased = [Record(k, vehicle_id="ERASED", verdict="erased") for k in (1, 2, 2)]
    store(
        tmp_path, [Record(1), *erased, Record(-1, vehicle_id="ERASED", verdict="erased", received_ms=T0_MS)]
    )
    with archive.opened(tmp_path, WHOLE) as found:
        totals = found.totals()
        device = found.devices()["ERASED", BOOT]
    assert (totals["archived"], totals["distinct"], totals["erased"]) == (5, 3, 4)
    assert device == DeviceCount(Figures(generated=2, duplicate=1, erased=2), first_seq=1, last_seq=2)


def test_numbers_used_again_for_another_moment_are_counted_and_copies_are_not(tmp_path: Path) -> None:
    store(tmp_path, [Record(1), Record(8), Record(8)])
    with archive.opened(tmp_path, WHOLE) as found:
        assert found.again_in_all() == 0
    store(tmp_path, [Record(8, moved_ms=300_000), Record(9, moved_ms=300_000)], name="b")
    with archive.opened(tmp_path, WHOLE) as found:
        assert found.again_in_all() == 1


def test_a_dead_letter_whose_frame_is_archived_is_no_loss_however_often_it_went_in(tmp_path: Path) -> None:
    dead = [("d1", "V", BOOT, 8), ("d2", "V", BOOT, 9)]
    with archive.opened(tmp_path, WHOLE) as found:
        assert found.dead_archived(dead) == 0
    store(tmp_path, [Record(1), Record(8), Record(8)])
    with archive.opened(tmp_path, WHOLE) as found:
        assert (found.dead_archived(dead), found.dead_archived([])) == (1, 0)


def filled(home: Path, *made: tuple[str, int, int, int, str]) -> None:
    """Frames of 1 s as (vehicle, boot, sample time, receive time, verdict), times in s after T0."""
    folder = home / "archive" / "telemetry" / "date=2026-01-01" / "hour=00"
    folder.mkdir(parents=True)
    rows = ", ".join(
        f"('{v}', {b}, {T0_MS + 1000 * at}, 900, {T0_MS + 1000 * seen}, '{word}')"
        for v, b, at, seen, word in made
    )
    names = "vehicle_id, boot_id, t0_ms, span_ms, received_ms, verdict"
    duckdb.sql(f"SELECT * FROM (VALUES {rows}) t({names})").write_parquet(str(folder / "a.parquet"))


def test_two_boots_that_report_at_once_are_two_devices(tmp_path: Path) -> None:
    both = [("V", boot, at, at + 1, "ok") for at in range(60) for boot in (1, 2)]
    filled(tmp_path, *both)
    assert cloned_vehicles(tmp_path) == [Clone("V", 1, 2, 59_900)]


def test_a_reboot_is_one_device(tmp_path: Path) -> None:
    filled(tmp_path, *(("V", 1 + at // 60, at, at + 1, "ok") for at in range(180)))
    assert cloned_vehicles(tmp_path) == []


def test_frames_stored_before_a_reboot_and_sent_after_it_are_one_devices(tmp_path: Path) -> None:
    stored = [("V", 1, at, 100 + at, "late") for at in range(90)]
    filled(tmp_path, *stored, *(("V", 2, 100 + at, 101 + at, "ok") for at in range(90)))
    assert cloned_vehicles(tmp_path) == []


def test_a_clock_that_a_reboot_sets_back_is_one_device(tmp_path: Path) -> None:
    first = [("V", 1, at, at + 1, "ok") for at in range(100)]
    filled(tmp_path, *first, *(("V", 2, at, at + 101, "late") for at in range(100)))
    assert cloned_vehicles(tmp_path) == []


def test_quarantined_frames_and_other_vehicles_say_nothing(tmp_path: Path) -> None:
    ours = [("V", 1, at, at + 1, "ok") for at in range(60)]
    others = [("W", 2, at, at + 1, "ok") for at in range(60)]
    filled(tmp_path, *ours, *others, *(("V", 3, at, at + 1, "clock_ahead") for at in range(60)))
    assert cloned_vehicles(tmp_path) == []


def test_without_an_archive_there_are_none(tmp_path: Path) -> None:
    assert cloned_vehicles(tmp_path) == []
