"""Which windows a run makes again, in which slices (pure); what waits for it; the ledger of what was done.

A frame with the verdict ok that has a sample at ``e`` was received in ``[e - ahead, e + lateness]``. So ok
frames of a window are found by receive time, late ones only by their index in the table late_frame.

The stream lists late frames by the windows they touch (odograph.late_frame) and by vehicle
(odograph.late_vehicle_frames). Whoever has taken them in marks them in the transaction that writes, and adds
there to odograph.recompute_run what it changed.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import chain, groupby
from typing import Any, Final, NamedTuple

from infra.clients.db import sql_of
from infra.contract.errors import ConfigError
from infra.contract.seq_ranges import merged
from infra.settings.settings import Settings
from stream_jobs.app.database import Connection, execute, fetch
from stream_jobs.archive.manifest import HOUR_MS
from stream_jobs.vehicles.rows import HarshRow, IdleRow, Row, StopRow, TripRow

SQL: Final = sql_of(__file__)

GRACE_MS: Final = 2_000  # so late in the log a record does not reopen a restated window

Interval = tuple[int, int]
NONE: Final = (0, 0)  # for an interval: no moment lies in it


def moment(at_ms: int) -> datetime:
    """Milliseconds since 1970 as a time, UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC)


@dataclass(frozen=True, slots=True)
class Span:
    """Event times, ms: from ``from_ms`` to before ``until_ms``; ``vehicle_id`` None: of all vehicles."""

    from_ms: int
    until_ms: int
    vehicle_id: str | None = None


