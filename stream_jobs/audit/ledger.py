"""The conservation ledger: every frame that was generated is found again, once, or named as missing. Pure.

``Ledger``: the sums of all vehicles. Three equations between figures that different parts measured::

    generated + poison  = distinct frames archived + distinct dead letters not archived
                          + rejected and counted only                       (simulator, archive, database)
    appended to the log = archived                                          (Kafka, archive)
    archived            = counted + late + quarantined + duplicate
                          + deferred_open + erased                          (archive, database)

``Figures`` are the frames of one vehicle (a frame is a vehicle, a boot and a sequence number)::

    generated = lost on the link + dropped on board + on board + on the way + dead + missing
                + counted + late + quarantined + deferred + erased

``duplicate`` are the further records of frames that are in one of the last five places. ``counted`` is what
windows have; the archive has its own figure, ``in_time``, and the two must agree.
"""

from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Final, NamedTuple

from infra.contract.errors import ConfigError
from infra.contract.seq_ranges import Ranges, both, merged, minus, size
from infra.settings.values import day_ms, duration_ms
from stream_jobs.audit.edge import EdgeDevice

EVER_MS: Final = 1 << 52  # later than any moment, ms; a whole number as a double too


@dataclass(frozen=True, slots=True)
class Scope:
    """Moments in [since, until), of what was received before ``seen_until``; ms since 1970."""

    since_ms: int
    until_ms: int
    seen_until_ms: int = EVER_MS

    @property
    def whole(self) -> bool:
        return self.since_ms == 0 and self.until_ms == EVER_MS

    def bounds(self) -> dict[str, int]:
        return {"since": self.since_ms, "until": self.until_ms, "seen": self.seen_until_ms}

    def closed(self, closed_ms: int, lateness_ms: int, window_ms: int) -> "Scope":
        """What of it is closed when everything received before ``closed_ms`` is in archive and windows.

        A frame in time is received within ``lateness_ms`` of its first sample. Ends are those of windows.
        """
        since_ms = self.since_ms // window_ms * window_ms
        until_ms = min(self.until_ms, closed_ms - lateness_ms) // window_ms * window_ms
        return Scope(since_ms, max(since_ms, until_ms), closed_ms)

    def kept(self, horizon_ms: int | None, now_ms: int) -> "Scope":
        """What of it is not older than the oldest windows and records; raises ConfigError for nothing."""
        if horizon_ms is None or self.since_ms >= horizon_ms:
            return self
        if self.until_ms <= horizon_ms:
            begin = datetime.fromtimestamp(horizon_ms / 1000, UTC)
            raise ConfigError(
                f"windows or records before {begin:%Y-%m-%d %H:%M} UTC have been dropped "
                "(ODOGRAPH_RETENTION_WINDOWS_DAYS, ODOGRAPH_ARCHIVE_KEEP_DAYS): there is nothing to balance"
            )
        return replace(self, since_ms=horizon_ms, until_ms=min(self.until_ms, now_ms))


WHOLE: Final = Scope(0, EVER_MS)


def wanted(since: str | None, day: str | None, tz: str, now_ms: int) -> Scope:
    """The scope that options ask for; without any the whole. Raises ConfigError."""
    if since is not None and day is not None:
        raise ConfigError("--since and --day: one of the two is wanted")
    if since is not None:
        return Scope(now_ms - duration_ms(since, "--since"), now_ms)
    if day is None:
        return WHOLE
    scope = Scope(*day_ms(day, "--day", tz))
    if scope.since_ms > now_ms:
        raise ConfigError(f"--day {day}: that day has not begun ({tz})")
    return scope


@dataclass(frozen=True, slots=True)
class Ledger:
    """The sums over everything since the start, or between two moments (by subtraction).

    ``dead_archived``: distinct dead letters whose frame the archive holds too (sent in again, or another copy
    passed). ``backfilled``: records that were never in the live topic, ``backfilled_distinct``: frames that
    came no other way. ``of_other_logs``: records of a live topic as it was before it was made anew, or of
    another cluster's. ``not_kept``: messages that the bridge rejected and counted without keeping them.
    ``deferred``: frames put off because of overload; the ``deferred_open`` are in no window yet. ``erased``:
    records of vehicles that were erased.
    """

    generated: int
    poison: int
    sent: int
    acked: int
    appended: int
    archived: int
    distinct: int
    counted: int
    repaired: int
    late: int
    late_open: int
    quarantined: int
    duplicate: int
    dead: int
    dead_distinct: int
    dead_archived: int
    backfilled: int = 0
    backfilled_distinct: int = 0
    of_other_logs: int = 0
    not_kept: int = 0
    deferred: int = 0
    deferred_open: int = 0
    erased: int = 0

    def __sub__(self, before: "Ledger") -> "Ledger":
        return Ledger(**{f.name: getattr(self, f.name) - getattr(before, f.name) for f in fields(self)})

    @property
    def missing_on_the_way(self) -> int:
        """Frames generated that are neither archived nor dead; negative: more arrived than were generated.

        Those counted and not kept explain what is missing: at most so many, for copies may be among them.
        """
        arrived = self.distinct - self.backfilled_distinct + self.dead_distinct - self.dead_archived
        missing = self.generated + self.poison - arrived
        return missing - min(max(0, missing), self.not_kept)

    @property
    def missing_in_archive(self) -> int:
        """Records in the log that the archive does not hold (yet)."""
        return self.appended - (self.archived - self.backfilled - self.of_other_logs)

    @property
    def missing_in_windows(self) -> int:
        """Archived records that are in no window, not late, quarantined or put off, and no duplicate."""
        known = self.counted + self.late + self.quarantined + self.duplicate + self.deferred_open
        return self.archived - known - self.erased

    @property
    def residual(self) -> int:
        return abs(self.missing_on_the_way) + abs(self.missing_in_archive) + abs(self.missing_in_windows)


