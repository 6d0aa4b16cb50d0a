"""The archive as a source of an audit: frames of each device, the gaps between their sequence numbers, holes
in the log, vehicles that two devices claim to be.

Where a device's numbers follow each other, sums say that none lacks and none came twice. The frames of other
devices are counted one by one, in shares of the fleet: memory does not grow with the archive.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb
import pyarrow as pa

from infra.clients.db import sql_of
from infra.clients.duck import connected, table_of
from infra.contract.seq_ranges import Ranges, minus
from stream_jobs.archive import reader
from stream_jobs.archive.manifest import archive_of
from stream_jobs.archive.reader import ArchiveFile, by_log, by_place, quoted, records_sql, spans
from stream_jobs.archive.verify import FAULTS
from stream_jobs.audit.edge import Device, ranges_by_device
from stream_jobs.audit.ledger import EVER_MS, DeviceCount, Figures, Scope

SQL: Final = sql_of(__file__)

SHARE_ROWS: Final = 2_000_000  # records whose identities are counted at once
MEMORY: Final = "256MB"  # DuckDB's own limit; what is beyond goes to the disk
OVERLAP_MS: Final = 30_000  # longer than what clocks (``jobs.ahead_s``) and a frame's length can explain
NextOffsets = tuple[str, str, Mapping[int, int]]
"""A topic, its log, and the next offset of each partition of it that the archive has committed."""
NOT_CUT: Final[NextOffsets] = ("", "", {})
Span = tuple[float, float]  # from when to when, ms since 1970; infinite where it is not known
DeadFrame = tuple[str, str, int, int]
"""A frame known to lie in a dead letter: SHA-256 of the letter's bytes (hex), vehicle id, boot id, seq."""


class LogGap(NamedTuple):
    """Offsets of the log that the archive lacks, or that it holds twice (``doubles``)."""

    topic: str
    partition: int
    ranges: Ranges
    doubles: int


class Clone(NamedTuple):
    """A vehicle, two boots of it, and how long they overlap in sample time, ms."""

    vehicle_id: str
    boot_id: int
    other_boot_id: int
    overlap_ms: int


_SHARE: Final = "hash(vehicle_id) % $shares = $share"
COUNTED: Final = (
    "generated", "in_time", "late", "quarantined", "erased", "late_records", "quarantined_records"
)  # fmt: skip
TOTALS: Final = {
    "archived": "records", "distinct": "distinct", "backfilled": "backfilled_records",
    "backfilled_distinct": "backfilled", "of_other_logs": "of_other_logs", "erased": "erased_records",
}  # fmt: skip
_DEVICE: Final = pa.schema({"vehicle_id": pa.string(), "boot_id": pa.int64()})
_GAP: Final = pa.schema([*_DEVICE, ("first_seq", pa.int64()), ("last_seq", pa.int64())])
_DEAD: Final = pa.schema([("digest", pa.string()), *_DEVICE, ("seq", pa.int64())])


