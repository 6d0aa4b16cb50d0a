"""Secrets lie in files that their owner alone may read."""

from __future__ import annotations

from pathlib import Path

from infra.contract.errors import ConfigError


def read_secret(path: Path, option: str) -> str:
    """The text of the file without the line's end; raises ConfigError naming ``option``."""
    try:
        mode = path.stat().st_mode
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{option} {path}: {error}") from error
    if mode & 0o077:
        raise ConfigError(f"{option} {path}: others may read it; run: chmod 600 {path}")
    return text.rstrip("\r\n")
