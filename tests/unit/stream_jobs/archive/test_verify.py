"""What makes an archive not whole, and that each of it is named."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from stream_jobs.archive import reader
from stream_jobs.archive.manifest import hour_name, manifest_of
from stream_jobs.archive.upkeep import expire, pack_hour
from stream_jobs.archive.verify import verified
from tests.unit.stream_jobs.archive.archive_support import HOUR_MS, TEN, batches, written


def first(folder: Path) -> Path:
    return folder / "telemetry" / hour_name(TEN) / "abcdef01-000000000-000.parquet"


def test_a_whole_archive_is_whole_before_and_after_it_is_packed(tmp_path: Path) -> None:
    batches(tmp_path, 3)
    # A batch over a full hour: its offsets lie in both hours, turn by turn.
    written(tmp_path, "abcdef01-000000003-000.parquet", [(0, 6, 3599), (0, 8, 3599), (1, 6, 3599)])
    written(tmp_path, "abcdef01-000000003-001.parquet", [(0, 7, 0), (0, 9, 1)], TEN + HOUR_MS)
    for _ in range(2):
        verdict = verified(tmp_path, None, quick=False)
        assert (verdict.whole, verdict.rows, verdict.damage, verdict.log) == (True, 17, [], [])
        assert verified(tmp_path, None, quick=True).whole
        pack_hour(tmp_path, TEN, 1 << 30)


@pytest.mark.parametrize("quick", [True, False])
def test_what_expired_is_no_hole_at_a_full_hour_that_records_came_out_of_order_at(
    tmp_path: Path, quick: bool
) -> None:
    written(tmp_path, "abcdef01-000000000-000.parquet", [(0, 5, 9), (0, 6, 9), (0, 8, 3599)])
    written(tmp_path, "abcdef01-000000000-001.parquet", [(0, 7, 0), (0, 9, 1), (0, 10, 1)], TEN + HOUR_MS)
    written(tmp_path, "abcdef01-000000001-000.parquet", [(0, 12, 2)], TEN + HOUR_MS)
    expire(tmp_path, [TEN])
    for hours_ms in (None, [TEN + HOUR_MS]):
        verdict = verified(tmp_path, hours_ms, quick)
        assert verdict.log == ["odograph.telemetry-0: offsets 11 to 11 are in no file"]
        assert (verdict.rows, verdict.expired_rows) == (4, 0 if hours_ms else 3)


@pytest.mark.parametrize("quick", [True, False])
def test_an_hour_alone_has_no_holes_where_records_came_out_of_order_at_its_ends(
    tmp_path: Path, quick: bool
) -> None:
    written(tmp_path, "abcdef01-000000000-000.parquet", [(0, 5, 9), (0, 6, 9), (0, 8, 3599)])
    written(tmp_path, "abcdef01-000000000-001.parquet", [(0, 7, 0), (0, 9, 1), (0, 11, 3599)], TEN + HOUR_MS)
    written(tmp_path, "abcdef01-000000000-002.parquet", [(0, 10, 0), (0, 12, 1)], TEN + 2 * HOUR_MS)
    for hour_ms in (TEN, TEN + HOUR_MS, TEN + 2 * HOUR_MS):
        verdict = verified(tmp_path, [hour_ms], quick)
        assert (verdict.log, verdict.whole) == ([], True)
    written(tmp_path, "abcdef01-000000001-000.parquet", [(0, 14, 1), (0, 16, 3599)], TEN + 2 * HOUR_MS)
    written(tmp_path, "abcdef01-000000001-001.parquet", [(0, 15, 0)], TEN + 3 * HOUR_MS)
    assert verified(tmp_path, [TEN + HOUR_MS], quick).whole
    assert verified(tmp_path, [TEN + 2 * HOUR_MS], quick).log == [
        "odograph.telemetry-0: offsets 13 to 13 are in no file"
    ]


def test_a_record_that_neither_of_two_hours_has_is_named_though_a_file_reaches_over_it(
    tmp_path: Path,
) -> None:
    written(tmp_path, "abcdef01-000000000-000.parquet", [(0, 5, 9), (0, 8, 3599)])
    written(tmp_path, "abcdef01-000000000-001.parquet", [(0, 6, 0), (0, 9, 1)], TEN + HOUR_MS)
    assert verified(tmp_path, [TEN], quick=False).log == [
        "odograph.telemetry-0: offsets 7 to 7 are in no file"
    ]


def test_a_changed_byte_is_found_and_its_file_named(tmp_path: Path) -> None:
    batches(tmp_path, 2)
    spoiled = bytearray(first(tmp_path).read_bytes())
    spoiled[10] ^= 1
    first(tmp_path).write_bytes(spoiled)
    verdict = verified(tmp_path, None, quick=False)
    assert verdict.damage == [f"{first(tmp_path)} has other bytes than were written"]
    assert not verdict.whole
    assert verified(tmp_path, None, quick=True).whole


def test_a_missing_file_is_named_and_does_not_stop_the_rest(tmp_path: Path) -> None:
    batches(tmp_path, 3)
    first(tmp_path).unlink()
    verdict = verified(tmp_path, None, quick=False)
    assert (verdict.damage, verdict.files) == ([f"{first(tmp_path)} is missing"], 3)


@pytest.mark.parametrize("quick", [True, False])
def test_offsets_that_no_file_has_are_named(tmp_path: Path, quick: bool) -> None:
    batches(tmp_path, 1)
    written(tmp_path, "abcdef01-000000001-000.parquet", [(1, 2, 9), (1, 5, 9)])
    written(tmp_path, "abcdef01-000000002-000.parquet", [(0, 9, 9), (0, 10, 9)])
    faults = verified(tmp_path, None, quick).log
    assert faults[0] == "odograph.telemetry-0: offsets 2 to 8 are in no file"
    assert faults[1] == (
        "odograph.telemetry-1: 4 records for 6 offsets"
        if quick
        else "odograph.telemetry-1: offsets 3 to 4 are in no file"
    )
    assert len(faults) == 2


def test_offsets_that_two_files_have_are_named(tmp_path: Path) -> None:
    batches(tmp_path, 2)
    written(tmp_path, "beef0000-000000000-000.parquet", [(1, 1, 5), (1, 2, 5)])
    assert verified(tmp_path, None, quick=False).log == [
        "odograph.telemetry-1: 2 offsets from 1 to 2 are there twice"
    ]


def test_a_file_without_a_line_is_told_and_is_no_damage(tmp_path: Path) -> None:
    batches(tmp_path, 1)
    manifest_of(tmp_path, TEN).unlink()
    verdict = verified(tmp_path, None, quick=False)
    assert (verdict.whole, verdict.unlisted) == (True, [first(tmp_path)])


def test_a_generated_day_is_verified_by_its_summary(tmp_path: Path) -> None:
    batches(tmp_path, 1)
    manifest_of(tmp_path, TEN).unlink()
    name = first(tmp_path).relative_to(tmp_path).as_posix()
    listed = {"bytes": first(tmp_path).stat().st_size, "sha256": "0" * 64}
    (tmp_path / "run.json").write_bytes(orjson.dumps({"files": {name: listed}}))
    assert verified(tmp_path, None, quick=False).damage == [
        f"{first(tmp_path)} has other bytes than were written"
    ]


def test_offsets_of_a_log_made_anew_are_none_twice_and_what_was_noted_before_is_of_the_first(
    tmp_path: Path,
) -> None:
    batches(tmp_path, 2)  # offsets 0 to 3 of two partitions, of a version that noted no log
    written(tmp_path, "abcdef01-000000002-000.parquet", [(0, 4, 20), (1, 4, 20)], log="one")
    written(tmp_path, "bcdef012-000000000-000.parquet", [(0, 0, 30), (0, 1, 30), (0, 3, 30)], log="two")
    written(tmp_path, "abcdef01-000000003-000.parquet", [(0, 0, 40), (1, 0, 40)], log="three")
    for _ in range(2):
        verdict = verified(tmp_path, None, quick=False)
        assert (verdict.damage, verdict.log) == ([], ["odograph.telemetry-0: offsets 2 to 2 are in no file"])
        packed = pack_hour(tmp_path, TEN, 1 << 30)
    assert packed is None
    assert sorted((file.path.name, *file.logs.values()) for file in reader.files(tmp_path)) == [
        ("abcdef01-000000000-000-packed-3.parquet", "one"), ("abcdef01-000000003-000.parquet", "three"),
        ("bcdef012-000000000-000.parquet", "two"),
    ]  # fmt: skip
