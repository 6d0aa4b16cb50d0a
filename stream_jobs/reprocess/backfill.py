"""A day's files into the archive under names of their own, then its exceptions, windows and journeys.

The same day again changes nothing, so that one that was killed is finished by the same command.
"""

import os
import shutil
import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import orjson

from infra.clients.db import sql_of
from infra.clients.duck import connected
from infra.contract.errors import ConfigError
from infra.contract.seq_ranges import merged
from infra.settings.files import write_whole
from infra.settings.settings import Endpoints, Settings
from stream_jobs.archive import reader
from stream_jobs.archive.manifest import archive_of, described, read_hour, sha256_of
from stream_jobs.archive.query import exceptions_in, note_exceptions
from stream_jobs.archive.verify import verified
from stream_jobs.archive.writer import place
from stream_jobs.reprocess import work
from stream_jobs.reprocess.queue import Counts, Span, moment

SQL: Final = sql_of(__file__)

STAGING: Final = ".staging"
FOLDER: Final = "backfills"
APART_MS: Final = 3_600_000  # samples further apart are spans of their own: a month of few drives is short


class Intake(NamedTuple):
    """A day that lies in the archive; ``fresh``: files that were not there before.

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
    if not (day / reader.DAY_SUMMARY).is_file():
        raise ConfigError(
            f"{day} is no generated day: {reader.DAY_SUMMARY} is missing (odograph simulate --day makes one)"
        )
    verdict = verified(day, None, quick=False)
    if not verdict.whole:
        raise reader.damaged(day, verdict.damage)
    if not verdict.files:
        raise ConfigError(f"{day} has no records")
    taken, fresh = [], 0
    for file in reader.files(day):
        name = f"{day.name}.parquet" if file.path.stem == day.name else f"{day.name}-{file.path.name}"
        fresh += _take(archive, file, name)
        taken.append(archive / file.path.relative_to(day).with_name(name))
    names = [str(path) for path in taken]
    with connected() as connection:
        ((frames, vehicles),) = connection.execute(SQL["counts"], [names]).fetchall()
        pieces = connection.execute(SQL["pieces"], [names]).fetchall()
    return Intake(day.name, tuple(taken), fresh, frames, vehicles, tuple(pieces))


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
    try:
        os.link(file.path, staged)  # a second name for the same bytes where that can be had
    except OSError:
        shutil.copyfile(file.path, staged)
    return place(archive, file.hour_ms, staged, described(staged, name))


def restated_spans(path: Path, *, fresh: bool = False) -> list[Span]:
    """Spans of a back-fill that are restated, by its file beside the archive: a killed one goes on.

    ``fresh``: files came in since, what was done is forgotten.
    """
    if fresh:
        path.unlink(missing_ok=True)
    return [Span(*s) for s in orjson.loads(path.read_bytes())["restated_ms"]] if path.exists() else []


def note_restated(path: Path, span: Span) -> None:
    """Another span is restated."""
    restated = [(each.from_ms, each.until_ms) for each in (*restated_spans(path), span)]
    write_whole(path, orjson.dumps({"restated_ms": restated}))


def bring_in(
    settings: Settings, addresses: Endpoints, taken: Intake, say: Callable[[str], None]
) -> dict[str, int]:
    """Restate what the day touches and is not restated yet; what was done. Raises ConfigError."""
    progress = archive_of(settings.paths.home) / FOLDER / f"{taken.name}.json"
    done = restated_spans(progress, fresh=taken.fresh > 0)
    with work.restater(settings, addresses, "backfill", threading.Event(), say) as restate:
        spans = spans_of(taken.pieces_ms, restate.grid.road_window_ms)
        left = [span for span in spans if span not in done]
        caught_up_ms = work.closed_ms(settings, addresses, restate.database)
        for span in left:
            if restate.grid.closed_until_ms(caught_up_ms) < span.until_ms:
                raise ConfigError(
                    f"the back-fill reaches to {moment(span.until_ms):%Y-%m-%dT%H:%M:%S} UTC, where live "
                    "windows are still open: give the same command again when that time is over"
                )
        late = quarantined = 0
        for found in exceptions_in(taken.files):  # repaired: by this command or its next try
            note = partial(note_exceptions, found=found, logs={}, repaired_at=datetime.now(UTC))
            some = restate.database.run(note)
            late, quarantined = late + some, quarantined + found.num_rows - some
        total = Counts()
        for number, span in enumerate(left, start=1):
            say(f"span {number} of {len(left)}: from {moment(span.from_ms):%Y-%m-%d %H:%M} UTC")
            total += work.recompute(restate, span, caught_up_ms)[1]
            note_restated(progress, span)
    return {
        "spans": len(spans), "before": len(spans) - len(left), "late": late, "quarantined": quarantined,
        **{name: total[name] for name in ("vehicle_windows", "place_windows", "journeys")},
    }  # fmt: skip


def spans_of(pieces_ms: Iterable[tuple[int, int]], window_ms: int) -> list[Span]:
    """Whole road windows around pieces of event time, joined where less than APART_MS apart; pure."""
    whole = (
        (first // window_ms * window_ms, (last // window_ms + 1) * window_ms) for first, last in pieces_ms
    )
    return [Span(*each) for each in merged(whole, APART_MS - 1)]
