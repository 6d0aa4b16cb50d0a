"""The one reader: which files hold the records of a time. Everything that reads the archive asks here.

A listing holds each record once, and its files can be opened for ``archive.grace_min`` from then on. Within
an hour, the files of one query come in the order of its batches: the offsets of a partition only grow.
"""

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from infra.contract.errors import ArchiveError, ConfigError
from infra.contract.seq_ranges import Ranges, merged
from infra.settings.files import read_json
from stream_jobs.archive import manifest
from stream_jobs.archive.manifest import HOUR_MS, PACKED, TELEMETRY, Entry, Offsets, hour_name

DAY_SUMMARY: Final = "run.json"  # in a generated day: its files with their sizes, in the place of a manifest
MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class ArchiveFile:
    """A file to read. ``entry`` is None where no manifest knows it: older than the manifest, or put there.

    ``expired``: it was one, and its records count no more. ``written``: ``bytes`` and ``sha256`` by its entry
    or a generated day's summary; nothing where neither knows it.
    """

    path: Path
    hour_ms: int
    entry: Entry | None
    expired: bool = False
    written: Mapping[str, Any] = field(default_factory=dict)

    @property
    def logs(self) -> dict[str, str]:
        """The log that its records of each topic are of, where it was noted."""
        return {} if self.entry is None else self.entry.logs

    def may_hold(self, since_ms: int, until_ms: int) -> bool:
        """Whether records received in [since, until) may be in it; yes where the manifest tells no times."""
        if self.entry is None:
            return True
        received_ms = self.entry.received_ms
        return received_ms is not None and received_ms[0] < until_ms and received_ms[1] >= since_ms


def files(folder: Path, since_ms: int = 0, until_ms: int = 1 << 62) -> list[ArchiveFile]:
    """Files with records received in [since, until). Raises ArchiveError.

    ``folder`` is ``archive_of(home)`` or a generated day. The first and the last files may hold records
    beyond the bounds too: filter by ``received_ms``.
    """
    wanted = [hour for hour in hours(folder) if hour < until_ms and hour + HOUR_MS > since_ms]
    return [file for file in of_hours(folder, wanted) if file.may_hold(since_ms, until_ms)]


def of_hours(folder: Path, hours_ms: Iterable[int]) -> list[ArchiveFile]:
    """Files of these hours of receipt, hour after hour. Raises ArchiveError with what is damaged."""
    found, damage = examined(folder, hours_ms)
    if damage:
        raise damaged(folder, damage)
    return found


def examined(folder: Path, hours_ms: Iterable[int]) -> tuple[list[ArchiveFile], list[str]]:
    """The same, damaged files too, and what is wrong with those as far as their sizes say."""
    day_files: dict[str, dict[str, Any]] = read_json(folder / DAY_SUMMARY).get("files", {})
    found: list[ArchiveFile] = []
    damage: list[str] = []
    with manifest.locked(folder, writing=False):
        for hour in sorted(set(hours_ms)):
            state = manifest.read_hour(folder, hour)
            place, aside = (folder / root / hour_name(hour) for root in (TELEMETRY, PACKED))
            seen = {entry.name for entry in os.scandir(place)} if place.is_dir() else set()
            others = {name for name in seen if name.endswith(".parquet") and name not in state.replaced_ms}
            # A packed file waits in ``.packed`` until the old ones have gone.
            waiting = (state.packed_ms.keys() & state.files.keys()) - seen
            prefix = f"{TELEMETRY}/{hour_name(hour)}/"
            written = {n.removeprefix(prefix): file for n, file in day_files.items() if n.startswith(prefix)}
            written |= {n: {"bytes": e.bytes, "sha256": e.sha256} for n, e in state.files.items()}
            for name in sorted(others | written.keys()):
                path, entry = (aside if name in waiting else place) / name, state.files.get(name)
                found.append(ArchiveFile(path, hour, entry, written=written.get(name, {})))
        for file in (file for file in found if file.written):
            try:
                there, size = file.path.stat().st_size, file.written["bytes"]
            except FileNotFoundError:
                damage.append(f"{file.path} is missing")
            else:
                damage += [] if there == size else [f"{file.path} has {there} bytes, {size} were written"]
    return found, damage


def expired(folder: Path, since_ms: int = 0) -> list[ArchiveFile]:
    """Files that have expired, of hours from the one before ``since_ms`` on: at the full hour a partition's
    records may lie out of the order of their receipt.
    """
    wanted = [hour for hour in hours(folder) if hour + 2 * HOUR_MS > since_ms]
    with manifest.locked(folder, writing=False):
        return [
            ArchiveFile(folder / TELEMETRY / hour_name(hour) / entry.name, hour, entry, expired=True)
            for hour in wanted
            for entry in manifest.read_hour(folder, hour).expired
        ]


