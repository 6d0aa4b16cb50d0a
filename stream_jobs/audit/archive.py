"""The archive's side: frames of each device, the gaps between their sequence numbers, holes in the log.

Frames are told apart in shares of the fleet, so that memory does not grow with the archive.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any, Final

import duckdb

from infra.clients.duck import connected
from infra.contract.seq_ranges import Ranges, merged
from stream_jobs.archive import reader
from stream_jobs.archive.manifest import HOUR_MS, archive_of, read_hour
from stream_jobs.archive.reader import paths
from stream_jobs.audit.edge import Device
from stream_jobs.audit.scope import EVER_MS, Scope

SHARE_ROWS: Final = 2_000_000
"""Records that are told apart at once."""
MEMORY: Final = "512MB"
"""DuckDB's own limit; what is beyond goes to the disk."""
Taken = tuple[str, Mapping[int, int]]
"""A topic and the next offset of each partition that the archive has taken for certain."""
NOT_CUT: Final[Taken] = ("", {})


@dataclass(slots=True)
class DeviceCount:
    """A device's records in the scope. ``gaps`` lie between its first and its last frame there."""

    frames: int = 0
    records: int = 0
    ok: int = 0
    """Frames with a record in time."""
    late: int = 0
    """Frames whose records all came late."""
    quarantined: int = 0
    """Frames all of whose records have an impossible clock."""
    late_records: int = 0
    quarantined_records: int = 0
    first_seq: int = 0
    last_seq: int = -1
    gaps: Ranges = field(default_factory=list)
    following: int | None = None
    """The first sequence number after the scope, where it has one."""


@dataclass(frozen=True, slots=True)
class PartitionCount:
    """Records of one partition of a topic; ``holes`` are offsets between the first and the last."""

    topic: str
    partition: int
    records: int
    first: int
    last: int
    holes: Ranges
    doubles: int


Span = tuple[float, float]
"""From when to when, ms since 1970; infinite where it is not known."""

_RECORDS = """
CREATE OR REPLACE TEMP VIEW record AS
SELECT vehicle_id, boot_id, seq, topic, partition, log_offset, received_ms, t0_ms, verdict,
       CASE WHEN verdict IN ('ok', 'late') THEN t0_ms ELSE received_ms END AS at_ms
FROM {files} WHERE NOT ({beyond})
"""
_NOTHING = """
(SELECT '' AS vehicle_id, 0::BIGINT AS boot_id, 0::BIGINT AS seq, '' AS topic, 0 AS partition,
        0::BIGINT AS log_offset, 0::BIGINT AS received_ms, 0::BIGINT AS t0_ms, '' AS verdict WHERE false)
"""
_IDENTITIES = """
CREATE OR REPLACE TEMP TABLE identity AS
SELECT vehicle_id, boot_id, seq, count(*) AS records, count_if(verdict = 'late') AS late,
       count_if(verdict NOT IN ('ok', 'late')) AS quarantined, bool_or(verdict = 'ok') AS ok
FROM record
WHERE at_ms >= $since AND at_ms < $until AND received_ms < $seen AND hash(vehicle_id) % $shares = $share
GROUP BY ALL
"""
_DEVICES = """
SELECT vehicle_id, boot_id, count_if(seq >= 0), sum(records), count_if(ok),
       count_if(seq >= 0 AND NOT ok AND late > 0), count_if(seq >= 0 AND NOT ok AND late = 0),
       sum(late), sum(quarantined),
       coalesce(min(seq) FILTER (seq >= 0), 0), coalesce(max(seq) FILTER (seq >= 0), -1)
FROM identity GROUP BY ALL
"""
_GAPS = """
SELECT vehicle_id, boot_id, seq + 1, following - 1
FROM (SELECT vehicle_id, boot_id, seq,
             lead(seq) OVER (PARTITION BY vehicle_id, boot_id ORDER BY seq) AS following
      FROM identity WHERE seq >= 0)
WHERE following > seq + 1
"""
_FOLLOWING = """
SELECT vehicle_id, boot_id, min(seq) FROM record
WHERE verdict IN ('ok', 'late') AND t0_ms >= $until GROUP BY ALL
"""
_ELSEWHERE = """
SELECT DISTINCT r.vehicle_id, r.boot_id, r.seq
FROM record r JOIN gap g ON r.vehicle_id = g.vehicle_id AND r.boot_id = g.boot_id
                        AND r.seq BETWEEN g.first_seq AND g.last_seq
"""
_AROUND = """
SELECT g.vehicle_id, g.boot_id, g.first_seq,
       arg_max(r.received_ms, r.seq) FILTER (r.seq < g.first_seq),
       arg_min(r.received_ms, r.seq) FILTER (r.seq > g.last_seq)
FROM gap g LEFT JOIN record r ON r.vehicle_id = g.vehicle_id AND r.boot_id = g.boot_id AND r.seq >= 0
GROUP BY ALL
"""
_AGAIN = """
SELECT vehicle_id, count(DISTINCT (boot_id, seq, t0_ms)) - count(DISTINCT (boot_id, seq))
FROM record SEMI JOIN asked USING (vehicle_id)
WHERE verdict = 'ok' AND at_ms >= $since AND at_ms < $until AND received_ms < $seen
GROUP BY ALL
"""
_PARTITIONS = """
SELECT topic, partition, count(*), min(log_offset), max(log_offset),
       sum(log_offset::HUGEINT), sum(log_offset::HUGEINT * log_offset)
FROM record WHERE received_ms >= $since AND received_ms < least($until, $seen)
GROUP BY ALL ORDER BY ALL
"""
_HOLES = """
SELECT log_offset + 1, following - 1
FROM (SELECT log_offset, lead(log_offset) OVER (ORDER BY log_offset) AS following
      FROM (SELECT DISTINCT log_offset FROM one))
WHERE following > log_offset + 1
"""
_ONE_PARTITION = """
CREATE OR REPLACE TEMP TABLE one AS
SELECT log_offset FROM record WHERE topic = $topic AND partition = $partition
                                AND log_offset BETWEEN $first AND $last
"""


