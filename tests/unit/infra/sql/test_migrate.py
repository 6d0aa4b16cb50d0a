"""Which SQL files are applied, and in which order."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.contract.errors import ConfigError
from infra.sql.migrate import migrations


def lay(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_text(f"-- {name}")


def test_files_are_applied_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    lay(tmp_path, "010_views.sql", "002_rows.sql", "001_tables.sql")
    assert [m.name for m in migrations(tmp_path)] == ["001_tables.sql", "002_rows.sql", "010_views.sql"]


def test_only_files_with_the_mark_need_the_community_edition(tmp_path: Path) -> None:
    lay(tmp_path, "001_tables.sql", "002_policies.community.sql")
    assert [m.community for m in migrations(tmp_path)] == [False, True]


def test_a_file_without_a_number_is_refused(tmp_path: Path) -> None:
    lay(tmp_path, "tables.sql")
    with pytest.raises(ConfigError, match=r"tables\.sql"):
        migrations(tmp_path)


def test_a_number_used_twice_is_refused(tmp_path: Path) -> None:
    lay(tmp_path, "001_tables.sql", "001_views.sql")
    with pytest.raises(ConfigError, match="001 is used twice"):
        migrations(tmp_path)


def test_a_changed_text_has_another_checksum(tmp_path: Path) -> None:
    lay(tmp_path, "001_tables.sql")
    before = migrations(tmp_path)[0].sha256
    (tmp_path / "001_tables.sql").write_text("-- changed")
    assert migrations(tmp_path)[0].sha256 != before


def test_a_file_that_took_in_a_later_one_is_in_force_where_both_were_applied(tmp_path: Path) -> None:
    lay(tmp_path, "001_tables.sql")
    former = "a" * 64
    (tmp_path / "001_tables.sql").write_text(f"-- Formerly {former}, with 007_more.sql after it.\n")
    file = migrations(tmp_path)[0]
    for applied, in_force in (
        ({}, False), ({file.name: file.sha256}, True), ({file.name: former}, False),
        ({file.name: former, "007_more.sql": "b"}, True), ({file.name: "c", "007_more.sql": "b"}, False),
    ):  # fmt: skip
        assert file.stands_in(applied) == in_force


def test_the_files_that_ship_are_well_named() -> None:
    assert migrations()[0].name == "001_tables.sql"
