"""What a back-fill put into the archive comes into the database: exceptions, then windows and journeys."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from infra.contract.errors import ConfigError
from infra.contract.verdict import LATE
from infra.settings.settings import Endpoints, Settings
from stream_jobs.app.database import Connection, Database, insert_rows
from stream_jobs.app.session import spark_when_asked
from stream_jobs.app.topic_writer import dead_lettering
from stream_jobs.archive.manifest import archive_of, sync
from stream_jobs.archive.query import LATE_COLUMNS, LATE_TABLE, QUARANTINE_COLUMNS, QUARANTINE_TABLE
from stream_jobs.maintenance.lookups import write_vehicle_lookup
from stream_jobs.reprocess import runs, work
from stream_jobs.reprocess.backfill.intake import Intake, exceptions
from stream_jobs.reprocess.feed import Feeder
from stream_jobs.reprocess.plan import Span, grid_of
from stream_jobs.reprocess.runs import Counts

FOLDER: Final = "backfills"
APART_MS: Final = 3_600_000
"""Samples that lie further apart are restated as spans of their own: a month of few drives is short."""


@dataclass(frozen=True, slots=True)
class Done:
    """What a back-fill brought into the database; ``before``: spans that an earlier try had done."""

    spans: int
    before: int
    late: int
    quarantined: int
    vehicle_windows: int
    place_windows: int
    journeys: int


@dataclass(frozen=True, slots=True)
class Progress:
    """Which spans of a day's back-fill are restated: a file beside the archive, so a killed one goes on."""

    path: Path

    @classmethod
    def of(cls, archive: Path, name: str) -> Progress:
        """The file of a day's name."""
        return cls(archive / FOLDER / f"{name}.json")

    def begin(self, fresh: bool) -> None:
        """Forget what was done where files came in since."""
        if fresh:
            self.path.unlink(missing_ok=True)

    def left(self, spans: list[Span]) -> list[Span]:
        """Spans that are not restated yet."""
        done = self._done()
        return [span for span in spans if [span.from_ms, span.until_ms] not in done]

    def note(self, span: Span) -> None:
        """A span is restated."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_suffix(".draft")
        draft.write_bytes(orjson.dumps({"restated_ms": [*self._done(), [span.from_ms, span.until_ms]]}))
        sync(draft)
        draft.replace(self.path)

    def _done(self) -> list[list[int]]:
        if not self.path.exists():
            return []
        found: list[list[int]] = orjson.loads(self.path.read_bytes())["restated_ms"]
        return found


def bring_in(
    settings: Settings, addresses: Endpoints, taken: Intake, say: Callable[[str], None], stop: threading.Event
) -> Done:
    """Restate what the day touches and is not restated yet. Raises ConfigError, ServiceError."""
    progress = Progress.of(archive_of(settings.paths.home), taken.name)
    progress.begin(fresh=taken.fresh > 0)
    database = dead_lettering(settings, addresses, "backfill", stop, settings.recompute.transaction_timeout_s)
    try:
        spans = spans_of(taken.pieces_ms, grid_of(settings).road_window_ms)
        left = progress.left(spans)
        caught_up_ms = work.closed_ms(settings, addresses, database)
        for span in left:
            _refuse_open(settings, span, caught_up_ms)
        late, quarantined = note_exceptions(database, taken)
        write_vehicle_lookup(database, settings.paths.home)
        counts = []
        for span, count in _recompute(settings, addresses, database, left, caught_up_ms, say, stop):
            progress.note(span)
            counts.append(count)
    finally:
        database.close()
    return Done(
        len(spans), len(spans) - len(left), late, quarantined,
        sum(c.vehicle_windows for c in counts), sum(c.place_windows for c in counts),
        sum(c.journeys for c in counts),
    )  # fmt: skip


def spans_of(pieces_ms: Iterable[tuple[int, int]], window_ms: int) -> list[Span]:
    """Whole road windows around pieces of event time, joined where less than APART_MS apart; pure."""
    found: list[Span] = []
    for first, last in sorted(pieces_ms):
        low, high = first // window_ms * window_ms, (last // window_ms + 1) * window_ms
        if found and low - found[-1].until_ms < APART_MS:
            found[-1] = Span(found[-1].from_ms, max(high, found[-1].until_ms))
        else:
            found.append(Span(low, high))
    return found


def _refuse_open(settings: Settings, span: Span, caught_up_ms: int) -> None:
    if work.closed_span(settings, span, caught_up_ms).until_ms < span.until_ms:
        raise ConfigError(
            f"the back-fill reaches to {runs.moment(span.until_ms):%Y-%m-%dT%H:%M:%S} UTC, where live "
            "windows are still open: say the same again when that time is over"
        )


def note_exceptions(database: Database, taken: Intake) -> tuple[int, int]:
    """Late and quarantined records into their tables; how many of each the day has.

    Late ones count as repaired: their windows are restated right after, by this command or by its next try.
    """
    late = quarantined = 0
    for table in exceptions(taken.files):
        is_late = pc.equal(table["verdict"], LATE)
        some, others = table.filter(is_late), table.filter(pc.invert(is_late))
        database.run(partial(_write, late=some, quarantined=others))
        late, quarantined = late + some.num_rows, quarantined + others.num_rows
    return late, quarantined


def _write(connection: Connection, late: pa.Table, quarantined: pa.Table) -> None:
    now = pa.array([datetime.now(UTC)] * late.num_rows, pa.timestamp("us", tz="UTC"))
    rows = late.select(LATE_COLUMNS).append_column("repaired_at", now)
    insert_rows(connection, LATE_TABLE, rows)
    insert_rows(connection, QUARANTINE_TABLE, quarantined.select(QUARANTINE_COLUMNS))


def _recompute(
    settings: Settings, addresses: Endpoints, database: Database, spans: list[Span], caught_up_ms: int,
    say: Callable[[str], None], stop: threading.Event,
) -> Iterator[tuple[Span, Counts]]:  # fmt: skip
    with spark_when_asked(settings, "backfill", settings.recompute.driver_mb) as session:
        owner_url, told = addresses.db_owner_url, lambda done, of: say(f"slice {done} of {of}")
        tools = work.Tools(settings, database, owner_url, stop, Feeder(settings, session), told)
        for number, span in enumerate(spans, start=1):
            say(f"span {number} of {len(spans)}: from {runs.moment(span.from_ms):%Y-%m-%d %H:%M} UTC")
            yield span, work.recompute(tools, span, caught_up_ms)[1]
