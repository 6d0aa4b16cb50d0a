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
from typing import Any

from infra.clients.duck import connected
from stream_jobs.archive.layout import archive_of
from stream_jobs.archive.reader import paths

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
