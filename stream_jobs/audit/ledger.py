"""The conservation ledger: every frame that was generated is found again, once, or its absence is named.

Three equations, each between figures that different parts measured on their own::

    generated + poison      = distinct frames archived + distinct dead letters not archived
                              + rejected and counted only                            (edge, broker, bridge)
    appended to the log     = archived                                               (Kafka, archive)
    archived                = counted + late + quarantined + duplicate               (archive, windows)

``generated`` comes from what the simulator wrote before publishing, ``appended`` from Kafka's offsets,
``archived`` and ``duplicate`` from DuckDB over the Parquet files, the rest from the database.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from infra.clients.duck import connected
from infra.contract.seq_ranges import Ranges, both, merged, minus, size
from stream_jobs.archive.manifest import archive_of
from stream_jobs.archive.reader import paths
from stream_jobs.audit.archive import DeviceCount
from stream_jobs.audit.edge import EdgeDevice
from stream_jobs.audit.scope import Scope
from stream_jobs.audit.tables import Listed

SHARE_ROWS = 2_000_000
"""Records that are told apart at once: shares of the fleet, so that memory does not grow with the archive."""


@dataclass(frozen=True, slots=True)
class EdgeCounts:
    """What the simulator's runs say: all of them are counts of frames."""

    generated: int = 0
    """Distinct frames that were to reach the log: link losses and drops on board are not among them."""
    poison: int = 0
    """Messages broken on purpose."""
    sent: int = 0
    """Messages published, copies included."""
    acked: int = 0
    """Messages whose PUBACK came."""


@dataclass(frozen=True, slots=True)
class ArchiveCounts:
    """What the Parquet files say; records unless named distinct."""

    archived: int = 0
    distinct: int = 0
    ok: int = 0
    ok_distinct: int = 0
    late: int = 0
    quarantined: int = 0
    brought_in: int = 0
    """Records that did not come through the live topic: a back-fill's."""
    brought_distinct: int = 0
    """Distinct frames that came no other way."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """One balance, over everything since the start or between two moments (by subtraction)."""

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
    """Distinct dead letters whose frame the archive holds too: sent in again, or another copy passed."""
    brought_in: int = 0
    """Records of a back-fill: archived without ever being in the live topic."""
    brought_distinct: int = 0
    not_kept: int = 0
    """Messages that the bridge rejected and counted without keeping them."""

    def __sub__(self, before: Ledger) -> Ledger:
        """What came in between."""
        return Ledger(**{f.name: getattr(self, f.name) - getattr(before, f.name) for f in fields(self)})

    @property
    def missing_on_the_way(self) -> int:
        """Frames generated that are neither archived nor dead; negative: more arrived than were generated.

        Those counted and not kept explain what is missing: at most so many, for copies may be among them.
        """
        lost_to_the_dead = self.dead_distinct - self.dead_archived
        arrived = self.distinct - self.brought_distinct
        missing = self.generated + self.poison - arrived - lost_to_the_dead
        return missing - min(max(0, missing), self.not_kept)

    @property
    def missing_in_archive(self) -> int:
        """Records in the log that the archive does not hold (yet)."""
        return self.appended - (self.archived - self.brought_in)

    @property
    def missing_in_windows(self) -> int:
        """Archived records that are in no window, not late, not quarantined and no duplicate."""
        return self.archived - self.counted - self.late - self.quarantined - self.duplicate

    @property
    def residual(self) -> int:
        """Frames unaccounted for: 0 when every equation holds."""
        return abs(self.missing_on_the_way) + abs(self.missing_in_archive) + abs(self.missing_in_windows)


def edge_counts(home: Path) -> EdgeCounts:
    """Sum over the runs that wrote ``<home>/runs/*/run.json``."""
    told = [json.loads(path.read_text()) for path in sorted(home.glob("runs/*/run.json"))]
    parts = {name for run in told for name in run.get("parts", ())}  # their sums are in the whole run's file
    runs = [run for run in told if run.get("run_id") not in parts]
    return EdgeCounts(
        generated=sum(run["generated"] - _never_sent(run) for run in runs),
        poison=sum(run.get("poison", 0) for run in runs),
        sent=sum(run["sent"] for run in runs),
        acked=sum(run["acked"] for run in runs),
    )


def _never_sent(run: Mapping[str, Any]) -> int:
    """Frames that no log can hold: lost by the link, or pushed out of a full store on board."""
    return int(run.get("lost_on_link", 0) + run.get("dropped_on_board", 0))


