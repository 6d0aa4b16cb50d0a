"""The one reader: which files hold the records of a time. Everything that reads the archive asks here.

A listing holds each record once, whatever compaction does, and all its files can be opened for
``archive.grace_min`` from then on. A file that the manifest names and that is missing or has another size is
an error with its name, not fewer records. Within an hour, the files of one query come in the order of its
batches, so that the offsets of a topic partition only grow along the list.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from infra.contract.errors import ArchiveError, ConfigError
from stream_jobs.archive.manifest import (
    HOUR_MS,
    PACKED,
    TELEMETRY,
    Entry,
    HourState,
    archive_of,
    day_span,
    days_of,
    hour_name,
    hour_of,
    hours_listed,
    locked,
    read_hour,
)

DAY_SUMMARY: Final = "run.json"
"""In a generated day: its files with their sizes, in the place of a manifest."""
NAMED_AT_MOST: Final = 5


@dataclass(frozen=True, slots=True)
class ArchiveFile:
    """A file to read. ``entry`` is None where no manifest knows it: older than the manifest, or put there."""

    path: Path
    hour_ms: int
    entry: Entry | None

    @property
    def rows(self) -> int | None:
        """Its records, where the manifest says."""
        return None if self.entry is None else self.entry.rows


def files(folder: Path, since_ms: int | None = None, until_ms: int | None = None) -> list[ArchiveFile]:
    """Files with records received in [since, until); None: without a bound. Raises ArchiveError.

    ``folder`` is ``archive_of(home)`` or a generated day. The first and the last files may hold records
    beyond the bounds too: filter by ``received_ms``.
    """
    wanted = [
        hour
        for hour in hours(folder)
        if (until_ms is None or hour < until_ms) and (since_ms is None or hour + HOUR_MS > since_ms)
    ]
    return [file for file in of_hours(folder, wanted) if _reaches(file, since_ms, until_ms)]


def of_hours(folder: Path, hours_ms: Iterable[int]) -> list[ArchiveFile]:
    """Files of these hours of receipt, hour after hour. Raises ArchiveError with what is damaged."""
    found, damage = examined(folder, hours_ms)
    if damage:
        raise damaged(folder, damage)
    return found


def examined(folder: Path, hours_ms: Iterable[int]) -> tuple[list[ArchiveFile], list[str]]:
    """The same, damaged files too, and what is wrong with those."""
    sizes = {name: file["bytes"] for name, file in day_files(folder).items()}
    found: list[ArchiveFile] = []
    damage: list[str] = []
    with locked(folder, writing=False):
        for hour in sorted(set(hours_ms)):
            state = read_hour(folder, hour)
            listed = _listed(folder, hour, state)
            found += listed
            damage += _damage(folder, hour, listed, sizes)
    return found, damage


def paths(folder: Path, since_ms: int | None = None, until_ms: int | None = None) -> list[str]:
    """The same as names, for DuckDB and Spark."""
    return [str(file.path) for file in files(folder, since_ms, until_ms)]


def hours(folder: Path) -> list[int]:
    """Hours of receipt, ms, that have files or a manifest, in order."""
    found = {hour_of(path) for path in (folder / TELEMETRY).glob("date=*/hour=*")}
    return sorted({hour for hour in found if hour is not None} | hours_listed(folder))


def of_day(home: Path, day: str) -> tuple[Path, list[ArchiveFile]]:
    """Folder and files of a day: a generated day of that name, else that date of the live archive (UTC).

    Raises ConfigError where neither is there, naming what is.
    """
    folder, wanted = hours_of_day(home, day)
    return folder, of_hours(folder, wanted)


def hours_of_day(home: Path, day: str) -> tuple[Path, list[int]]:
    """The same, its hours (ms) only."""
    made = home.absolute() / "days" / day
    if (made / DAY_SUMMARY).exists():
        return made, hours(made)
    live = archive_of(home)
    generated = sorted(path.parent.name for path in (home / "days").glob(f"*/{DAY_SUMMARY}"))
    try:
        span = day_span(day)
    except ConfigError as error:
        raise ConfigError(f"{error}, or one of the generated days: {_names(generated)}") from error
    found = [hour for hour in hours(live) if span[0] <= hour < span[1]]
    if not found:
        stored = days_of(hours(live))
        raise ConfigError(
            f"no records of {day} in {live}. Days that are there: {_names(stored)}; "
            f"generated: {_names(generated)}"
        )
    return live, found


def damaged(folder: Path, damage: list[str]) -> ArchiveError:
    """The error of files that are not as they were written."""
    more = len(damage) - NAMED_AT_MOST
    text = "; ".join(damage[:NAMED_AT_MOST]) + (f"; and {more} more" if more > 0 else "")
    return ArchiveError(
        f"the archive {folder} is damaged: {text}. Put the files back from a copy, or see what is whole: "
        "odograph archive verify"
    )


def _names(found: Iterable[str]) -> str:
    return ", ".join(found) or "none"


def _reaches(file: ArchiveFile, since_ms: int | None, until_ms: int | None) -> bool:
    if file.entry is None:
        return True
    if file.entry.received_ms is None:
        return False
    first, last = file.entry.received_ms
    return (until_ms is None or first < until_ms) and (since_ms is None or last >= since_ms)


def _listed(folder: Path, hour_ms: int, state: HourState) -> list[ArchiveFile]:
    """Files of an hour: those that the manifest names, and those that it does not know."""
    place = folder / TELEMETRY / hour_name(hour_ms)
    seen = {entry.name for entry in os.scandir(place)} if place.is_dir() else set()
    known = {name: _path(folder, place, name, state, seen) for name in state.files}
    others = {
        name: place / name for name in seen if name.endswith(".parquet") and name not in state.replaced_ms
    }
    return [ArchiveFile(p, hour_ms, state.files.get(n)) for n, p in sorted((others | known).items())]


def _path(folder: Path, place: Path, name: str, state: HourState, seen: set[str]) -> Path:
    """Where a file of the manifest lies: a packed one waits aside until the old ones have gone."""
    waits = name in state.packed_ms and name not in seen
    return folder / PACKED / place.relative_to(folder / TELEMETRY) / name if waits else place / name


def _damage(folder: Path, hour_ms: int, listed: list[ArchiveFile], day_sizes: dict[str, int]) -> list[str]:
    """What is wrong with files of an hour, as far as their sizes tell."""
    wrong = []
    for file in listed:
        if file.entry is not None:
            wrong += _compared(file.path, file.entry.bytes)
    prefix = f"{TELEMETRY}/{hour_name(hour_ms)}/"
    for name, size in day_sizes.items():
        if name.startswith(prefix):
            wrong += _compared(folder / name, size)
    return wrong


def _compared(path: Path, size: int) -> list[str]:
    try:
        found = path.stat().st_size
    except FileNotFoundError:
        return [f"{path} is missing"]
    return [] if found == size else [f"{path} has {found} bytes, {size} were written"]


def day_files(folder: Path) -> dict[str, dict[str, Any]]:
    """Files of a generated day with bytes and sha256, by their path below it; none for the live archive."""
    path = folder / DAY_SUMMARY
    if not path.exists():
        return {}
    found: dict[str, dict[str, Any]] = orjson.loads(path.read_bytes()).get("files", {})
    return found
