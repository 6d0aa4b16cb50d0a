"""How a rules file says what is wrong with it."""

from __future__ import annotations

from pathlib import Path

from infra.contract.errors import ConfigError


def wrong(path: Path, name: str, key: str, reason: str) -> ConfigError:
    """The error that says where in the rules file something is wrong."""
    return ConfigError(f"rules file {path}, rule {name}: `{key}` {reason}")


def text(path: Path, name: str, key: str, value: object) -> str:
    """A text that is not empty, without the space around it."""
    if not isinstance(value, str) or not value.strip():
        raise wrong(path, name, key, f"{value!r} is not a text")
    return value.strip()
