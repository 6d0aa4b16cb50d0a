"""Entries of the files that people write (rules, cohort metrics), checked key by key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from infra.contract.errors import ConfigError
from infra.settings.files import read_yaml

DAYS_MAX_S: Final = 90 * 86_400


@dataclass(frozen=True, slots=True)
class Entry:
    """Keys and values of one; an error names the ``file`` ("rules file PATH"), what it is ("rule"), its
    ``name`` and the key.
    """

    file: str
    kind: str
    name: str
    values: Mapping[str, Any]
    folder: Path = Path()

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def wrong(self, key: str, reason: str) -> ConfigError:
        """The error that says where something is wrong."""
        return ConfigError(f"{self.file}, {self.kind} {self.name}: `{key}` {reason}")

    def check_keys(self, required: Iterable[str], optional: Iterable[str]) -> None:
        """All of ``required`` are there, and nothing that is unknown."""
        known = dict.fromkeys((*required, *optional))
        for key in self.values:
            if key not in known:
                raise self.wrong(str(key), f"is unknown; known: {', '.join(known)}")
        for key in required:
            if key not in self:
                raise self.wrong(key, "is missing")

    def text(self, key: str, default: object = None) -> str:
        """A text that is not empty, without the space around it."""
        value = self.values.get(key, default)
        if not isinstance(value, str) or not value.strip():
            raise self.wrong(key, f"{value!r} is not a text")
        return value.strip()

    def number(self, key: str, default: float | None, least: float, most: float) -> float:
        """A number in a range; ``default`` None: it must be there."""
        if key not in self and default is None:
            kind = self.values.get("kind")
            raise self.wrong(key, "is missing" + (f": kind {kind} needs it" if kind else ""))
        value = self.values.get(key, default)
        if type(value) not in (int, float) or not least <= value <= most:  # NaN is in no range
            raise self.wrong(key, f"{value!r} is not a number in {least:.10g}..{most:.10g}")
        return float(value)

    def positive(self, key: str, default: float | None = None) -> float:
        """A number above 0."""
        value = self.values.get(key, default)
        if type(value) not in (int, float) or not 0 < value < float("inf"):
            raise self.wrong(key, f"{value!r} is not a number above 0")
        return float(value)

    def seconds(self, key: str, default: float | None, least: float = 0.0) -> float:
        """A time in seconds, at most 90 days; ``default`` None: it must be there."""
        return self.number(key, default, least, DAYS_MAX_S)

    def whole(self, key: str, default: int | None, least: int, most: int) -> int:
        """A whole number in a range."""
        value = self.values.get(key, default)
        if type(value) is not int or not least <= value <= most:
            raise self.wrong(key, f"{value!r} is not a whole number in {least}..{most}")
        return value

    def word(self, key: str, default: str | None, choices: Iterable[str]) -> str:
        """One of a few words."""
        value, words = self.values.get(key, default), tuple(choices)
        if value not in words:
            raise self.wrong(key, f"{value!r} is none of {', '.join(words)}")
        return str(value)

    def flag(self, key: str) -> bool:
        """True or false; left out: false."""
        value = self.values.get(key, False)
        if type(value) is not bool:
            raise self.wrong(key, f"{value!r} is neither true nor false")
        return value


def read_entries(path: Path, what: str, plural: str, name_key: str) -> list[Entry]:
    """The entries of a file with one key, ``plural``; raises ConfigError naming file, entry and key.

    ``what`` the file is; ``name_key``: of the name of an entry, which none may share.
    """
    document = read_yaml(path, what)
    found = document.get(plural) if isinstance(document, dict) and len(document) == 1 else None
    if not isinstance(found, list):
        raise ConfigError(f"{what} {path}: expected one key, `{plural}`, with a list of {plural}")
    kind, entries = plural.removesuffix("s"), list[Entry]()
    for place, values in enumerate(found, start=1):
        if not isinstance(values, dict):
            raise ConfigError(f"{what} {path}, {kind} {place}: expected keys and values")
        name = str(values.get(name_key, f"number {place}"))
        entry = Entry(f"{what} {path}", kind, name, values, path.parent)
        if name_key in values and any(each.name == name for each in entries):
            raise entry.wrong(name_key, "is used twice")
        entries.append(entry)
    return entries