class LateFrame(NamedTuple):
    """A line of odograph.late_frame; topic, partition, offset and log identify the record.

    A day that was filled in (odograph backfill) brings a topic's name and offsets of its own.
    """

    topic: str
    partition: int
    log_offset: int
    vehicle_id: str
    t0_ms: int
    span_ms: int
    log_generation: str = ""

    def starts_ms(self, window_ms: int) -> range:
        """Starts of the windows that its samples lie in, or may lie in where samples are far apart."""
        return range(self.t0_ms // window_ms * window_ms, self.t0_ms + self.span_ms + 1, window_ms)


@dataclass(frozen=True, slots=True)
class Grid:
    """Lengths that the plan needs, ms."""

    road_window_ms: int
    ahead_ms: int
    lateness_ms: int

    def closed_until_ms(self, caught_up_ms: int) -> int:
        """End of the last road window to which the stream, which has taken in all that, adds nothing more."""
        return (caught_up_ms - self.lateness_ms - GRACE_MS) // self.road_window_ms * self.road_window_ms

    def received(self, starts: Sequence[int]) -> Interval:
        """Receive times of all ok frames with a sample in the road windows ``starts``, which are in order."""
        return starts[0] - self.ahead_ms, starts[-1] + self.road_window_ms + self.lateness_ms

    def starts_ms(self, span: Span) -> range:
        """Starts of the road windows that lie in the span whole; vehicle windows lie inside them."""
        first = -(-span.from_ms // self.road_window_ms) * self.road_window_ms
        return range(first, span.until_ms - self.road_window_ms + 1, self.road_window_ms)


def grid_of(settings: Settings) -> Grid:
    """The lengths in force; raises ConfigError where they do not fit each other."""
    jobs = settings.jobs
    if jobs.road_window_s % jobs.window_s:
        raise ConfigError(
            f"ODOGRAPH_JOBS_ROAD_WINDOW_S {jobs.road_window_s} is no multiple of "
            f"ODOGRAPH_JOBS_WINDOW_S {jobs.window_s}"
        )
    return Grid(1000 * jobs.road_window_s, 1000 * jobs.ahead_s, 1000 * jobs.lateness_s)


def slices(
    starts: Iterable[int], road_ms: int, slice_ms: int, done_until_ms: int | None
) -> Iterator[list[int]]:
    """The starts, in order, in slices without a gap, one a transaction; none before ``done_until_ms``."""
    left = (start for start in starts if done_until_ms is None or start >= done_until_ms)
    # Without a gap, starts are as far from each other as their places.
    for _, piece in groupby(enumerate(left), lambda at: (at[1] // slice_ms, at[1] - at[0] * road_ms)):
        yield [start for _, start in piece]


def hours_ms(intervals: Iterable[Interval], others_ms: Iterable[int] = ()) -> list[int]:
    """Starts of the archive's hours that hold ``intervals``, and ``others_ms`` themselves."""
    hours = (range(low // HOUR_MS * HOUR_MS, high + 1, HOUR_MS) for low, high in merged(intervals))
    return sorted({*chain.from_iterable(hours), *others_ms})


LeftOut = Mapping[LateFrame, frozenset[int]]  # windows, ms, that late frames are not in


def left_out(found: Iterable[LateFrame], starts: Sequence[int], length_ms: int, before: LeftOut) -> LeftOut:
    """Of the late frames ``found`` open at a slice, what is left once it is written; ``before``: of the last.

    A frame that reaches back is in the slice before only if it was listed there too. One that reaches on, or
    came between the two, stays open: the next slice takes it, or the task `repair`.
    """
    return {f: (before.get(f) or frozenset(f.starts_ms(length_ms))).difference(starts) for f in found}


TAIL_MS: Final = 3_600_000  # so much is read after a stop's begin, to see that it was one
LOOK_BACK_MS: Final = 86_400_000  # how far back a vehicle is read where no stop is known before its frames
COMMAND, NIGHTLY, GAP = "command", "nightly", "gap"


@dataclass(frozen=True, slots=True)
class Work:
    """One vehicle: journeys that begin after ``from_ms`` and up to ``to_ms``, findings from ``since_ms`` on.

    ``since_ms`` .. ``until_ms``: the time that was asked for; ``stop_ms``: begin of the stop before it, where
    one is known. ``closed`` False: the trip under way is the stream's; ``journeys`` False: they stay as is.
    """

    vehicle_id: str
    since_ms: int
    until_ms: int
    from_ms: int
    to_ms: int
    stop_ms: int | None
    closed: bool
    journeys: bool = True

    def holds(self, row: Row) -> bool:
        if not isinstance(row, TripRow | StopRow | IdleRow | HarshRow):
            return False
        begin_ms = row.started_ms if isinstance(row, TripRow) else row.began_ms
        return self.from_ms < begin_ms <= self.to_ms


Works = Callable[[Connection, int], Sequence[Work]]  # what waits, by up to when the archive has everything


def late_starts(
    connection: Connection, grid: Grid, seen_ms: int, listed: tuple[datetime, datetime] | None = None
) -> list[int]:
    """Closed road windows with late frames: open ones listed by ``seen_ms`` whose windows are all closed, or
    (``listed``) those received in [since, until), repaired or not.

    ``seen_ms``: up to when stream and archive have taken in all that is in the log.
    """
    since, until = listed or (None, None)
    closed = {"length_ms": grid.road_window_ms, "closed_ms": grid.closed_until_ms(seen_ms)}
    values = closed | {"seen_ms": seen_ms, "since": since, "until": until}
    return [start for (start,) in fetch(connection, SQL["due" if listed is None else "listed"], values)]


def open_late(connection: Connection, from_ms: int, until_ms: int, seen_ms: int) -> list[LateFrame]:
    """Late frames with a sample in [from, until), listed by ``seen_ms``, that are not repaired yet."""
    rows = fetch(connection, SQL["open_late"], {"from_ms": from_ms, "until_ms": until_ms, "seen_ms": seen_ms})
    return [LateFrame(*row) for row in rows]


def late_hours(connection: Connection, wanted: Sequence[tuple[str | None, int, int]]) -> list[int]:
    """Hours of receipt, ms, of all late frames with a sample in times of a vehicle (None: of all)."""
    values = _lists(("vehicles", "from_ms", "until_ms"), wanted)
    return [hour for (hour,) in fetch(connection, SQL["late_hours"], {"hour_ms": HOUR_MS} | values)]


def filled_slices(
    connection: Connection, grid: Grid, span: Span, slice_ms: int, hours_ms: Iterable[int]
) -> set[int]:
    """Numbers of the slices of a span for which the archive may have something: of what was received in the
    hours with files, ``hours_ms``, and of late frames.
    """
    times = {"from_ms": span.from_ms, "until_ms": span.until_ms}
    lengths = {"length_ms": grid.road_window_ms, "slice_ms": slice_ms}
    found = {number for (number,) in fetch(connection, SQL["late_slices"], times | lengths)}
    for hour_ms in hours_ms:
        first_ms = hour_ms - grid.lateness_ms - grid.road_window_ms
        found |= {*range(first_ms // slice_ms, (hour_ms + HOUR_MS + grid.ahead_ms) // slice_ms + 1)}
    return found


def mark_taken_in(connection: Connection, frames: Iterable[LateFrame]) -> None:
    """These late frames are in all windows that they touch."""
    places = [(f.topic, f.partition, f.log_offset, f.log_generation) for f in frames]
    execute(connection, SQL["taken_in"], _lists(("topics", "partitions", "offsets", "logs"), places))


def late_vehicles(connection: Connection, seen_ms: int, *, rules: bool) -> list[Work]:
    """Vehicles whose journeys are to be restated; ``rules``: whose late frames no stateful rule has seen."""
    statement = SQL["late_vehicles"].format(mark="alerts_at" if rules else "repaired_at")
    return works(connection, seen_ms, fetch(connection, statement, {"seen_ms": seen_ms}))


def works(connection: Connection, seen_ms: int, times: Sequence[tuple[Any, ...]]) -> list[Work]:
    """What is to be restated for ``times`` of vehicles (id, first and last ms): from stop to stop."""
    values = _lists(("vehicles", "since_ms", "until_ms"), times)
    values |= {"seen_ms": seen_ms, "look_back_ms": LOOK_BACK_MS}
    return [Work(*row) for row in fetch(connection, SQL["works"], values)]


def mark_done(connection: Connection, work: Work, seen_ms: int, *, rules: bool) -> None:
    """Its late frames noted up to ``seen_ms`` are taken in; by the rules too."""
    execute(connection, SQL["done"], asdict(work) | {"seen_ms": seen_ms, "rules": rules})


def _lists(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Parameters of unnest."""
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


Counts = Counter[str]  # what a run changed, by COUNTED
COUNTED: Final = (
    "late_frames", "vehicle_windows", "place_windows", "orphaned", "vehicles", "journeys", "alerts_added",
    "alerts_changed", "alerts_withdrawn",
)  # fmt: skip
"""Columns of odograph.recompute_run."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run of the ledger: windows that begin before ``done_until_ms`` are restated already."""

    run_no: int
    span: Span
    done_until_ms: int | None


def begin(connection: Connection, kind: str, span: Span, late_until: datetime | None = None) -> Run:
    """A new run, or the unfinished one of the same kind, span and vehicle."""
    values = {
        "kind": kind, "from_at": moment(span.from_ms), "until_at": moment(span.until_ms),
        "vehicle_id": span.vehicle_id, "late_until": late_until,
    }  # fmt: skip
    found = fetch(connection, SQL["unfinished"], values) or fetch(connection, SQL["begin"], values)
    return Run(found[0][0], span, found[0][1])


def add(connection: Connection, run: Run, counts: Counts, done_ms: int | None = None) -> None:
    """Add to the counts in the transaction that changed something; windows before ``done_ms`` are done."""
    values = dict.fromkeys(COUNTED, 0) | counts
    statement = SQL["add"].format(sums=", ".join(f"{name} = {name} + %({name})s" for name in COUNTED))
    execute(connection, statement, values | {"run_no": run.run_no, "done_ms": done_ms})


def finish(connection: Connection, run: Run) -> Counts:
    """The run is over; what it changed in all, also before it was killed."""
    (row,) = fetch(connection, SQL["finish"].format(counted=", ".join(COUNTED)), {"run_no": run.run_no})
    return Counts(dict(zip(COUNTED, row, strict=True)))
