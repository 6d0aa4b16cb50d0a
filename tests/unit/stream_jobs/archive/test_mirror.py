"""A second place of the archive: brought up to date, and what is put back from it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from infra.contract.errors import ArchiveError
from stream_jobs.archive import reader
from stream_jobs.archive.manifest import hour_name, manifest_of
from stream_jobs.archive.mirror import Pushed, fetch, push
from stream_jobs.archive.upkeep import pack_hour, settle
from stream_jobs.archive.writer import now_ms
from tests.unit.stream_jobs.archive.archive_support import TEN, batches, offsets_in

ALL = [(p, o) for p in (0, 1) for o in range(6)]


class Folder:
    """A place that is a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def sizes(self, folder: str) -> dict[str, int]:
        place = self.root / folder
        return {p.name: p.stat().st_size for p in place.iterdir()} if place.is_dir() else {}

    def put(self, local: Path, name: str) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(local, self.root / name)

    def get(self, name: str, local: Path) -> None:
        shutil.copyfile(self.root / name, local)

    def remove(self, name: str) -> None:
        (self.root / name).unlink(missing_ok=True)


def test_a_push_sends_what_is_not_there_and_a_second_one_nothing(tmp_path: Path) -> None:
    here, there = tmp_path / "here", Folder(tmp_path / "there")
    batches(here, 3)
    sent = push(here, there, reader.hours(here), 0)
    assert (sent.sent, sent.removed) == (3, 0)
    assert push(here, there, reader.hours(here), 0) == Pushed()
    assert offsets_in(reader.paths(there.root)) == ALL


def test_packed_files_take_the_places_of_the_old_ones_there_too(tmp_path: Path) -> None:
    here, there = tmp_path / "here", Folder(tmp_path / "there")
    batches(here, 3)
    push(here, there, [TEN], 0)
    pack_hour(here, TEN, 1 << 30)
    assert push(here, there, [TEN], 3_600_000).removed == 0
    assert offsets_in(reader.paths(there.root)) == ALL
    assert push(here, there, [TEN], 0).removed == 3
    assert [p.name for p in (there.root / "telemetry" / hour_name(TEN)).iterdir()] == [
        "abcdef01-000000000-000-packed-3.parquet"
    ]
    assert offsets_in(reader.paths(there.root)) == ALL


def test_missing_and_spoiled_files_come_back(tmp_path: Path) -> None:
    here, there = tmp_path / "here", Folder(tmp_path / "there")
    batches(here, 3)
    push(here, there, [TEN], 0)
    files = sorted((here / "telemetry" / hour_name(TEN)).iterdir())
    files[0].unlink()
    files[1].write_bytes(files[1].read_bytes()[:-4] + b"????")
    assert fetch(here, there, [TEN]) == [files[0].name, files[1].name]
    assert fetch(here, there, [TEN]) == []
    assert offsets_in(reader.paths(here)) == ALL


def test_a_home_that_was_lost_comes_back_whole(tmp_path: Path) -> None:
    here, there = tmp_path / "here", Folder(tmp_path / "there")
    batches(here, 3)
    pack_hour(here, TEN, 1 << 30)
    settle(here, TEN, 0, now_ms() + 1)
    push(here, there, [TEN], 0)
    shutil.rmtree(here)
    assert len(fetch(here, there, [TEN])) == 1
    assert offsets_in(reader.paths(here)) == ALL


def test_a_manifest_that_a_killed_push_did_not_send_goes_with_the_next_one(tmp_path: Path) -> None:
    here, there = tmp_path / "here", Folder(tmp_path / "there")
    batches(here, 3)
    push(here, there, [TEN], 0)
    sent = manifest_of(there.root, TEN)
    whole = sent.read_bytes()
    for left in (None, whole[:-200]):
        if left is None:
            sent.unlink()
        else:
            sent.write_bytes(left)
        assert push(here, there, [TEN], 0) == Pushed()
        assert sent.read_bytes() == whole


def test_what_is_not_whole_there_either_is_refused(tmp_path: Path) -> None:
    here, there = tmp_path / "here", Folder(tmp_path / "there")
    batches(here, 1)
    push(here, there, [TEN], 0)
    name = "abcdef01-000000000-000.parquet"
    (there.root / "telemetry" / hour_name(TEN) / name).write_bytes(b"else")
    (here / "telemetry" / hour_name(TEN) / name).unlink()
    with pytest.raises(ArchiveError, match="is not whole in the second place either"):
        fetch(here, there, [TEN])
    assert manifest_of(here, TEN).exists()
