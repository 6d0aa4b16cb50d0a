"""Which records a replay takes, out of the archive, a generated day or a stretch of the log, and in which
slices: in the order of the log, bounded in records and in receive time.

All files are of one format: a stretch of the log is copied into an archive of its own. Two readings of the
same files give the same slices, however the records are spread over them.
"""

import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain, groupby, islice
from operator import add, itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

import pandas as pd
import pyarrow as pa

from infra.clients import kafka
from infra.clients.db import sql_of
from infra.clients.duck import connected
from infra.contract.errors import ConfigError
from infra.contract.topics import partition_of
from infra.contract.verdict import ERASED, LATE, ClockLimits
from infra.settings.files import read_json
from infra.settings.values import day_ms, vehicle_id
from stream_jobs.archive import reader
from stream_jobs.archive.manifest import HOUR_MS, TELEMETRY, archive_of
from stream_jobs.archive.writer import RECORD, write_files

SQL: Final = sql_of(__file__)

ARCHIVE: Final = "archive"
LOG: Final = "log"
DAY: Final = "day "  # of a generated day; its name follows
DRIVES: Final = "drives "  # of recorded drives; their folder follows
INPUT: Final = "input"
MINUTE_MS: Final = 60_000
ARCHIVED_MS: Final = 60_000  # a record is in the archive so long after its receipt
TICK_MS: Final = 5_000  # slices begin and end at multiples of it
MEMORY: Final = "512MB"
TIMEOUT_S: Final = 10.0
AT_ONCE: Final = 5_000  # records of the log that are copied at once
_TYPES: Final = (pa.string(), pa.int32(), pa.int64(), pa.binary(), pa.int64(), pa.binary())
_RECORDS: Final = pa.schema(zip(RECORD, _TYPES, strict=True))
_OFFSETS: Final = re.compile(r"(\d+):(\d+)")


