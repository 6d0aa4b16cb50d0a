"""YAML files of people: what cannot be read is one error that names the file, in bounded time and words.

And files of ours: whole or not at all.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from infra.contract.errors import ConfigError, shown
from infra.settings.files import parse_yaml, read_json, read_yaml, write_private

BILLIONS = (
    "[&a [x, x, x, x], "
    + ", ".join(
        f"&{b} [*{a}, *{a}, *{a}, *{a}]" for a, b in zip("abcdefghijklm", "bcdefghijklmn", strict=True)
    )
    + "]"
)


def test_aliases_within_bounds_stand_for_what_they_name() -> None:
    assert parse_yaml("a: &x [1, 2]\nb: *x\nc: {<<: {d: 3}}") == {"a": [1, 2], "b": [1, 2], "c": {"d": 3}}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (BILLIONS, "more than 1000000 values"),
        ("[" * 20_000 + "]" * 20_000, "deeper than 50 levels"),
        ("&a [*a]", "the alias a stands for what it is a part of"),
        ("a: !!int x", "invalid literal"),
        ("a: 2026-02-30", "day is out of range"),
        ("a: " + "1" * 5000, "4300 digits"),
        ("a: 0x_", "invalid literal"),
        ("a: !!timestamp x", "groupdict"),
        ("!!python/object/apply:os.system ['true']", "could not determine a constructor"),
        ("a\x00b", "not allowed"),
    ],
)
def test_what_is_no_sound_yaml_is_one_error(text: str, why: str) -> None:
    with pytest.raises(yaml.YAMLError, match=why):
        parse_yaml(text)


def test_the_error_names_the_file_and_its_part(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    for content in (b"a: [", b"\xff\xfe"):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match=f"rules file {path} cannot be read: "):
            read_yaml(path, "rules file")


def test_a_file_that_cannot_be_written_leaves_nothing_beside_it(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(IsADirectoryError):
        write_private(tmp_path / "taken", "text")
    write_private(tmp_path / "free", "text")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["free", "taken"]


def test_a_configuration_error_is_short_and_printable_whatever_it_quotes() -> None:
    text = str(ConfigError(f"file f: {'x' * 40_000}\x1b[2J is no number"))
    assert len(text) < 1600
    assert (text[:9], text[-18:]) == ("file f: x", "\\x1b[2J is no number"[-18:])
    assert text.isprintable()
    assert shown("a\nb") == "a\nb"


@pytest.mark.parametrize("content", [b"", b"{", b"\xff"])
def test_a_file_of_ours_that_is_no_json_is_named(tmp_path: Path, content: bytes) -> None:
    assert read_json(tmp_path / "ports.json") == {}
    (tmp_path / "ports.json").write_bytes(content)
    with pytest.raises(ConfigError, match=r"ports\.json is no JSON: "):
        read_json(tmp_path / "ports.json")