class Archive:
    """Questions to some files of the archive; gaps and holes in them are rare, frames are many.

    Of the topic of ``taken`` only what lies before its next offsets, by partition.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        files: Sequence[str],
        scope: Scope,
        taken: Taken = NOT_CUT,
    ) -> None:
        self._connection = connection
        self._scope = scope
        self._bounds = {"since": scope.since_ms, "until": scope.until_ms, "seen": scope.seen_until_ms}
        names = ", ".join(map(_quoted, files))
        read = f"read_parquet([{names}], hive_partitioning = false)" if names else _NOTHING
        topic, ends = taken
        beyond = " OR ".join(f"partition = {int(p)} AND log_offset >= {int(end)}" for p, end in ends.items())
        self._run(_RECORDS.format(files=read, beyond=f"topic = {_quoted(topic)} AND ({beyond or 'false'})"))

    def devices(self, share_rows: int = SHARE_ROWS) -> dict[Device, DeviceCount]:
        """Every device with a record in the scope; about ``share_rows`` records are told apart at once."""
        found: dict[Device, DeviceCount] = {}
        rows = int(self._run("SELECT count(*) FROM record")[0][0])
        shares = -(-rows // share_rows)
        for share in range(shares):
            self._run(_IDENTITIES, {**self._bounds, "shares": shares, "share": share})
            for vehicle_id, boot_id, *counts in self._run(_DEVICES):
                found[vehicle_id, boot_id] = DeviceCount(*counts)
            for vehicle_id, boot_id, first, last in self._run(_GAPS):
                found[vehicle_id, boot_id].gaps.append((first, last))
        for count in found.values():
            count.gaps = merged(count.gaps)
        self._note_following(found)
        return found

    def _note_following(self, found: Mapping[Device, DeviceCount]) -> None:
        if not self._scope.whole:
            for vehicle_id, boot_id, seq in self._run(_FOLLOWING, {"until": self._scope.until_ms}):
                if (vehicle_id, boot_id) in found:
                    found[vehicle_id, boot_id].following = seq

    def _note_gaps(self, gaps: Mapping[Device, Ranges]) -> None:
        rows = [(*device, first, last) for device, ranges in gaps.items() for first, last in ranges]
        self._run(
            "CREATE OR REPLACE TEMP TABLE gap"
            " (vehicle_id VARCHAR, boot_id BIGINT, first_seq BIGINT, last_seq BIGINT)"
        )
        if rows:
            self._connection.executemany("INSERT INTO gap VALUES (?, ?, ?, ?)", rows)

    def around(self, gaps: Mapping[Device, Ranges]) -> dict[tuple[Device, int], Span]:
        """By device and first number of a gap: when the frames before and behind it were received."""
        self._note_gaps(gaps)
        return {
            ((vehicle_id, boot_id), first): (
                -inf if before is None else before,
                inf if after is None else after,
            )
            for vehicle_id, boot_id, first, before, after in self._run(_AROUND)
        }

    def elsewhere(self, gaps: Mapping[Device, Ranges]) -> dict[Device, Ranges]:
        """Of these ranges the frames that the files hold at whatever moment."""
        if not any(gaps.values()) or self._scope.whole:
            return {}
        self._note_gaps(gaps)
        found: defaultdict[Device, list[tuple[int, int]]] = defaultdict(list)
        for vehicle_id, boot_id, seq in self._run(_ELSEWHERE):
            found[vehicle_id, boot_id].append((seq, seq))
        return {device: merged(ranges) for device, ranges in found.items()}

    def again(self, vehicles: Sequence[str]) -> dict[str, int]:
        """How often these vehicles used a number again in time, for another first sample."""
        if not vehicles:
            return {}
        self._run("CREATE OR REPLACE TEMP TABLE asked (vehicle_id VARCHAR)")
        self._connection.executemany("INSERT INTO asked VALUES (?)", [[each] for each in vehicles])
        return dict(self._run(_AGAIN, self._bounds))

    def partitions(self) -> list[PartitionCount]:
        """Records received in the scope by partition of the log, with the offsets between them that lack.

        All of them for a scope from the start: their offsets are known whether or not they are closed.
        """
        found = []
        bounds = self._bounds if self._scope.since_ms else {"since": 0, "until": EVER_MS, "seen": EVER_MS}
        for topic, partition, records, first, last, total, squares in self._run(_PARTITIONS, bounds):
            place = {"topic": topic, "partition": partition, "first": first, "last": last}
            whole = (records, total, squares) == _series(first, last)
            holes, doubles = ([], 0) if whole else self._holes(place)
            found.append(PartitionCount(topic, partition, records, first, last, holes, doubles))
        return found

    def _holes(self, place: Mapping[str, Any]) -> tuple[Ranges, int]:
        self._run(_ONE_PARTITION, place)
        doubles = int(self._run("SELECT count(*) - count(DISTINCT log_offset) FROM one")[0][0])
        return [(first, last) for first, last in self._run(_HOLES)], doubles

    def open_records(self, until_ms: int) -> int:
        """Records of frames before ``until_ms`` that the scope leaves out at its end: not closed yet."""
        sql = """
            SELECT count(*) FROM record
            WHERE at_ms >= $since AND at_ms < $end AND (at_ms >= $until OR received_ms >= $seen)"""
        return int(self._run(sql, {**self._bounds, "end": until_ms})[0][0])

    def windows(self, vehicle_id: str, window_ms: int) -> dict[int, tuple[int, int, int, int]]:
        """By window, ms: frames in time that begin in it, one of their boots, first and last number."""
        sql = """
            SELECT t0_ms // $window * $window, count(DISTINCT (boot_id, seq)), max(boot_id),
                   min(seq), max(seq)
            FROM record
            WHERE vehicle_id = $vehicle AND verdict = 'ok' AND t0_ms >= $since AND t0_ms < $until
              AND received_ms < $seen
            GROUP BY 1"""
        rows = self._run(sql, {**self._bounds, "vehicle": vehicle_id, "window": window_ms})
        return {start: (frames, boot, first, last) for start, frames, boot, first, last in rows}

    def _run(self, sql: str, values: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        used = {name: value for name, value in (values or {}).items() if f"${name}" in sql}
        return self._connection.execute(sql, used).fetchall()


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _series(first: int, last: int) -> tuple[int, int, int]:
    """Count, sum and sum of squares of all whole numbers from first to last."""

    def squares(n: int) -> int:
        return n * (n + 1) * (2 * n + 1) // 6

    return (
        last - first + 1,
        (first + last) * (last - first + 1) // 2,
        squares(last) - squares(first - 1),
    )


def files(home: Path, since_ms: int) -> list[str]:
    """Files of the archive with records received from ``since_ms`` on; raises ArchiveError."""
    return reader.paths(archive_of(home), since_ms)


def horizon_ms(home: Path) -> int | None:
    """Records received before it have expired; None: none ever have."""
    folder = archive_of(home)
    expired = [hour for hour in reader.hours(folder) if read_hour(folder, hour).expired_rows]
    return max(expired) + HOUR_MS if expired else None


@contextmanager
def opened(home: Path, names: Sequence[str], scope: Scope, taken: Taken = NOT_CUT) -> Iterator[Archive]:
    """The archive's answers while the block runs."""
    with connected(MEMORY, home.absolute() / "tmp") as connection:
        yield Archive(connection, names, scope, taken)