class Log(kafka.LogReader):
    """Offsets and records of the log by topic. Raises ServiceError."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap, "odograph-replay", TIMEOUT_S)

    def ends(self, topic: str) -> tuple[int, ...]:
        """The next offset of each partition that the topic has now."""
        return tuple(high for _, high in self.spans(topic).values())

    def batches(self, topic: str, partition: int, begin: int, end: int) -> Iterator[pa.RecordBatch]:
        """Records of offsets begin..end-1 as the archive has them (RECORD), AT_ONCE at a time."""
        messages = self.messages(topic, partition, begin, end)
        while some := [*islice(messages, AT_ONCE)]:
            rows = [
                (topic, partition, m.offset(), m.key() or b"", int(m.timestamp()[1]), m.value()) for m in some
            ]
            yield pa.record_batch(dict(zip(RECORD, zip(*rows, strict=True), strict=True)), _RECORDS)


class Span(NamedTuple):
    """[since, until) in ms since 1970."""

    since_ms: int
    until_ms: int

    @property
    def since(self) -> datetime:
        return datetime.fromtimestamp(self.since_ms / 1000, UTC)

    @property
    def until(self) -> datetime:
        return datetime.fromtimestamp(self.until_ms / 1000, UTC)


EVER: Final = Span(0, 1 << 62)


def received(span: Span, limits: ClockLimits, lead_ms: int) -> Span:
    """Receive times of all frames that are not late and have a sample in ``span``, and of a run-up."""
    return Span(span.since_ms - max(limits.ahead_ms, lead_ms), span.until_ms + limits.lateness_ms + 1)


class Source(NamedTuple):
    """``name`` is what run.json keeps of it; the run covers ``event``, for ``vehicles`` (none: all)."""

    name: str
    event: Span
    received: Span
    vehicles: tuple[str, ...] = ()


def offsets(text: str, partitions: int) -> dict[int, int]:
    """``1200`` (every partition) or ``0:1200,3:77`` (others: none) by partition; raises ConfigError."""
    if text.isdecimal():
        return dict.fromkeys(range(partitions), int(text))
    found = [_OFFSETS.fullmatch(part) for part in text.split(",")]
    wanted = {int(match[1]): int(match[2]) for match in found if match}
    if not all(found) or len(wanted) < len(found) or not set(wanted) <= set(range(partitions)):
        raise ConfigError(
            f"--from-offset {text!r}: an offset, or partition:offset pairs such as 0:1200,3:77 "
            f"(partitions 0 to {partitions - 1}) are wanted"
        )
    return wanted


def vehicles(wanted: Sequence[str]) -> tuple[str, ...]:
    """The vehicles of ``--vehicle``, each once, in order; raises ConfigError where one is no VIN."""
    return tuple(sorted({vehicle_id(vehicle, "--vehicle") for vehicle in wanted}))


def speed_of(text: str) -> float | None:
    """Times as fast as it was received; None for ``max``. Raises ConfigError."""
    try:
        speed = None if text == "max" else float(text)
    except ValueError:
        speed = 0.0
    if speed is not None and not 0 < speed < 1e6:
        raise ConfigError(f"--speed {text!r}: a factor such as 60, or max, is wanted")
    return speed


def of_day(home: Path, day: str, tz: str, limits: ClockLimits, lead_ms: int, now_ms: int) -> Source:
    """A generated day of that name, else that date in the archive; raises ConfigError naming those known."""
    if summary := read_json(home / "days" / day / reader.DAY_SUMMARY):
        span = Span(int(summary["start_ms"]), int(summary["end_ms"]))
        return Source(f"{DAY}{day}", span, received(span, limits, lead_ms))
    span = over(Span(*day_ms(day, "--day", tz)), now_ms, limits)
    if not reader.files(archive_of(home), *span):
        raise ConfigError(f"--day {day}: the archive has nothing of it. {reader.days_known(home)}")
    begin_ms, end_ms = received(span, limits, 0)
    expired = {file.hour_ms for file in reader.expired(archive_of(home), begin_ms)}
    if gone := [hour for hour in expired if begin_ms - HOUR_MS < hour < end_ms]:
        last = datetime.fromtimestamp((max(gone) + HOUR_MS) / 1000, UTC)
        raise ConfigError(
            f"--day {day}: its records received before {last:%Y-%m-%dT%H:%M}Z have expired "
            "(ODOGRAPH_ARCHIVE_KEEP_DAYS): the windows of a run would lack them"
        )
    return Source(ARCHIVE, span, received(span, limits, lead_ms))


def over(span: Span, now_ms: int, limits: ClockLimits) -> Span:
    """What of a day is over by ``now_ms``: all that can reach its windows is archived. Raises ConfigError."""
    done_ms = (now_ms - limits.lateness_ms - ARCHIVED_MS) // MINUTE_MS * MINUTE_MS
    if done_ms <= span.since_ms:
        raise ConfigError(f"--day: the day that begins at {span.since:%Y-%m-%d %H:%M}Z has not begun")
    return Span(span.since_ms, min(span.until_ms, done_ms))


def stretch(log: Log, topic: str, wanted: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """First offset and the one after the last of each partition, from the ``wanted`` offsets on; raises
    ConfigError where one is beyond the log.
    """
    found = {}
    for partition, offset in wanted.items():
        low, end = log.bounds(topic, partition)
        if not low <= offset <= end:
            raise ConfigError(
                f"--from-offset {partition}:{offset}: partition {partition} of {topic} has offsets {low} to "
                f"{end - 1}; older records are in the archive: odograph replay --day"
            )
        found[partition] = (offset, end)
    return found


def take(
    bootstrap: str, topic: str, taken: Mapping[int, tuple[int, int]], folder: Path, limits: ClockLimits,
    grid_ms: int,
) -> Source:  # fmt: skip
    """Copy a stretch of the log into an archive in ``folder``: Kafka may forget it before the replay ends.

    What a killed one left there goes first: the log has grown since, and would be cut into other files.

    The run covers the time in which no window can lack a record: the stretch less the limits of the
    verdict, in whole multiples of ``grid_ms``; and where partitions are left out, the vehicles of the others
    only. Raises ConfigError where the stretch is too short for that.
    """
    shutil.rmtree(folder, ignore_errors=True)
    with Log(bootstrap) as log:
        records = (log.batches(topic, p, begin, end) for p, (begin, end) in sorted(taken.items()))
        write_files(folder / TELEMETRY, chain.from_iterable(records), limits)
        some = len(taken) < log.partitions(topic)
    paths = reader.paths(folder)
    if not paths:
        raise ConfigError(f"{topic}: there is no record in this stretch")
    with connected() as database:
        spans = [Span(*row) for row in database.execute(SQL["received"], [paths]).fetchall()]
        vehicles = [row[0] for row in database.execute(SQL["vehicles"], [paths]).fetchall()]
    whole = Span(min(s.since_ms for s in spans), max(s.until_ms for s in spans))
    return Source(LOG, whole_span(spans, limits, grid_ms), whole, tuple(vehicles) if some else ())


def whole_span(spans: Sequence[Span], limits: ClockLimits, grid_ms: int) -> Span:
    """Event times whose windows are whole, by when each partition was received; raises ConfigError."""
    since = max(span.since_ms for span in spans) + limits.ahead_ms
    until = max(span.until_ms for span in spans) - limits.lateness_ms
    event = Span(-(-since // grid_ms) * grid_ms, until // grid_ms * grid_ms)
    if event.since_ms >= event.until_ms:
        raise ConfigError(
            f"the stretch ({spans[0].since:%H:%M:%S} to {spans[0].until:%H:%M:%S} UTC) is too short: "
            f"no window of {grid_ms // 1000} s is whole in it"
        )
    return event


class Bounds(NamedTuple):
    """What a slice may be at most: records, and receive time, ms. One tick is never cut."""

    records: int
    span_ms: int


class Slice(NamedTuple):
    """Records of receive times [since, until); ``by_partition`` counts them. ``late``: late ones only."""

    received: Span
    late: bool
    by_partition: tuple[int, ...]

    @property
    def records(self) -> int:
        return sum(self.by_partition)


@dataclass(frozen=True, slots=True)
class Stored:
    """The records received in ``received``, and those of ``event`` that came late, to ``late_until_ms``.

    ``vehicles``: only theirs; empty: all. ``partitions``: of the topic they go into; there each lies where
    its key belongs, however many partitions the log had that it comes from.
    """

    folder: Path
    received: Span
    event: Span
    late_until_ms: int
    vehicles: tuple[str, ...]
    partitions: int

    def plan(self, bounds: Bounds) -> list[Slice]:
        """All slices in order; raises ArchiveError where the end of a file, or all of it, cannot be read."""
        found: list[Slice] = []
        for late in (False, True):  # late ones move no watermark: any stretch of time is one slice
            most = Bounds(bounds.records, 1 << 62) if late else bounds
            counts = self._query("ticks", late)
            if counts is not None:
                rows = zip(*(column.to_pylist() for column in counts.columns), strict=True)
                found += slices(rows, most, self.partitions, late)
        return found

    def read(self, part: Slice) -> pa.Table:
        """The records of a slice in the order in which they go into the log: each partition of a log as it
        is, side by side by receive time, whatever file was read first.
        """
        found = self._query("records", part.late, part.received)
        rows = found.select(("log", "origin", "log_offset", "received_ms")).to_pandas()
        rows["log"], _ = pd.factorize(rows["log"], sort=True)
        rows = rows.sort_values(["log", "origin", "log_offset"])
        reached = rows.groupby(["log", "origin"])["received_ms"].cummax()
        return found.take(pa.array(reached.sort_values(kind="stable").index))

    def _query(self, name: str, late: bool, within: Span = EVER) -> Any:
        """The answer as a table, of records received in ``within``; None where no file can have any."""
        whole = Span(self.received.until_ms, self.late_until_ms) if late else self.received
        since_ms, until_ms = max(whole.since_ms, within.since_ms), min(whole.until_ms, within.until_ms)
        files = reader.files(self.folder, since_ms, until_ms) if since_ms < until_ms else []
        if not files:
            return None
        wanted = f"received_ms >= $since AND received_ms < $until AND verdict <> '{ERASED}'"
        values: dict[str, Any] = {"since": since_ms, "until": until_ms}
        if late:
            wanted += f" AND verdict = '{LATE}' AND t0_ms < $end AND t0_ms + span_ms >= $begin"
            values |= {"begin": self.event.since_ms, "end": self.event.until_ms}
        if self.vehicles:
            wanted += " AND list_contains($vehicles, vehicle_id)"
            values["vehicles"] = list(self.vehicles)
        records = reader.records_sql(reader.by_log(files))
        text = SQL[name].format(files=records, wanted=wanted, tick_ms=TICK_MS)
        place = lru_cache(None)(lambda key: partition_of(key, self.partitions))
        with connected(MEMORY) as database:
            database.create_function("place", place, ["BLOB"], "INTEGER")
            return database.sql(text, params=values | {"partitions": self.partitions}).to_arrow_table()


def slices(
    counts: Iterable[tuple[int, int, int]], bounds: Bounds, partitions: int, late: bool
) -> list[Slice]:
    """Slices out of rows of tick, partition and count, in the order of their ticks."""
    found: list[tuple[int, int, list[int]]] = []  # first and last tick, records by partition
    for tick, rows in groupby(counts, key=itemgetter(0)):
        here = [0] * partitions
        for _, partition, count in rows:
            here[partition] += count
        first, _, held = found[-1] if found else (tick, tick, here)
        fits = sum(held) + sum(here) <= bounds.records and (tick + 1 - first) * TICK_MS <= bounds.span_ms
        if found and fits:
            found[-1] = first, tick, [*map(add, held, here)]
        else:
            found.append((tick, tick, here))
    return [
        Slice(Span(first * TICK_MS, (last + 1) * TICK_MS), late, tuple(held)) for first, last, held in found
    ]
