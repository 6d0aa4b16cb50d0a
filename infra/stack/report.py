"""Every setting in force: what ``odograph config`` shows."""

import json
import os
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel

from infra.clients.tables import rendered, table
from infra.settings.settings import CONFIG_FILE, HOME_FILE, PREFIX, Settings


class Setting(NamedTuple):
    """One setting in force; secrets are masked."""

    variable: str
    value: str
    source: str
    meaning: str


def settings_in_force(settings: Settings) -> list[Setting]:
    """Every setting, in the order of the declaration."""
    paths = {CONFIG_FILE: Path(CONFIG_FILE), HOME_FILE: settings.paths.home / HOME_FILE}
    files = {name: tomllib.loads(path.read_text()) for name, path in paths.items() if path.exists()}
    found = []
    for section, info in Settings.model_fields.items():
        value = getattr(settings, section)
        if not isinstance(value, BaseModel):
            meaning = info.description or "time zone shown to people"
            found.append(_setting((section,), value, meaning, files))
            continue
        for key, field in type(value).model_fields.items():
            found.append(_setting((section, key), getattr(value, key), field.description or "", files))
    return found


def _setting(path: tuple[str, ...], value: object, meaning: str, files: dict[str, Any]) -> Setting:
    variable = f"{PREFIX}{'_'.join(path)}".upper()
    source = "environment" if variable in os.environ else "default"
    if source == "default":
        source = next((name for name, file in files.items() if _has(file, path)), source)
    return Setting(variable, str(value), source, meaning)


def _has(node: Any, path: tuple[str, ...]) -> bool:
    for key in path:
        node = node.get(key) if isinstance(node, dict) else None
    return node is not None


def report(rows: Sequence[Setting], as_json: bool) -> str:
    """The settings as a table, or by variable."""
    if not as_json:
        return rendered(table("variable", "value", "from", "meaning", rows=rows))
    values = {row.variable: {"value": row.value, "source": row.source} for row in rows}
    return json.dumps(values, indent=1, default=str) + "\n"