OVERLAP_MS: Final = 30_000
"""Longer than what clocks (``jobs.ahead_s``) and a frame's length can explain."""


@dataclass(frozen=True, slots=True)
class Clone:
    """A vehicle, two boots of it, and how long they overlap in sample time, ms."""

    vehicle_id: str
    boot_id: int
    other_boot_id: int
    overlap_ms: int


_SQL = """
WITH boot AS (
    SELECT vehicle_id, boot_id, min(t0_ms) AS from_ms, max(t0_ms + span_ms) AS to_ms,
           min(received_ms) AS first_ms, max(received_ms) AS last_ms
    FROM read_parquet(?, hive_partitioning = false)
    WHERE verdict IN ('ok', 'late')
    GROUP BY vehicle_id, boot_id
)
SELECT a.vehicle_id, a.boot_id, b.boot_id,
       least(a.to_ms, b.to_ms) - greatest(a.from_ms, b.from_ms) AS overlap_ms
FROM boot a JOIN boot b ON a.vehicle_id = b.vehicle_id AND a.boot_id < b.boot_id
WHERE overlap_ms > ? AND least(a.last_ms, b.last_ms) - greatest(a.first_ms, b.first_ms) > ?
ORDER BY ALL
"""


def cloned_vehicles(home: Path) -> list[Clone]:
    """All that the archive of a home shows; none where there is no archive yet."""
    files = paths(archive_of(home))
    if not files:
        return []
    with connected() as connection:
        rows = connection.execute(_SQL, [files, OVERLAP_MS, OVERLAP_MS]).fetchall()
    return [Clone(*row) for row in rows]
