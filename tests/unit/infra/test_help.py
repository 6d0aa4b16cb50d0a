"""What `odograph COMMAND --help` prints: every word that the code says, and a word on every option."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
import typer
from rich.text import Text
from typer.main import get_command

from infra.cli import PACKAGES


def commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    yield name, command
    for word, below in getattr(command, "commands", {}).items():
        yield from commands(below, f"{name} {word}")


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """The help of each command and of each of its parameters, by their names."""
    app = typer.Typer()
    for package in PACKAGES:
        import_module(f"{package}.cli").register(app)
    found = {}
    for name, command in commands(get_command(app), "odograph"):
        found[name] = (command.help or "").replace("\b", "")  # marks lines that are kept as they are
        found |= {f"{name} {parameter.opts[0]}": parameter.help or "" for parameter in command.params}
    del found["odograph"]  # of the app, which is made here
    return found


def test_nothing_in_brackets_is_taken_for_markup_and_left_out(texts: dict[str, str]) -> None:
    assert {name: text for name, text in texts.items() if Text.from_markup(text).plain != text} == {}


def test_every_command_and_option_has_a_help_text(texts: dict[str, str]) -> None:
    assert [name for name, text in texts.items() if not text.strip()] == []
