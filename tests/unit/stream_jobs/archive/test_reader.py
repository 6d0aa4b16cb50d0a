"""What the one reader lists, and what it refuses to read past."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from infra.contract.errors import ArchiveError, ConfigError
from stream_jobs.archive import reader
from stream_jobs.archive.manifest import Entry, manifest_of, read_hour
from stream_jobs.archive.writer import adopt
from tests.unit.stream_jobs.archive.archive_support import HOUR_MS, TEN, batches, offsets_in, written

FIRST = "telemetry/date=1970-01-01/hour=10/abcdef01-000000000-000.parquet"


def test_files_are_listed_by_time_of_receipt_in_the_order_of_their_batches(tmp_path: Path) -> None:
    batches(tmp_path, 3)
    batches(tmp_path, 1, TEN + HOUR_MS)
    listed = [file.path.name[9:18] for file in reader.files(tmp_path, TEN, TEN + HOUR_MS)]
    assert listed == ["000000000", "000000001", "000000002"]
    assert len(reader.files(tmp_path)) == 4
    assert [f.path.name[9:18] for f in reader.files(tmp_path, TEN + 10_500, TEN + 20_000)] == ["000000001"]
    assert reader.files(tmp_path / "nothing") == []


def test_the_manifest_says_how_many_records_of_which_offsets_a_file_has(tmp_path: Path) -> None:
    batches(tmp_path, 1)
    entry = read_hour(tmp_path, TEN).files["abcdef01-000000000-000.parquet"]
    assert (entry.rows, entry.received_ms, len(entry.sha256)) == (4, (TEN, TEN + 1000), 64)
    assert [(o.topic, o.partition, o.first, o.last, o.count) for o in entry.offsets] == [
        ("odograph.telemetry", 0, 0, 1, 2), ("odograph.telemetry", 1, 0, 1, 2),
    ]  # fmt: skip


def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    batches(tmp_path, 2)
    (tmp_path / FIRST).unlink()
    with pytest.raises(ArchiveError, match=r"hour=10/abcdef01-000000000-000\.parquet is missing"):
        reader.files(tmp_path)
    assert len(reader.files(tmp_path, TEN + HOUR_MS)) == 0


def test_a_file_cut_short_is_an_error_that_names_it_and_both_sizes(tmp_path: Path) -> None:
    batches(tmp_path, 1)
    whole = (tmp_path / FIRST).read_bytes()
    (tmp_path / FIRST).write_bytes(whole[:100])
    with pytest.raises(ArchiveError, match=rf"000-000\.parquet has 100 bytes, {len(whole)} were written"):
        reader.paths(tmp_path)


def test_a_batch_that_runs_again_leaves_its_records_there_once(tmp_path: Path) -> None:
    batches(tmp_path, 2)
    batches(tmp_path, 2)
    assert offsets_in(reader.paths(tmp_path)) == [(p, o) for p in (0, 1) for o in range(4)]


def test_a_line_cut_short_by_a_crash_is_not_believed_and_spoils_no_other(tmp_path: Path) -> None:
    batches(tmp_path, 1)
    with manifest_of(tmp_path, TEN).open("ab") as file:
        file.write(b'\n{"op":"add","file":{"name":"abc')
    written(tmp_path, "abcdef01-000000001-000.parquet", [(0, 7, 20)])
    assert sorted(read_hour(tmp_path, TEN).files) == [
        "abcdef01-000000000-000.parquet", "abcdef01-000000001-000.parquet",
    ]  # fmt: skip


def test_files_older_than_the_manifest_are_read_and_can_be_adopted(tmp_path: Path) -> None:
    batches(tmp_path, 2)
    manifest_of(tmp_path, TEN).unlink()
    assert [file.entry for file in reader.files(tmp_path)] == [None, None]
    assert len(adopt(tmp_path, TEN)) == 2
    assert [file.entry.rows for file in reader.files(tmp_path) if file.entry] == [4, 4]
    assert adopt(tmp_path, TEN) == []


def test_an_unknown_day_is_refused_with_the_days_that_are_there(tmp_path: Path) -> None:
    batches(tmp_path / "archive", 1)
    made = tmp_path / "days" / "monday"
    made.mkdir(parents=True)
    (made / "run.json").write_bytes(orjson.dumps({"files": {}}))
    with pytest.raises(ConfigError, match=r"no records of 2026-11-20.*1970-01-01; generated: monday"):
        reader.hours_of_day(tmp_path, "2026-11-20")
    with pytest.raises(
        ConfigError, match=r"--day 'tuesday': a day such as 2026-11-20 is wanted.*generated: monday"
    ):
        reader.hours_of_day(tmp_path, "tuesday")
    assert reader.hours_of_day(tmp_path, "1970-01-01") == (tmp_path / "archive", [TEN])


def test_a_generated_day_is_checked_against_its_own_summary(tmp_path: Path) -> None:
    made = tmp_path / "days" / "monday"
    batches(made, 2)
    manifest_of(made, TEN).unlink()
    size = (made / FIRST).stat().st_size
    (made / "run.json").write_bytes(orjson.dumps({"files": {FIRST: {"bytes": size}}}))
    assert reader.hours_of_day(tmp_path, "monday") == (made, [TEN])
    assert len(reader.of_hours(made, [TEN])) == 2
    (made / FIRST).unlink()
    with pytest.raises(ArchiveError, match=r"000000000-000\.parquet is missing"):
        reader.of_hours(made, [TEN])


def test_a_file_may_hold_what_was_received_between_its_first_and_last_record() -> None:
    known = reader.ArchiveFile(Path("a"), 0, Entry("a", 2, 1, "", (10, 19), ()))
    found = [span for span in ((0, 10), (0, 11), (19, 20), (20, 30)) if known.may_hold(*span)]
    assert found == [(0, 11), (19, 20)]
    assert not reader.ArchiveFile(Path("empty"), 0, Entry("empty", 0, 1, "", None, ())).may_hold(0, 99)
    assert reader.ArchiveFile(Path("older than the manifest"), 0, None).may_hold(0, 99)
