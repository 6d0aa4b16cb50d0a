"""Packing, places that change at once, expiry; and what a crash in between leaves."""

from __future__ import annotations

import threading
from pathlib import Path

import duckdb
import pytest

from infra.contract.errors import ArchiveError
from infra.settings.sections import Archive
from stream_jobs.archive import reader
from stream_jobs.archive.manifest import PACKED, PACKING, hour_name, read_hour
from stream_jobs.archive.upkeep import Packed, alone, compact, due_hours, expire, pack_hour, settle, upkeep
from stream_jobs.archive.writer import now_ms
from tests.unit.stream_jobs.archive.archive_support import HOUR_MS, TEN, batches, offsets_in, written

RULES = Archive(pack_mb=1024, pack_after_min=0, grace_min=1)
ALL = [(p, o) for p in (0, 1) for o in range(10)]
LATER = 120_000
"""Longer than the grace time, ms."""


def plain(folder: Path) -> list[tuple[int, int]]:
    """What a reader finds that knows of no manifest."""
    sql = "SELECT partition, log_offset FROM read_parquet(?) ORDER BY ALL"
    with duckdb.connect() as connection:
        return connection.execute(sql, [str(folder / "telemetry" / "*" / "*" / "*.parquet")]).fetchall()


def placed(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "telemetry" / hour_name(TEN)).iterdir())


def test_readers_old_new_and_plain_find_each_record_once_in_every_phase(tmp_path: Path) -> None:
    batches(tmp_path, 5)
    before = reader.paths(tmp_path)
    packed = pack_hour(tmp_path, TEN, 1 << 30)
    assert packed is not None
    assert (packed.files_before, packed.files_after, packed.rows) == (5, 1, 20)
    between = reader.paths(tmp_path)
    assert (len(before), len(between)) == (5, 1)
    assert offsets_in(before) == offsets_in(between) == plain(tmp_path) == ALL
    assert not settle(tmp_path, TEN, 1, now_ms())
    assert offsets_in(before) == ALL
    assert settle(tmp_path, TEN, 1, now_ms() + LATER)
    assert placed(tmp_path) == ["abcdef01-000000000-000-packed-5.parquet"]
    assert offsets_in(between) == offsets_in(reader.paths(tmp_path)) == plain(tmp_path) == ALL
    settle(tmp_path, TEN, 1, now_ms() + 2 * LATER)
    assert not (tmp_path / PACKED / hour_name(TEN)).exists()
    assert offsets_in(reader.paths(tmp_path)) == plain(tmp_path) == ALL


def test_records_keep_the_order_of_the_log(tmp_path: Path) -> None:
    batches(tmp_path, 12)
    pack_hour(tmp_path, TEN, 1 << 30)
    with duckdb.connect() as connection:
        sql = "SELECT list(log_offset) FROM read_parquet(?) WHERE partition = 1"
        assert connection.execute(sql, [reader.paths(tmp_path)]).fetchone() == ([*range(24)],)


def test_a_batch_that_comes_again_after_it_was_packed_is_left_out(tmp_path: Path) -> None:
    batches(tmp_path, 5)
    pack_hour(tmp_path, TEN, 1 << 30)
    assert not written(tmp_path, "abcdef01-000000004-000.parquet", [(0, 8, 40), (0, 9, 41)])
    settle(tmp_path, TEN, 0, now_ms() + LATER)
    assert not written(tmp_path, "abcdef01-000000004-000.parquet", [(0, 8, 40), (0, 9, 41)])
    assert offsets_in(reader.paths(tmp_path)) == plain(tmp_path) == ALL


def test_a_file_that_comes_during_a_compaction_stays(tmp_path: Path) -> None:
    batches(tmp_path, 5)
    pack_hour(tmp_path, TEN, 1 << 30)
    written(tmp_path, "abcdef01-000000005-000.parquet", [(0, 10, 50)])
    settle(tmp_path, TEN, 0, now_ms() + LATER)
    assert offsets_in(reader.paths(tmp_path)) == plain(tmp_path) == sorted([*ALL, (0, 10)])
    assert len(placed(tmp_path)) == 2