def paths(folder: Path) -> list[str]:
    """All ``files`` as names, for DuckDB and Spark."""
    return [str(file.path) for file in files(folder)]


Place = tuple[str, int, str]  # topic, partition, log
Logs = list[tuple[dict[str, str], list[ArchiveFile]]]  # files with the log of their records, by topic


def by_log(found: Iterable[ArchiveFile]) -> Logs:
    """The files by their logs; of a topic whose log was not noted yet, it is the first that is."""
    listed = list(found)
    first: dict[str, str] = {}
    for file in listed:
        first = file.logs | first
    groups: dict[tuple[tuple[str, str], ...], list[ArchiveFile]] = {}
    for file in listed:
        groups.setdefault(tuple(sorted((first | file.logs).items())), []).append(file)
    return [(dict(logs), files) for logs, files in groups.items()]


def by_place(found: Iterable[ArchiveFile]) -> dict[Place, list[tuple[Offsets, ArchiveFile]]]:
    """What the manifest says of offsets, by topic, partition and log."""
    places = defaultdict[Place, list[tuple[Offsets, ArchiveFile]]](list)
    for logs, listed in by_log(found):
        for file in listed:
            for each in () if file.entry is None else file.entry.offsets:
                places[each.topic, each.partition, logs.get(each.topic, "")].append((each, file))
    return places


def spans(found: Iterable[tuple[Offsets, ArchiveFile]], *, of_expired: bool) -> Ranges:
    """The stretches of offsets of the files that count, or of those that have expired."""
    return merged((each.first, each.last) for each, file in found if file.expired == of_expired)


def records_sql(found: Logs) -> str:
    """DuckDB's query for the records of one or more files, with the column ``log``."""
    parts = []
    for logs, files in found:
        known = " ".join(f"WHEN {quoted(topic)} THEN {quoted(log)}" for topic, log in logs.items())
        log = f"CASE topic {known} ELSE '' END" if known else "''"
        names = ", ".join(quoted(str(file.path)) for file in files)
        parts.append(f"SELECT *, {log} AS log FROM read_parquet([{names}], hive_partitioning = false)")  # noqa: S608
    return f"({' UNION ALL BY NAME '.join(parts)})"


def quoted(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"


def hours(folder: Path) -> list[int]:
    """Hours of receipt, ms, that have files or a manifest, in order."""
    found = {manifest.hour_of(path) for path in (folder / TELEMETRY).glob("date=*/hour=*")}
    return sorted({hour for hour in found if hour is not None} | manifest.hours_listed(folder))


def oldest_ms(folder: Path) -> int | None:
    """The oldest hour of receipt of which there are records; None: there are none. What expired is not."""
    with_files = (hour for hour in hours(folder) if (folder / TELEMETRY / hour_name(hour)).is_dir())
    return next((hour for hour in with_files if examined(folder, [hour])[0]), None)


def expired_until_ms(folder: Path, hours_ms: Iterable[int]) -> int | None:
    """End of the last of these hours of receipt of which records have expired; None: none have."""
    ends = (hour + HOUR_MS for hour in hours_ms if manifest.read_hour(folder, hour).expired_rows)
    return max(ends, default=None)


def hours_of_day(home: Path, day: str) -> tuple[Path, list[int]]:
    """Folder and hours (ms) of a generated day, else of a date of the archive (UTC). Raises ConfigError."""
    made, live = home.absolute() / "days" / day, manifest.archive_of(home)
    if (made / DAY_SUMMARY).exists():
        return made, hours(made)
    try:
        wanted = manifest.hours_of_date(day)
    except ConfigError as error:
        raise ConfigError(f"{error}, or a generated day's name. {days_known(home)}") from error
    found = [hour for hour in hours(live) if hour in wanted]
    if not found:
        raise ConfigError(f"no records of {day} in {live}. {days_known(home)}")
    return live, found


def days_known(home: Path) -> str:
    """In words the dates of receipt in the live archive (UTC), and the names of generated days."""
    there = hours(manifest.archive_of(home))
    dates = sorted({f"{datetime.fromtimestamp(hour / 1000, UTC):%Y-%m-%d}" for hour in there})
    made = sorted(path.parent.name for path in (home / "days").glob(f"*/{DAY_SUMMARY}"))
    return f"In the archive: {', '.join(dates) or 'nothing'}; generated: {', '.join(made) or 'none'}"


def damaged(folder: Path, damage: list[str]) -> ArchiveError:
    """The error of files that are not as they were written."""
    more = len(damage) - MOST_NAMED
    text = "; ".join(damage[:MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")
    return ArchiveError(
        f"the archive {folder} is damaged: {text}. Put the files back from a copy, or see what is whole: "
        "odograph archive verify"
    )
