"""What was fetched is known to be whole before it is used."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from infra.contract.errors import ServiceError
from infra.stack import cache, fetch


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = cache.jar_dir(tmp_path, "spark")
    place.mkdir(parents=True)
    (place / "a.jar").write_bytes(b"1234")
    cache.write_manifest(place, [place / "a.jar"])
    return place


def test_a_whole_set_of_jars_is_used(folder: Path, tmp_path: Path) -> None:
    assert cache.jars(tmp_path, "spark") == (folder / "a.jar",)


def test_a_truncated_jar_is_noticed(folder: Path, tmp_path: Path) -> None:
    (folder / "a.jar").write_bytes(b"12")
    with pytest.raises(ServiceError, match="odograph setup"):
        cache.jars(tmp_path, "spark")


def test_jars_of_other_pins_are_fetched_again(folder: Path) -> None:
    manifest = folder / cache.MANIFEST
    manifest.write_text(manifest.read_text().replace(cache.pins(), "older"))
    assert not cache.is_complete(folder)


def test_an_empty_cache_says_how_to_fill_it(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="odograph setup"):
        cache.rootfs(tmp_path)


def test_a_failed_rehearsal_leaves_programs_without_archives_and_is_tried_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    fetch.archive_classes(tmp_path)
    assert "failed (1)" in (cache.class_dir(tmp_path) / "failed.txt").read_text()
    assert cache.class_options(tmp_path, "spark") == ()
    monkeypatch.setattr(sys, "executable", "/no/such/program")
    fetch.archive_classes(tmp_path)


TABLE = """\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 27 0:5 / {folder}/root/proc rw,relatime - proc proc rw
31 27 0:6 / {folder}-other rw,relatime - tmpfs tmpfs rw
"""


def test_a_folder_with_a_mount_below_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, folder = tmp_path / "mountinfo", tmp_path / "cache"
    folder.mkdir()
    table.write_text(TABLE.format(folder=folder))
    monkeypatch.setattr(cache, "MOUNTS", table)
    with pytest.raises(ServiceError, match=f"{folder}/root/proc is mounted; umount it first"):
        cache.remove_tree(folder)
    assert folder.exists()


def test_a_mount_beside_the_folder_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, folder = tmp_path / "mountinfo", tmp_path / "cache"
    folder.mkdir()
    table.write_text(TABLE.format(folder=folder).replace(f"{folder}/root", f"{folder}-root"))
    monkeypatch.setattr(cache, "MOUNTS", table)
    cache.remove_tree(folder)
    assert not folder.exists()


def test_a_folder_without_mounts_is_removed_and_a_missing_one_is_fine(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    (folder / "below").mkdir(parents=True)
    cache.remove_tree(folder)
    cache.remove_tree(folder)
    assert not folder.exists()
