"""Where a replay takes its records from: the archive, a generated day, or a stretch of the log."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from infra.clients.duck import connected
from infra.contract.errors import ConfigError
from infra.contract.topics import VEHICLE_ID
from infra.contract.verdict import ClockLimits
from stream_jobs.archive import reader
from stream_jobs.archive.manifest import TELEMETRY, archive_of
from stream_jobs.archive.writer import HourFiles
from stream_jobs.replay.log import Log, partitions_of
from stream_jobs.replay.records import Files, Span

ARCHIVE: Final = "archive"
LOG: Final = "log"
DAY: Final = "day "
"""Of a generated day; its name follows."""
MINUTE_MS: Final = 60_000
ARCHIVED_MS: Final = 60_000
"""A record is in the archive so long after its receipt."""
_OFFSETS: Final = re.compile(r"(\d+):(\d+)")
_RECEIVED: Final = """
SELECT min(received_ms), max(received_ms) + 1 FROM read_parquet(?, hive_partitioning = false)
GROUP BY partition ORDER BY partition
"""
_VEHICLES: Final = """
SELECT DISTINCT vehicle_id FROM read_parquet(?, hive_partitioning = false) WHERE vehicle_id <> '' ORDER BY 1
"""


@dataclass(frozen=True, slots=True)
class Reach:
    """How far receive times lie around event times, ms: limits of the verdict, and a run-up of the jobs."""

    ahead_ms: int
    lateness_ms: int
    lead_ms: int

    def received(self, span: Span) -> Span:
        """Receive times of all frames that are not late and have a sample in ``span``, and of the run-up."""
        begin = span.since_ms - max(self.ahead_ms, self.lead_ms)
        return Span(begin, span.until_ms + self.lateness_ms + 1)


@dataclass(frozen=True, slots=True)
class Source:
    """``name`` is what run.json keeps of it; ``event`` is what the run covers."""

    name: str
    event: Span
    received: Span


def day_span(day: str, tz: str) -> Span:
    """The day ``YYYY-MM-DD`` from midnight to midnight in zone ``tz``; raises ConfigError."""
    try:
        begin = date.fromisoformat(day)
    except ValueError as error:
        raise ConfigError(f"--day {day!r}: a day such as 2026-11-20 is wanted") from error
    ends = (datetime.combine(at, time(), ZoneInfo(tz)) for at in (begin, begin + timedelta(days=1)))
    return Span(*(int(at.timestamp() * 1000) for at in ends))


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
    wrong = [vehicle for vehicle in wanted if VEHICLE_ID.fullmatch(vehicle) is None]
    if wrong:
        raise ConfigError(f"--vehicle {wrong[0]!r} is not a 17-character VIN")
    return tuple(sorted(set(wanted)))


def speed_of(text: str) -> float | None:
    """Times as fast as it was received; None for ``max``. Raises ConfigError."""
    if text == "max":
        return None
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0 < speed < 1e6:
        raise ConfigError(f"--speed {text!r}: a factor such as 60, or max, is wanted")
    return speed


def of_day(home: Path, day: str, tz: str, reach: Reach, now_ms: int) -> Source:
    """A generated day of that name, else that date in the archive; raises ConfigError naming those known."""
    made = home / "days" / day / "run.json"
    if made.exists():
        summary = json.loads(made.read_text())
        span = Span(int(summary["start_ms"]), int(summary["end_ms"]))
        return Source(f"{DAY}{day}", span, reach.received(span))
    span = over(day_span(day, tz), now_ms, reach)
    if not reader.files(archive_of(home), span.since_ms, span.until_ms):
        # Dates of receipt in the archive (UTC), and names of generated days.
        dates = sorted({f"{Span(hour, hour).since:%Y-%m-%d}" for hour in reader.hours(archive_of(home))})
        days = sorted(path.parent.name for path in (home / "days").glob("*/run.json"))
        raise ConfigError(
            f"--day {day}: the archive has nothing of it. In the archive: {', '.join(dates) or 'nothing'}; "
            f"generated (--day NAME): {', '.join(days) or 'none'}"
        )
    return Source(ARCHIVE, span, reach.received(span))


def over(span: Span, now_ms: int, reach: Reach) -> Span:
    """What of a day is over by ``now_ms``: all that can reach its windows is archived. Raises ConfigError."""
    done_ms = (now_ms - reach.lateness_ms - ARCHIVED_MS) // MINUTE_MS * MINUTE_MS
    if done_ms <= span.since_ms:
        raise ConfigError(f"--day: the day that begins at {span.since:%Y-%m-%d %H:%M}Z has not begun")
    return Span(span.since_ms, min(span.until_ms, done_ms))


def files_of(home: Path, source: str, run_folder: Path) -> Files:
    """The files of a source."""
    if source == ARCHIVE:
        return partial(reader.paths, archive_of(home))
    if source.startswith(DAY):
        return partial(reader.paths, home / "days" / source.removeprefix(DAY))
    return partial(reader.paths, run_folder / "input")


def since_time(log: Log, topic: str, at_ms: int) -> dict[int, tuple[int, int]]:
    """First offset and the one after the last of each partition, from a time of receipt on."""
    partitions = partitions_of("telemetry")
    bounds = zip(log.begins(topic, partitions, at_ms), log.ends(topic, partitions), strict=True)
    return dict(enumerate(bounds))


def since_offsets(log: Log, topic: str, wanted: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """The same from given offsets on; raises ConfigError where one is beyond the log."""
    kept = log.kept(topic, partitions_of("telemetry"))
    for partition, offset in wanted.items():
        low, end = kept[partition]
        if not low <= offset <= end:
            raise ConfigError(
                f"--from-offset {partition}:{offset}: partition {partition} of {topic} has offsets {low} to "
                f"{end - 1}; older records are in the archive: odograph replay --day"
            )
    return {p: (offset, kept[p][1]) for p, offset in wanted.items()}


def take(
    bootstrap: str, topic: str, taken: Mapping[int, tuple[int, int]], folder: Path, reach: Reach,
    grid_ms: int, limits: ClockLimits,
) -> tuple[Source, tuple[str, ...]]:  # fmt: skip
    """Copy a stretch of the log into an archive in ``folder``: Kafka may forget it before the replay ends.

    What a killed one left there goes first: the log has grown since, and would be cut into other files.

    The run covers the time in which no window can lack a record: the stretch less the limits of the
    verdict, in whole multiples of ``grid_ms``; and for the vehicles given, where partitions are left out
    ((): all). Raises ConfigError where the stretch is too short for that.
    """
    shutil.rmtree(folder, ignore_errors=True)
    with Log(bootstrap) as log:
        records = (log.batches(topic, p, begin, end) for p, (begin, end) in sorted(taken.items()))
        for _ in HourFiles(folder / TELEMETRY, limits)(chain.from_iterable(records)):
            pass
    files = reader.paths(folder)
    if not files:
        raise ConfigError(f"{topic}: there is no record in this stretch")
    with connected() as database:
        spans = [Span(*row) for row in database.execute(_RECEIVED, [files]).fetchall()]
        vehicles = [row[0] for row in database.execute(_VEHICLES, [files]).fetchall()]
    received = Span(min(s.since_ms for s in spans), max(s.until_ms for s in spans))
    some = len(taken) < partitions_of("telemetry")
    return Source(LOG, whole_span(spans, reach, grid_ms), received), tuple(vehicles) if some else ()


def whole_span(spans: Sequence[Span], reach: Reach, grid_ms: int) -> Span:
    """Event times whose windows are whole, by when each partition was received; raises ConfigError."""
    since = max(span.since_ms for span in spans) + reach.ahead_ms
    until = max(span.until_ms for span in spans) - reach.lateness_ms
    event = Span(-(-since // grid_ms) * grid_ms, until // grid_ms * grid_ms)
    if event.since_ms >= event.until_ms:
        raise ConfigError(
            f"the stretch ({spans[0].since:%H:%M:%S} to {spans[0].until:%H:%M:%S} UTC) is too short: "
            f"no window of {grid_ms // 1000} s is whole in it"
        )
    return event