NO_DEVICE: Final = EdgeDevice(0, [], [], [], 0, 0, False)
"""Of a vehicle that no simulator made: nothing is known of it but what arrived."""


@dataclass(slots=True)
class Figures:
    """Counts of frames, records where named so; of one vehicle or of all.

    ``in_time``: frames that the archive holds in time, windows are to count as many. ``dead_unknown``: dead
    letters whose frame is not known, each may be one of the missing. ``not_kept``: messages beyond the
    vehicle's limit that were counted and not kept: they explain so many missing. ``deferred``: put off
    because of overload and in no window yet. ``erased``: of a vehicle that was.
    """

    generated: int = 0
    lost_on_link: int = 0
    dropped_on_board: int = 0
    on_board: int = 0
    on_the_way: int = 0
    dead: int = 0
    missing: int = 0
    counted: int = 0
    late: int = 0
    quarantined: int = 0
    duplicate: int = 0
    in_time: int = 0
    late_records: int = 0
    late_listed: int = 0
    late_open: int = 0
    repaired: int = 0
    quarantined_records: int = 0
    quarantined_listed: int = 0
    dead_unknown: int = 0
    not_kept: int = 0
    deferred: int = 0
    erased: int = 0

    @property
    def residual(self) -> int:
        return (
            max(0, self.missing - self.not_kept)
            + abs(self.in_time - self.counted - self.deferred)
            + abs(self.late_records - self.late_listed)
            + abs(self.quarantined_records - self.quarantined_listed)
        )

    def add(self, other: "Figures") -> None:
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


@dataclass(slots=True)
class DeviceCount:
    """A device's frames in the scope, without those that are missing: ``in_time`` have a record in time, of
    the others those ``late`` have one that came late, those ``quarantined`` only ones with an impossible
    clock, and those ``erased`` are of a vehicle that was.

    ``gaps`` lie between its first and its last frame there; ``following`` is the first sequence number after
    the scope, where it has one.
    """

    figures: Figures = field(default_factory=Figures)
    first_seq: int = 0
    last_seq: int = -1
    gaps: Ranges = field(default_factory=list)
    following: int | None = None


class Absent(NamedTuple):
    """Ranges of a device that the archive lacks in the scope.

    Those ``behind`` the last frame of a run that had not ended within the scope may still be on their way.
    """

    between: Ranges
    behind: Ranges


def absent(count: DeviceCount | None, edge: EdgeDevice | None, scope: Scope) -> Absent:
    """What lacks between the first and the last frame, before the first and behind the last.

    A gap belongs to the scope that holds the frame before it. What came before the first frame is known only
    where a run says that the device began in the scope.
    """
    run = edge if edge is not None and (edge.sent or count is not None) else None
    seen = count or DeviceCount()
    begins_here = run is not None and scope.since_ms <= run.from_ms < scope.until_ms
    between, after = list(seen.gaps), seen.last_seq + 1
    if begins_here and seen.first_seq > 0 and seen.last_seq >= 0:
        between = [(0, seen.first_seq - 1), *between]
    next_seq, ended = 0, True
    if seen.following is not None:
        next_seq = seen.following
    elif run is not None and (seen.last_seq >= 0 or begins_here):
        next_seq, ended = run.next_seq, run.ended_ms is not None and run.ended_ms < scope.until_ms
    behind = [(after, next_seq - 1)] if next_seq > after else []
    return Absent([*between, *behind], []) if ended else Absent(between, behind)


def of_device(
    count: DeviceCount | None, edge: EdgeDevice | None, lacking: Absent, elsewhere: Ranges, dead: Ranges,
    waiting: Ranges,
) -> tuple[Figures, Ranges]:  # fmt: skip
    """Figures of a device, without what the database lists by vehicle, and its missing ranges."""
    run, seen = edge or NO_DEVICE, count or DeviceCount()
    rest = minus([*lacking.between, *lacking.behind], elsewhere)
    found = replace(seen.figures, generated=seen.figures.generated + size(rest))
    explained = {
        "lost_on_link": run.lost, "dropped_on_board": run.dropped, "on_board": run.on_board, "dead": dead,
        "on_the_way": merged([*waiting, *lacking.behind]),
    }  # fmt: skip
    for name, ranges in explained.items():
        setattr(found, name, size(both(rest, ranges)))
        rest = minus(rest, ranges)
    found.missing = size(rest)
    return found, rest


def enter_again(figures: Figures, again: int) -> int:
    """Take frames under a used number for frames of their own, as far as windows counted more than there are.

    ``again``: how often the vehicle used a number again, for another moment. How many it explains.
    """
    own = min(again, max(0, figures.counted - figures.in_time))
    figures.generated += own
    figures.in_time += own
    figures.duplicate -= own
    return own