def test_files_are_packed_up_to_a_size_and_packed_ones_are_left_alone(tmp_path: Path) -> None:
    batches(tmp_path, 5)
    size = next((tmp_path / "telemetry" / hour_name(TEN)).iterdir()).stat().st_size
    packed = pack_hour(tmp_path, TEN, 5 * size // 2)
    assert packed is not None
    assert (packed.files_before, packed.files_after) == (4, 2)
    assert pack_hour(tmp_path, TEN, 1 << 30) is None
    assert offsets_in(reader.paths(tmp_path)) == ALL


def test_only_hours_that_are_closed_are_packed_and_a_damaged_one_keeps_no_other_from_it(
    tmp_path: Path,
) -> None:
    for hour in range(3):
        batches(tmp_path, 2, TEN + hour * HOUR_MS)
    damaged = tmp_path / "telemetry" / hour_name(TEN) / "abcdef01-000000001-000.parquet"
    broken = bytearray(damaged.read_bytes())
    broken[8] ^= 1
    damaged.write_bytes(broken)
    failure, packed = compact(tmp_path, reader.hours(tmp_path), RULES, TEN + 2 * HOUR_MS + 1000)
    assert isinstance(packed, Packed)
    assert packed.hour_ms == TEN + HOUR_MS
    assert isinstance(failure, ArchiveError)
    assert "000000001-000.parquet has other bytes than were written" in str(failure)
    assert len(read_hour(tmp_path, TEN).files) == 2


def test_what_a_killed_compaction_left_is_cleared_and_the_work_done_again(tmp_path: Path) -> None:
    batches(tmp_path, 5)
    for root in (PACKED, PACKING):  # killed while it wrote, and before its line in the manifest
        left = tmp_path / root / hour_name(TEN) / "abcdef01-000000000-000-packed-5.parquet"
        left.parent.mkdir(parents=True)
        left.write_bytes(b"half")
    assert offsets_in(reader.paths(tmp_path)) == ALL
    assert upkeep(tmp_path, RULES) == 1
    assert not (tmp_path / PACKING).exists()
    assert offsets_in(reader.paths(tmp_path)) == plain(tmp_path) == ALL


def test_a_swap_without_its_line_in_the_manifest_is_done_again(tmp_path: Path) -> None:
    batches(tmp_path, 5)
    pack_hour(tmp_path, TEN, 1 << 30)
    manifest = tmp_path / "manifest" / f"{hour_name(TEN)}.jsonl"
    before = manifest.read_bytes()
    settle(tmp_path, TEN, 0, now_ms() + LATER)
    manifest.write_bytes(before)  # killed after the exchange, before the line
    assert offsets_in(reader.paths(tmp_path)) == plain(tmp_path) == ALL
    settle(tmp_path, TEN, 0, now_ms() + LATER)
    assert offsets_in(reader.paths(tmp_path)) == plain(tmp_path) == ALL


def test_two_upkeeps_at_once_are_refused(tmp_path: Path) -> None:
    with alone(tmp_path), pytest.raises(ArchiveError, match="another upkeep"), alone(tmp_path):
        pass


def test_an_erasure_waits_for_another_upkeep(tmp_path: Path) -> None:
    order = list[str]()

    def second() -> None:
        with alone(tmp_path, wait=True):
            order.append("second")

    waiting = threading.Thread(target=second)
    with alone(tmp_path):
        waiting.start()
        waiting.join(0.1)
        order.append("first")
    waiting.join(10.0)
    assert order == ["first", "second"]


def test_expired_records_count_no_more_and_their_files_go_after_the_grace_time(tmp_path: Path) -> None:
    batches(tmp_path, 5)
    batches(tmp_path, 5, TEN + HOUR_MS)
    pack_hour(tmp_path, TEN, 1 << 30)
    listed = reader.paths(tmp_path)
    rules = RULES.model_copy(update={"keep_days": 1})
    at_ms = TEN + 25 * HOUR_MS
    assert due_hours(tmp_path, reader.hours(tmp_path), rules, at_ms) == [TEN]
    expire(tmp_path, [TEN])
    assert [file.hour_ms for file in reader.files(tmp_path)] == [TEN + HOUR_MS] * 5
    assert read_hour(tmp_path, TEN).expired_rows == 20
    assert offsets_in(listed) == sorted(ALL + ALL)
    assert due_hours(tmp_path, reader.hours(tmp_path), rules, at_ms) == []
    settle(tmp_path, TEN, 1, now_ms() + LATER)
    assert plain(tmp_path) == ALL
    assert [path.name for path in (tmp_path / "telemetry").rglob("hour=*")] == ["hour=11"]
    assert not any((tmp_path / PACKED).rglob("*.parquet"))


def test_files_of_hours_that_expired_by_command_go_with_the_upkeep_though_nothing_expires_by_itself(
    tmp_path: Path,
) -> None:
    batches(tmp_path, 5)
    pack_hour(tmp_path, TEN, 1 << 30)
    settle(tmp_path, TEN, 0, now_ms() + LATER)
    settle(tmp_path, TEN, 0, now_ms() + LATER)
    expire(tmp_path, [TEN])
    assert RULES.keep_days == 0
    assert upkeep(tmp_path, RULES) == 0  # in their grace time
    assert placed(tmp_path) == ["abcdef01-000000000-000-packed-5.parquet"]
    assert [upkeep(tmp_path, RULES.model_copy(update={"grace_min": 0})) for _ in range(2)] == [1, 0]
    assert not any(tmp_path.rglob("*.parquet"))
    assert not any((tmp_path / PACKED).iterdir())


def test_a_damaged_hour_expires_too_and_keeps_no_other_from_it(tmp_path: Path) -> None:
    for hour in range(2):
        batches(tmp_path, 5, TEN + hour * HOUR_MS)
    place = tmp_path / "telemetry" / hour_name(TEN)
    (place / "abcdef01-000000001-000.parquet").unlink()
    (place / "put-here.parquet").write_bytes(b"no Parquet")
    rules = RULES.model_copy(update={"keep_days": 1, "grace_min": 0})
    assert [upkeep(tmp_path, rules) for _ in range(3)] == [2, 2, 0]  # both expire, and are cleared
    assert [read_hour(tmp_path, TEN + hour * HOUR_MS).expired_rows for hour in range(2)] == [20, 20]
    assert not any(tmp_path.rglob("*.parquet"))


def test_an_hour_whose_packed_file_is_missing_keeps_no_other_from_its_upkeep(tmp_path: Path) -> None:
    for hour in range(2):
        batches(tmp_path, 5, TEN + hour * HOUR_MS)
    pack_hour(tmp_path, TEN, 1 << 30)
    next((tmp_path / PACKED / hour_name(TEN)).iterdir()).unlink()
    assert upkeep(tmp_path, RULES.model_copy(update={"grace_min": 0})) == 1
    assert len(read_hour(tmp_path, TEN + HOUR_MS).files) == 1


def test_the_keeper_packs_an_hour_a_pass_and_rests_when_all_is_done(tmp_path: Path) -> None:
    batches(tmp_path, 3)
    batches(tmp_path, 3, TEN + HOUR_MS)
    rules = RULES.model_copy(update={"grace_min": 0})
    assert [upkeep(tmp_path, rules) for _ in range(4)] == [1, 2, 1, 0]
    assert upkeep(tmp_path / "nothing", rules) == 0
