"""A folder with something mounted in it is never removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.contract.errors import ServiceError
from infra.stack import cache

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


def test_a_mount_beside_the_folder_does_not_matter(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    assert cache.mounts_below(folder, TABLE.format(folder=folder)) == [f"{folder}/root/proc"]


def test_a_folder_without_mounts_is_removed_and_a_missing_one_is_fine(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    (folder / "below").mkdir(parents=True)
    cache.remove_tree(folder)
    cache.remove_tree(folder)
    assert not folder.exists()
