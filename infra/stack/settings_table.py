"""The settings in force as rows: variable, value (secrets masked), source, meaning."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from infra.settings.settings import CONFIG_FILE, PREFIX, Settings


@dataclass(frozen=True, slots=True)
class Row:
    """One setting."""

    variable: str
    value: str
    source: str
    meaning: str


def rows(settings: Settings) -> list[Row]:
    """Every setting, in the order of the declaration."""
    file = _file()
    return [
        Row(variable, str(value), _source(variable, path, file), meaning)
        for variable, path, value, meaning in _walk(settings)
    ]


def _walk(settings: Settings) -> Iterator[tuple[str, tuple[str, ...], Any, str]]:
    for section, info in Settings.model_fields.items():
        value = getattr(settings, section)
        if not isinstance(value, BaseModel):
            meaning = info.description or "time zone shown to people"
            yield f"{PREFIX}{section}".upper(), (section,), value, meaning
            continue
        for key, field in type(value).model_fields.items():
            variable = f"{PREFIX}{section}_{key}".upper()
            yield variable, (section, key), getattr(value, key), field.description or ""


def _file() -> dict[str, Any]:
    path = Path(CONFIG_FILE)
    return tomllib.loads(path.read_text()) if path.exists() else {}


def _source(variable: str, path: tuple[str, ...], file: dict[str, Any]) -> str:
    if variable in os.environ:
        return "environment"
    node: Any = file
    for key in path:
        node = node.get(key) if isinstance(node, dict) else None
    return CONFIG_FILE if node is not None else "default"
