import json
from dataclasses import replace
from pathlib import Path

import duckdb

from stream_jobs.audit.ledger import (
    ArchiveCounts,
    EdgeCounts,
    archive_counts,
    balance,
    dead_archived,
    edge_counts,
    used_again,
)

DATABASE = {
    "frames_counted": 93,
    "frames_repaired": 3,
    "records_late": 3,
    "records_late_open": 0,
    "records_quarantined": 2,
    "records_dead": 5,
    "records_dead_distinct": 4,
    "messages_not_kept": 0,
}
EDGE = EdgeCounts(generated=95, poison=4, sent=104, acked=104)
ARCHIVE = ArchiveCounts(archived=100, distinct=95, ok=95, ok_distinct=90, late=3, quarantined=2)


def test_a_run_where_everything_is_found_again_has_residual_0() -> None:
    ledger = balance(EDGE, 100, ARCHIVE, DATABASE)
    assert (ledger.counted, ledger.duplicate, ledger.residual) == (90, 5, 0)


def test_a_frame_lost_on_the_way_is_missing() -> None:
    ledger = balance(replace(EDGE, generated=96), 100, ARCHIVE, DATABASE)
    assert (ledger.missing_on_the_way, ledger.residual) == (1, 1)


def test_messages_counted_and_not_kept_explain_what_is_missing_and_no_more() -> None:
    def residual(generated: int, not_kept: int) -> int:
        edge = EdgeCounts(generated=generated, poison=4, sent=104, acked=104)
        return balance(edge, 100, ARCHIVE, DATABASE | {"messages_not_kept": not_kept}).residual

    assert (residual(98, 3), residual(98, 7), residual(98, 1)) == (0, 0, 2)


def test_a_record_the_archive_lacks_is_missing() -> None:
    ledger = balance(EDGE, 101, ARCHIVE, DATABASE)
    assert (ledger.missing_in_archive, ledger.residual) == (1, 1)


def test_a_frame_counted_twice_in_windows_shows() -> None:
    ledger = balance(EDGE, 100, ARCHIVE, DATABASE | {"frames_counted": 94})
    assert (ledger.missing_in_windows, ledger.residual) == (-1, 1)


def test_losses_and_gains_do_not_cancel() -> None:
    ledger = balance(replace(EDGE, generated=96), 100, ARCHIVE, DATABASE | {"frames_counted": 94})
    assert ledger.residual == 2


def test_between_two_moments_only_what_came_in_between_counts() -> None:
    ledger = balance(EDGE, 100, ARCHIVE, DATABASE)
    assert (ledger - ledger).appended == 0


def test_the_edges_figures_are_summed_over_runs_without_what_never_left(tmp_path: Path) -> None:
    for number, (lost, dropped) in enumerate(((0, 0), (4, 3))):
        folder = tmp_path / "runs" / str(number)
        folder.mkdir(parents=True)
        run = {
            "generated": 50,
            "lost_on_link": lost,
            "dropped_on_board": dropped,
            "poison": 1,
            "sent": 52,
            "acked": 51,
        }
        (folder / "run.json").write_text(json.dumps(run))
    assert edge_counts(tmp_path) == EdgeCounts(generated=93, poison=2, sent=104, acked=102)


def test_a_run_in_several_processes_counts_once(tmp_path: Path) -> None:
    counts = {"generated": 50, "sent": 50, "acked": 50}
    whole = {"generated": 100, "sent": 100, "acked": 100, "run_id": "r", "parts": ["r.0", "r.1"]}
    for name, run in (("r", whole), ("r.0", counts | {"run_id": "r.0"}), ("r.1", counts | {"run_id": "r.1"})):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "run.json").write_text(json.dumps(run))
    assert edge_counts(tmp_path) == EdgeCounts(generated=100, sent=100, acked=100)


def test_what_a_back_fill_brought_in_was_never_in_the_topic() -> None:
    archive = replace(ARCHIVE, archived=110, distinct=105, ok=105, ok_distinct=100)
    database = DATABASE | {"frames_counted": 103}
    assert balance(EDGE, 100, archive, database).residual == 20
    brought = replace(archive, brought_in=10, brought_distinct=10)
    assert balance(EDGE, 100, brought, database).residual == 0


def test_the_archive_is_counted_by_record_and_by_identity(tmp_path: Path) -> None:
    folder = tmp_path / "archive" / "telemetry" / "date=2026-11-21" / "hour=10"
    folder.mkdir(parents=True)
    seen = [(1, "ok", "t"), (1, "ok", "t"), (2, "ok", "t"), (2, "late", "day"), (3, "clock_ahead", "day")]
    rows = ", ".join(f"('V', 1, {seq}, '{verdict}', '{topic}')" for seq, verdict, topic in seen)
    duckdb.sql(f"SELECT * FROM (VALUES {rows}) t(vehicle_id, boot_id, seq, verdict, topic)").write_parquet(
        str(folder / "a.parquet")
    )
    expected = ArchiveCounts(archived=5, distinct=3, ok=3, ok_distinct=2, late=1, quarantined=1)
    assert archive_counts(tmp_path) == expected
    assert archive_counts(tmp_path, "t") == replace(expected, brought_in=2, brought_distinct=1)
    assert archive_counts(tmp_path / "empty") == ArchiveCounts()


def archive(home: Path, *seqs: int, t0_ms: int = 0, name: str = "a") -> None:
    folder = home / "archive" / "telemetry" / "date=2026-11-21" / "hour=10"
    folder.mkdir(parents=True, exist_ok=True)
    rows = ", ".join(f"('V', 1, {seq}, 'ok', 't', {t0_ms})" for seq in seqs)
    names = "vehicle_id, boot_id, seq, verdict, topic, t0_ms"
    duckdb.sql(f"SELECT * FROM (VALUES {rows}) t({names})").write_parquet(str(folder / f"{name}.parquet"))


def test_numbers_used_again_for_another_moment_are_counted_and_copies_are_not(tmp_path: Path) -> None:
    assert used_again(tmp_path) == 0
    archive(tmp_path, 1, 8, 8)
    assert used_again(tmp_path) == 0
    archive(tmp_path, 8, 9, t0_ms=300_000, name="b")
    assert used_again(tmp_path) == 1


def test_a_dead_letter_whose_frame_is_archived_is_no_loss_however_often_it_went_in(tmp_path: Path) -> None:
    dead = [("d1", "V", 1, 8), ("d2", "V", 1, 9)]
    assert dead_archived(tmp_path, dead) == 0
    archive(tmp_path, 1, 8, 8)
    assert dead_archived(tmp_path, dead) == 1
    assert dead_archived(tmp_path, []) == 0


def test_a_re_injected_frame_leaves_the_residual_0() -> None:
    before = balance(EDGE, 100, ARCHIVE, DATABASE)
    after = replace(ARCHIVE, archived=101, distinct=96, late=4)
    late = DATABASE | {"records_late": 4}
    assert (before.residual, balance(EDGE, 101, after, late).residual) == (0, 1)
    assert balance(EDGE, 101, after, late, dead_archived=1).residual == 0