def follow(first: int, last: int, count: int, total: int, squares: int) -> bool:
    """Whether numbers are all those from ``first`` to ``last``, by their count, sum and sum of squares."""
    whole, below = last - first + 1, first - 1
    all_squares = (last * (last + 1) * (2 * last + 1) - below * first * (2 * below + 1)) // 6
    return (count, total, squares) == (whole, (first + last) * whole // 2, all_squares)


class Archive:
    """Questions to some files of the archive; gaps and holes in them are rare, frames are many.

    Of the topic of ``committed`` only what lies before its next offsets, by partition.
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, files: Sequence[ArchiveFile], scope: Scope,
        committed: NextOffsets, expired: Sequence[ArchiveFile],
    ) -> None:  # fmt: skip
        self._connection, self._scope, self._committed = connection, scope, committed
        places = by_place([*expired, *files]).items()
        self._expired = {place: spans(found, of_expired=True) for place, found in places}
        self.logs = sorted({log for file in files for log in file.logs.values()})
        """The logs that records of the files are of, where it was noted."""
        read = records_sql(by_log(files)) if files else SQL["nothing"]
        topic, log, ends = committed
        beyond = " OR ".join(f"partition = {int(p)} AND log_offset >= {int(end)}" for p, end in ends.items())
        values = {"files": read, "topic": quoted(topic), "log": quoted(log), "beyond": beyond or "false"}
        self._run(SQL["records"].format(**values, **scope.bounds(), whole=scope.whole))

    def devices(self) -> dict[Device, DeviceCount]:
        """Every device with a record in the scope."""
        found: dict[Device, DeviceCount] = {}
        gaps: list[Any] = []
        for device, n in self._numbers({"live": None, "logs": []}, gaps):
            named = n["records"] - n["erased_nameless"]
            if named:
                figures = Figures(**{name: n[name] for name in COUNTED}, duplicate=named - n["generated"])
                found[device] = DeviceCount(figures, n["first_seq"], n["last_seq"])
        for vehicle_id, boot_id, first, last in gaps:
            found[vehicle_id, boot_id].gaps.append((first, last))
        for vehicle_id, boot_id, seq in [] if self._scope.whole else self._run(SQL["following"]):
            if (vehicle_id, boot_id) in found:
                found[vehicle_id, boot_id].following = seq
        return found

    def totals(self, *live: str, logs: Sequence[str] = ()) -> dict[str, int]:
        """Sums of the records in the scope for the ledger.

        Records of other topics than ``live`` are of a back-fill; none given: all are live. Those of them that
        are not of one of ``logs`` are in no topic any more.
        """
        sums = Counter[str]()
        for _, n in self._numbers({"live": list(live) or None, "logs": list(logs)}):
            sums.update(n)
        found = {name: sums[column] for name, column in TOTALS.items()}
        return found | {"duplicate": sums["in_time_records"] - sums["in_time"]}

    def _numbers(
        self, asked: Mapping[str, Any], gaps: list[Any] | None = None
    ) -> Iterator[tuple[Device, dict[str, int]]]:
        """The columns of ``devices`` for each; the gaps between first and last number go to ``gaps``."""
        doubtful: dict[Device, dict[str, int]] = {}
        for device, n in self._by_device({"rows": SQL["each"], "sums": SQL["sums"]}, asked):
            if follow(n["first_seq"], n["last_seq"], n["records"], n["total"], n["squares"]):
                yield device, n
            else:
                doubtful[device] = n
        self._connection.register("doubtful", table_of(_DEVICE, doubtful))
        for share in _shares(sum(n["records"] for n in doubtful.values())):
            self._run(SQL["identities"].format(each=SQL["each"]), {**share, **asked})
            for device, n in self._by_device({"rows": "identity", "sums": ""}, {}):
                yield device, doubtful[device] | n
            if gaps is not None:
                gaps += self._run(SQL["gaps"])

    def _by_device(
        self, parts: Mapping[str, str], asked: Mapping[str, Any]
    ) -> Iterator[tuple[Device, dict[str, int]]]:
        rows = self._run(SQL["devices"].format(**parts), asked)
        names = [name for name, *_ in self._connection.description or []]
        return (((row[0], row[1]), dict(zip(names[2:], row[2:], strict=True))) for row in rows)

    def around(self, gaps: Mapping[Device, Ranges]) -> dict[tuple[Device, int], Span]:
        """By device and first number of a gap: when the frames before and behind it were received."""
        found = self._of_gaps(SQL["around"], gaps)
        return {((vehicle, boot), first): (before, after) for vehicle, boot, first, before, after in found}

    def elsewhere(self, gaps: Mapping[Device, Ranges]) -> dict[Device, Ranges]:
        """Of these ranges the frames that the files hold at whatever moment."""
        if not any(gaps.values()) or self._scope.whole:
            return {}
        return ranges_by_device(self._of_gaps(SQL["elsewhere"], gaps))

    def _of_gaps(self, sql: str, gaps: Mapping[Device, Ranges]) -> list[Any]:
        rows = [(*device, *each) for device, ranges in gaps.items() for each in ranges]
        self._connection.register("gap", table_of(_GAP, rows))
        return self._run(sql)

    def again(self, vehicles: Sequence[str]) -> dict[str, int]:
        """How often these vehicles used a number again in time, for another first sample."""
        sql = SQL["again"].format(vehicles="list_contains($vehicles, vehicle_id)")
        return dict(self._run(sql, {"vehicles": list(vehicles)})) if vehicles else {}

    def again_in_all(self) -> int:
        sql, ((records,),) = SQL["again"].format(vehicles=_SHARE), self._run("SELECT count(*) FROM record")
        return sum(again for share in _shares(records) for _, again in self._run(sql, share))

    def dead_archived(self, dead: Sequence[DeadFrame]) -> int:
        """Distinct dead letters, of those given, whose frame the archive holds."""
        self._connection.register("dead", table_of(_DEAD, dead))
        sql = "SELECT count(DISTINCT digest) FROM dead SEMI JOIN record USING (vehicle_id, boot_id, seq)"
        return int(self._run(sql)[0][0]) if dead else 0

    def log_gaps(self) -> list[LogGap]:
        """By partition of a log the offsets that lack between those received in the scope: none that expired.

        For a scope from the start between all of them, whether or not they are closed, and of the topic of
        ``committed`` up to its next offsets: the archive must hold all before these.
        """
        live_topic, live_log, committed = self._committed
        ends = dict(committed) if self._scope.since_ms == 0 else {}
        found = []
        until_ms = min(self._scope.until_ms, self._scope.seen_until_ms) if self._scope.since_ms else EVER_MS
        asked = {"until": until_ms}
        for topic, partition, log, records, first, last, *sums in self._run(SQL["partitions"], asked):
            rows = []
            if not follow(first, last, records, *sums):
                place = {"topic": topic, "partition": partition, "log": log, "first": first, "last": last}
                rows = self._run(FAULTS.format(records="record"), place)
            lacking = minus(
                [(start, end) for start, end, _ in rows if end >= start],
                self._expired.get((topic, partition, log), []),
            )
            doubles = sum(more for *_, more in rows)
            live = topic == live_topic and log in ("", live_log)
            end = ends.pop(partition, last + 1) if live else last + 1
            lacking += [(last + 1, end - 1)] if end > last + 1 else []
            found += [LogGap(topic, partition, lacking, doubles)] if lacking or doubles else []
        found += [LogGap(live_topic, p, [(0, end - 1)], 0) for p, end in sorted(ends.items()) if end > 0]
        return found

    def open_records(self, until_ms: int) -> int:
        """Records of frames before ``until_ms`` that the scope leaves out at its end: not closed yet."""
        return int(self._run(SQL["open"], {"end": until_ms})[0][0])

    def windows(self, vehicle_id: str, window_ms: int) -> dict[int, tuple[int, int, int, int]]:
        """By window, ms: frames in time that begin in it, one of their boots, first and last number."""
        rows = self._run(SQL["windows"], {"vehicle": vehicle_id, "window": window_ms})
        return {start: (frames, boot, first, last) for start, frames, boot, first, last in rows}

    def _run(self, sql: str, values: Mapping[str, Any] | None = None) -> list[Any]:
        """A statement with ``values`` and the bounds of the scope, those of them that it names."""
        given = {**self._scope.bounds(), **(values or {})}
        used = {name: value for name, value in given.items() if f"${name}" in sql}
        return self._connection.execute(sql, used).fetchall()


def _shares(records: int) -> Iterator[dict[str, int]]:
    """Values of ``_SHARE``."""
    shares = -(-records // SHARE_ROWS)
    return ({"shares": shares, "share": share} for share in range(shares))


@contextmanager
def opened(
    home: Path, scope: Scope, committed: NextOffsets = NOT_CUT, before_ms: int = 0
) -> Iterator[Archive]:
    """The answers of a home's archive while the block runs, from files received from the scope's begin on.

    ``before_ms``: so much earlier, for frames stamped ahead. Raises ArchiveError.
    """
    folder, begin_ms = archive_of(home), max(0, scope.since_ms - before_ms)
    files, expired = reader.files(folder, begin_ms), reader.expired(folder, begin_ms)
    with connected(MEMORY, home.absolute() / "tmp") as connection:
        yield Archive(connection, files, scope, committed, expired)


def horizon_ms(home: Path, ahead_ms: int, window_ms: int) -> int | None:
    """The first window of which no frame has expired; None: none ever have.

    A frame in time is stamped up to ``ahead_ms`` ahead of its receipt, by whose hour it expires.
    """
    expired_ms = reader.expired_until_ms(archive_of(home), reader.hours(archive_of(home)))
    return None if expired_ms is None else -(-(expired_ms + ahead_ms) // window_ms) * window_ms


def cloned_vehicles(home: Path) -> list[Clone]:
    """Vehicles whose identity two devices use at once; none where there is no archive yet.

    A device has one boot at a time. Frames of two boots of one vehicle whose sample times overlap come from
    two devices, unless a clock was set back between the boots; so their receive times must overlap too. A
    reboot gives neither. What is stored before a reboot and sent after it overlaps in receive time alone.
    """
    files = reader.paths(archive_of(home))
    if not files:
        return []
    with connected() as connection:
        rows = connection.execute(SQL["clones"], [files, OVERLAP_MS, OVERLAP_MS]).fetchall()
    return [Clone(*row) for row in rows]
