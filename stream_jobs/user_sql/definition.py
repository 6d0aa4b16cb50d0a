"""A user's query as a file: keys in remarks at its head, then one SELECT. Pure; Spark judges in check.py."""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infra.contract.errors import ConfigError
from infra.settings.settings import Settings

VIEWS: Final = ("frames", "samples")
KEYS: Final = ("over", "key", "watermark_s", "about")
PREFIX: Final = "sql_"
"""Before a file's name it gives the name of the query."""
SKEW_FACTOR: Final = 4
"""So many times ``receipt_skew_s`` a partition may run ahead of another before rows are dropped."""

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,40}")
_COLUMN: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_REMARK: Final = re.compile(r"--\s*([a-z_]+):\s*(.*)")
_WORD: Final = re.compile(r"[a-z_][a-z0-9_]*", re.IGNORECASE)
_COMMENT: Final = re.compile(r"--[^\n]*")


@dataclass(frozen=True, slots=True)
class Definition:
    """One file: its SELECT over ``view``, the columns that are the key of its table.

    ``text`` is the whole file, so that the lines of Spark's messages are the file's.
    """

    path: Path
    name: str
    view: str
    key: tuple[str, ...]
    watermark_s: int
    text: str

    @property
    def query(self) -> str:
        """Name of the streaming query."""
        return PREFIX + self.name

    @property
    def statement(self) -> str:
        """The file without the semicolon at its end."""
        return self.text.rstrip().removesuffix(";")

    @property
    def version(self) -> int:
        """Changes with the statement and its view: its state then begins anew."""
        plain = " ".join(_COMMENT.sub("", self.statement).split())
        return zlib.crc32(f"{self.view} {self.watermark_s} {plain}".encode())

    def words(self) -> set[str]:
        """Every word of the statement in lower case: the columns that it reads are among them."""
        return {word.lower() for word in _WORD.findall(_COMMENT.sub("", self.text))}

    def reads(self, names: Collection[str]) -> tuple[str, ...]:
        """Those of ``names`` that the statement reads; all of them where it has a ``*`` of its own."""
        if re.search(r"(select|,|\.)\s*\*", _COMMENT.sub("", self.text), re.IGNORECASE):
            return tuple(names)
        words = self.words()
        return tuple(name for name in names if name in words)


def wrong(path: Path, line: int | None, reason: str) -> ConfigError:
    """The error that says where in the file something is wrong."""
    place = "" if line is None else f", line {line}"
    return ConfigError(f"SQL on the stream, {path}{place}: {reason}")


def least_watermark_s(settings: Settings) -> int:
    """The delay of a watermark of event time behind which no frame in time lies; 60 s by default.

    What such a watermark drops is lost to the query, a timer that runs early costs little: so partitions may
    lie apart in receive time by more than ``receipt_skew_s``.
    """
    jobs = settings.jobs
    return jobs.lateness_s + jobs.ahead_s + SKEW_FACTOR * jobs.receipt_skew_s


def read_folder(folder: Path, least_watermark_s: int) -> tuple[Definition, ...]:
    """All ``*.sql`` of a folder, by name; raises ConfigError naming file, line and what is wrong."""
    if not folder.is_dir():
        raise ConfigError(f"SQL on the stream: {folder} (ODOGRAPH_JOBS_SQL_DIR) is no folder")
    return tuple(read_file(path, least_watermark_s) for path in sorted(folder.glob("*.sql")))


def read_file(path: Path, least_watermark_s: int) -> Definition:
    """One file; raises ConfigError. Whether Spark understands the statement is not looked at here."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise wrong(path, None, f"cannot be read: {error}") from error
    if _NAME.fullmatch(path.stem) is None:
        raise wrong(
            path, None, "its name must be of a-z, 0-9 and _, begin with a letter, have at most 41 of them"
        )
    remarks = _remarks(path, text)
    first = next(iter(_WORD.findall(_COMMENT.sub("", text))), "").lower()
    if first not in ("select", "with"):
        raise wrong(
            path, None, "after the remarks there must be one statement that begins with SELECT or WITH"
        )
    view = _one_of(path, remarks, "over", VIEWS)
    return Definition(
        path, path.stem, view, _key(path, remarks), _watermark(path, remarks, least_watermark_s), text
    )


Remarks = dict[str, tuple[int, str]]
"""Line and value of each key."""


def _remarks(path: Path, text: str) -> Remarks:
    found: Remarks = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.startswith("--"):
            break
        match = _REMARK.match(line)
        if match is None:
            continue
        name, value = match[1], match[2].strip()
        if name not in KEYS:
            raise wrong(path, number, f"`{name}` is unknown; known: {', '.join(KEYS)}")
        if name in found:
            raise wrong(path, number, f"`{name}` is there twice")
        found[name] = (number, value)
    return found


def _one_of(path: Path, remarks: Remarks, name: str, choices: tuple[str, ...]) -> str:
    if name not in remarks:
        raise wrong(path, 1, f"`-- {name}: {' | '.join(choices)}` is missing before the SELECT")
    line, value = remarks[name]
    if value not in choices:
        raise wrong(path, line, f"`{name}` is {value!r}, none of {', '.join(choices)}")
    return value


def _key(path: Path, remarks: Remarks) -> tuple[str, ...]:
    if "key" not in remarks:
        raise wrong(
            path, 1, "`-- key: column, column` is missing before the SELECT: what a row is told apart by"
        )
    line, value = remarks["key"]
    names = tuple(name.strip() for name in value.split(","))
    for name in names:
        if _COLUMN.fullmatch(name) is None:
            raise wrong(path, line, f"`key`: {name!r} is no name of a column (a-z, 0-9, _)")
    if len(set(names)) < len(names):
        raise wrong(path, line, "`key` has a column twice")
    return names


def _watermark(path: Path, remarks: Remarks, least_s: int) -> int:
    if "watermark_s" not in remarks:
        return least_s
    line, value = remarks["watermark_s"]
    if not value.isdecimal() or int(value) < least_s:
        raise wrong(
            path, line, f"`watermark_s` is {value!r}, not whole seconds from {least_s} on (the jobs' own)"
        )
    return int(value)
