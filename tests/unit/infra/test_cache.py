"""What was fetched is known to be whole before it is used."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.contract.errors import ServiceError
from infra.stack import cache


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
