"""A day's files into the archive, under names of their own: no Spark, no database.

Taking the same day in again changes nothing, so that one that was killed is finished by the same command.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from infra.clients.duck import connected
from infra.contract.errors import ConfigError
from infra.contract.verdict import OK
from stream_jobs.archive import reader
from stream_jobs.archive.manifest import read_hour, sha256_of
from stream_jobs.archive.verify import verified
from stream_jobs.archive.writer import place

STAGING: Final = ".staging"
_COUNTS: Final = """
SELECT count(*), count(DISTINCT vehicle_id)
FROM read_parquet(?, hive_partitioning = false) WHERE verdict IN ('ok', 'late')
"""
_PIECES: Final = """
SELECT min(t0_ms), max(t0_ms + span_ms)
FROM read_parquet(?, hive_partitioning = false, filename = true) WHERE verdict IN ('ok', 'late')
GROUP BY filename, t0_ms // 3600000 ORDER BY ALL
"""
EXCEPTION: Final = [
    "topic", "partition", "log_offset", "vehicle_id", "boot_id", "seq", "t0_ms", "span_ms", "received_ms",
    "verdict",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Intake:
    """A day that lies in the archive: its name, its files there, and what of it goes into windows.

    ``pieces_ms``: first and last sample by file and hour of event time; none where nothing goes into windows.
    """

    name: str
    files: tuple[Path, ...]
    fresh: int
    frames: int
    vehicles: int
    pieces_ms: tuple[tuple[int, int], ...]


def take_in(archive: Path, day: Path) -> Intake:
    """A generated day into the archive. Raises ConfigError for what is no day, ArchiveError for damage."""
    _check(day)
    taken, fresh = [], 0
    for file in reader.files(day):
        name = f"{day.name}.parquet" if file.path.stem == day.name else f"{day.name}-{file.path.name}"
        fresh += _take(archive, file, name)
        taken.append(archive / file.path.relative_to(day).with_name(name))
    names = [str(path) for path in taken]
    with connected() as connection:
        ((frames, vehicles),) = connection.execute(_COUNTS, [names]).fetchall()
        pieces = connection.execute(_PIECES, [names]).fetchall()
    return Intake(day.name, tuple(taken), fresh, frames, vehicles, tuple(pieces))


def _check(day: Path) -> None:
    if not (day / reader.DAY_SUMMARY).is_file():
        raise ConfigError(
            f"{day} is no generated day: {reader.DAY_SUMMARY} is missing (odograph simulate --day makes one)"
        )
    verdict = verified(day, None, quick=False)
    if not verdict.whole:
        raise reader.damaged(day, verdict.damage)
    if not verdict.files:
        raise ConfigError(f"{day} has no records")


def _take(archive: Path, file: reader.ArchiveFile, name: str) -> bool:
    """Whether it was not there before; another day of the same name is an error."""
    known = read_hour(archive, file.hour_ms)
    if name in known.replaced_ms:
        raise ConfigError(f"{name} was in the archive and has expired: see ODOGRAPH_ARCHIVE_KEEP_DAYS")
    if name in known.files:
        if known.files[name].sha256 == sha256_of(file.path):
            return False
        raise ConfigError(
            f"another {name} is in the archive already: give this day's folder another name ({file.path})"
        )
    staged = archive / STAGING / f"backfill-{file.hour_ms}-{name}"
    staged.parent.mkdir(parents=True, exist_ok=True)
    staged.unlink(missing_ok=True)
    _copy(file.path, staged)
    return place(archive, file.hour_ms, staged, name)


def _copy(source: Path, target: Path) -> None:
    """A second name for the same bytes where that can be had."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def exceptions(files: tuple[Path, ...]) -> Iterator[pa.Table]:
    """Records whose verdict is not ok, a table a file, with ``received_at``; files without any give none."""
    for path in files:
        other = pc.field("verdict") != OK
        found = pq.read_table(path, columns=EXCEPTION, filters=other, partitioning=None)
        if found.num_rows:
            received_at = pc.cast(found["received_ms"], pa.timestamp("ms", tz="UTC"))
            yield found.append_column("received_at", received_at)