_ROWS_SQL = "SELECT count(*) FROM read_parquet(?, hive_partitioning = false)"
_ARCHIVE_SQL = """
SELECT count(*) AS archived,
       count(DISTINCT id) AS distinct,
       count(*) FILTER (verdict = 'ok') AS ok,
       count(DISTINCT id) FILTER (verdict = 'ok') AS ok_distinct,
       count(*) FILTER (verdict = 'late') AS late,
       count(*) FILTER (verdict NOT IN ('ok', 'late')) AS quarantined,
       count(*) FILTER (NOT live) AS brought_in,
       count(DISTINCT id) - count(DISTINCT id) FILTER (live) AS brought_distinct
FROM (SELECT verdict, (vehicle_id, boot_id, seq) AS id, coalesce(topic = $live, true) AS live
      FROM read_parquet($files, hive_partitioning = false) WHERE hash(vehicle_id) % $shares = $share)
"""


def archive_counts(home: Path, live_topic: str | None = None) -> ArchiveCounts:
    """Counts over every Parquet file of the telemetry archive; zeros where there is none yet.

    Records of other topics than ``live_topic`` were brought in by a back-fill; None: no matter.
    """
    files = paths(archive_of(home))
    if not files:
        return ArchiveCounts()
    sums = [0] * len(fields(ArchiveCounts))
    with connected() as connection:
        ((rows,),) = connection.execute(_ROWS_SQL, [files]).fetchall()
        shares = -(-rows // SHARE_ROWS)
        for share in range(shares):
            values = {"files": files, "live": live_topic, "shares": shares, "share": share}
            (row,) = connection.execute(_ARCHIVE_SQL, values).fetchall()
            sums = [a + b for a, b in zip(sums, row, strict=True)]
    return ArchiveCounts(*sums)


_AGAIN_SQL = """
SELECT count(DISTINCT (vehicle_id, boot_id, seq, t0_ms)) - count(DISTINCT (vehicle_id, boot_id, seq))
FROM read_parquet(?, hive_partitioning = false) WHERE verdict = 'ok' AND hash(vehicle_id) % ? = ?
"""


def used_again(home: Path) -> int:
    """How often a device used a number again in time, for another first sample."""
    files = paths(archive_of(home))
    if not files:
        return 0
    with connected() as connection:
        ((rows,),) = connection.execute(_ROWS_SQL, [files]).fetchall()
        shares = -(-rows // SHARE_ROWS)
        asked = (connection.execute(_AGAIN_SQL, [files, shares, share]).fetchall() for share in range(shares))
        return sum(int(again) for ((again,),) in asked)


DeadFrame = tuple[str, str, int, int]
"""A frame known to lie in a dead letter: SHA-256 of the letter's bytes (hex), vehicle id, boot id, seq."""

_DEAD_ARCHIVED_SQL = """
SELECT count(DISTINCT dead.digest)
FROM (SELECT unnest(?::VARCHAR[]) AS digest, unnest(?::VARCHAR[]) AS vehicle_id,
             unnest(?::BIGINT[]) AS boot_id, unnest(?::BIGINT[]) AS seq) dead
SEMI JOIN (SELECT vehicle_id, boot_id, seq FROM read_parquet(?, hive_partitioning = false)) archived
    USING (vehicle_id, boot_id, seq)
"""


def dead_archived(home: Path, dead: Sequence[DeadFrame]) -> int:
    """Distinct dead letters, of those given, whose frame the telemetry archive holds."""
    files = paths(archive_of(home)) if dead else []
    if not files:
        return 0
    columns = [list(column) for column in zip(*dead, strict=True)]
    with connected() as connection:
        row = connection.execute(_DEAD_ARCHIVED_SQL, [*columns, files]).fetchone()
    return int(row[0]) if row else 0


def balance(
    edge: EdgeCounts,
    appended: int,
    archive: ArchiveCounts,
    database: Mapping[str, int],
    dead_archived: int = 0,
) -> Ledger:
    """Put the four witnesses side by side; ``database`` is the row of the view serving.ledger."""
    return Ledger(
        generated=edge.generated,
        poison=edge.poison,
        sent=edge.sent,
        acked=edge.acked,
        appended=appended,
        archived=archive.archived,
        distinct=archive.distinct,
        counted=database["frames_counted"] - database["frames_repaired"],
        repaired=database["frames_repaired"],
        late=database["records_late"],
        late_open=database["records_late_open"],
        quarantined=database["records_quarantined"],
        duplicate=archive.ok - archive.ok_distinct,
        dead=database["records_dead"],
        dead_distinct=database["records_dead_distinct"],
        dead_archived=dead_archived,
        brought_in=archive.brought_in,
        brought_distinct=archive.brought_distinct,
        not_kept=database["messages_not_kept"],
    )


NO_DEVICE: Final = EdgeDevice(0, [], [], [], 0, 0, False)
"""Of a vehicle that no simulator made: nothing is known of it but what arrived."""


@dataclass(slots=True)
class Figures:
    """Counts of frames, records where named so; of one vehicle or of all."""

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
    """Records of frames that another record told of."""
    in_time: int = 0
    """Frames that the archive holds in time: windows are to count as many."""
    late_records: int = 0
    late_listed: int = 0
    late_open: int = 0
    repaired: int = 0
    quarantined_records: int = 0
    quarantined_listed: int = 0
    dead_unknown: int = 0
    """Dead letters whose frame cannot be told: each may be one of the missing."""
    not_kept: int = 0
    """Messages beyond the vehicle's limit that were counted and not kept: they explain so many missing."""

    @property
    def residual(self) -> int:
        """Frames and records unaccounted for."""
        return (
            max(0, self.missing - self.not_kept)
            + abs(self.in_time - self.counted)
            + abs(self.late_records - self.late_listed)
            + abs(self.quarantined_records - self.quarantined_listed)
        )

    def add(self, other: Figures) -> None:
        """Take over another's counts."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


@dataclass(frozen=True, slots=True)
class Gap:
    """Frames of a device that no one has, in ranges of sequence numbers."""

    vehicle_id: str
    boot_id: int
    ranges: Ranges
    lost_with: str | None = None
    """Where a session of the bridge went while they may have been at the broker: which, and when (UTC)."""


@dataclass(frozen=True, slots=True)
class Absent:
    """Ranges of a device that the archive lacks in the scope."""

    between: Ranges
    behind: Ranges
    """Behind the last frame of a run that had not ended within the scope: they may still be on their way."""


def absent(count: DeviceCount | None, edge: EdgeDevice | None, scope: Scope) -> Absent:
    """What lacks between the first and the last frame, before the first and behind the last.

    A gap belongs to the scope that holds the frame before it. What came before the first frame is known only
    where a run tells that the device began in the scope.
    """
    told = edge if edge is not None and (edge.sent or count is not None) else None
    seen = count if count is not None else DeviceCount()
    begins_here = told is not None and scope.holds(told.from_ms)
    between = list(seen.gaps)
    if begins_here and seen.last_seq >= 0:
        between = [*_range(0, seen.first_seq - 1), *between]
    if seen.following is not None:
        return Absent([*between, *_range(seen.last_seq + 1, seen.following - 1)], [])
    if told is None or (seen.last_seq < 0 and not begins_here):
        return Absent(between, [])
    behind = _range(seen.last_seq + 1, told.next_seq - 1)
    if told.ended_ms is not None and told.ended_ms < scope.until_ms:
        return Absent([*between, *behind], [])
    return Absent(between, behind)


def _range(first: int, last: int) -> Ranges:
    return [(first, last)] if first <= last else []


def of_device(
    count: DeviceCount | None, edge: EdgeDevice | None, lacking: Absent, elsewhere: Ranges, dead: Ranges,
    waiting: Ranges,
) -> tuple[Figures, Ranges]:  # fmt: skip
    """The figures of a device without what the database lists by vehicle, and its missing ranges."""
    told, seen = edge or NO_DEVICE, count or DeviceCount()
    rest = minus([*lacking.between, *lacking.behind], elsewhere)
    found = Figures(generated=seen.frames + size(rest))
    for name, ranges in (
        ("lost_on_link", told.lost),
        ("dropped_on_board", told.dropped),
        ("on_board", told.on_board),
        ("dead", dead),
        ("on_the_way", merged([*waiting, *lacking.behind])),
    ):
        setattr(found, name, size(both(rest, ranges)))
        rest = minus(rest, ranges)
    found.missing = size(rest)
    found.in_time, found.late, found.quarantined = seen.ok, seen.late, seen.quarantined
    found.duplicate = seen.records - seen.frames
    found.late_records, found.quarantined_records = seen.late_records, seen.quarantined_records
    return found, rest


def enter_listed(figures: Figures, listed: Listed) -> None:
    """Put what the database has of a vehicle beside what the archive has."""
    figures.counted = listed.counted
    figures.repaired = listed.repaired
    figures.late_listed, figures.late_open = listed.late, listed.late_open
    figures.quarantined_listed = listed.quarantined
    figures.dead_unknown, figures.not_kept = listed.dead_unknown, listed.not_kept


def enter_again(figures: Figures, again: int) -> int:
    """Take frames under a used number for frames of their own, as far as windows counted more than there are.

    ``again``: how often the vehicle used a number again, for another moment. How many it explains.
    """
    own = min(again, max(0, figures.counted - figures.in_time))
    figures.generated += own
    figures.in_time += own
    figures.duplicate -= own
    return own


def totals(vehicles: Mapping[str, Figures]) -> Figures:
    """All vehicles together."""
    found = Figures()
    for figures in vehicles.values():
        found.add(figures)
    return found
