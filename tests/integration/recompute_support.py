"""An archive that a test writes, alerts as the stream stores them, runs of the batch layer without Spark."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

import orjson
import psycopg
import pyarrow as pa

from infra.contract.verdict import LATE, clock_limits
from infra.settings.settings import Settings
from stream_jobs.app.database import Database
from stream_jobs.archive.writer import EXCEPTION, RECORD, indexed, write_files
from stream_jobs.reprocess import work
from stream_jobs.reprocess.feed import Feeder
from stream_jobs.reprocess.queue import Counts, Span
from stream_jobs.reprocess.restate import Restater
from tests.integration.stream_support import query
from tests.support import Lane
from tests.support_frames import Record, frame, vin
from tests.unit.stream_jobs.window_support import key_of

RULES = """
rules:
  - {id: hot, version: 1, query: vehicles, kind: level, severity: MAJOR, source: frame, value: coolant_temp_c,
     beyond: above, limit: "105", raise_for_s: 5, clear_for_s: 10, message: too hot}
"""
BEHIND = (
    "INSERT INTO odograph.late_vehicle_frames "
    "(vehicle_id, from_time, to_time, received_at, frames, noted_at) "
    "VALUES (%s, to_timestamp(%s), to_timestamp(%s) + INTERVAL '3 minutes', now(), 31, "
    "now() - INTERVAL '1 day')"
)
KINDS = (pa.string(), pa.int32(), pa.int64(), pa.binary(), pa.int64(), pa.binary())
LATE_ROW = (
    "INSERT INTO odograph.late_frame (topic, partition, log_offset, vehicle_id, boot_id, seq, t0_ms, "
    "span_ms, received_at, noted_at) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, to_timestamp(%s / 1000.0), "
    "now() - INTERVAL '1 day')"
)


class Killed(Exception):
    """Stands for a process that ends between two transactions."""


def archive(lane: Lane, name: str, records: Sequence[Record]) -> None:
    """The records as the archive has them, and its late frames listed; offsets of a thousand to each name."""
    base = sum(name.encode()) * 1_000_000
    rows = [("telemetry", 0, base + k, key_of(raw), at, raw) for k, (at, raw) in enumerate(records)]
    columns = zip(KINDS, zip(*rows, strict=True), strict=True)
    batch = pa.RecordBatch.from_arrays([pa.array(c, kind) for kind, c in columns], names=list(RECORD))
    folder = lane.home / "archive" / "telemetry"
    limits = clock_limits(lane.settings)
    write_files(folder, [batch], limits)
    for path in folder.glob("date=*/hour=*/part-*.parquet"):
        path.rename(path.with_name(f"{name}.parquet"))
    told = indexed(batch, limits).select([*EXCEPTION]).to_pylist()
    late = [row for row in told if row.pop("verdict") == LATE]
    with psycopg.connect(lane.endpoints.db_owner_url) as connection, connection.cursor() as cursor:
        cursor.executemany(LATE_ROW, [list(row.values()) for row in late])


def hot_drive(start_ms: int, vehicle: int = 71) -> list[Record]:
    """A vehicle: 100 s of driving and then standing, a frame a second; it is hot in three ways.

    Seconds 50 to 60: hot, and all of these frames come behind: an alert that late frames make. 100 and 110:
    hot, and what lies between was cool and comes behind: one that they take away. 150 to 170: hot, of which
    160 to 170 come behind: one that they make longer.
    """
    hot = {*range(50, 61), 100, 110, *range(150, 171)}
    behind = {*range(50, 61), *range(101, 110), *range(160, 171)}
    records = []
    for second in range(500):
        t0_ms = start_ms + second * 1000
        lat_deg = 48.1 + min(second, 100) * 10 / 111_195
        content = frame(
            vehicle, second, t0_ms, speed_kmh=36.0 if second < 100 else 0.0, lat_deg=lat_deg, lon_deg=11.5,
            ignition_on=True, coolant_temp_c=110.0 if second in hot else 90.0,
        )  # fmt: skip
        records.append((t0_ms + 1500 + (600_000 if second in behind else 0), orjson.dumps(content)))
    return sorted(records)


def stream_alert(lane: Lane, event_ms: int, alert_id: str) -> None:
    """A finding and its alert, as the event store would have them; somebody saw to it."""
    at = event_ms / 1000
    with psycopg.connect(lane.endpoints.db_owner_url) as connection:
        connection.execute(
            "INSERT INTO odograph.alert_event (alert_id, vehicle_id, rule, severity, event_time, "
            "received_at, alerted_at, value, rule_version, limit_value, message) "
            "VALUES (%s, %s, 'hot', 'MAJOR', to_timestamp(%s), to_timestamp(%s), to_timestamp(%s), 110, 1, "
            "105, 'too hot')",
            [alert_id, vin(71), at, at, at],
        )
        connection.execute(
            "INSERT INTO odograph.alert (vehicle_id, rule, rule_version, severity, message, opened_at, "
            "last_at, cleared_at, value, worst_value, limit_value, findings, late, first_alert_id, note) "
            "VALUES (%s, 'hot', 1, 'MAJOR', 'too hot', to_timestamp(%s), to_timestamp(%s), to_timestamp(%s), "
            "110, 110, 105, 1, false, %s, 'seen to')",
            [vin(71), at, at, at + 10, alert_id],
        )


def alerts_told(lane: Lane, start_ms: int) -> list[dict[str, Any]]:
    """The alerts that people see, s after the begin."""
    return query(
        lane,
        "SELECT (extract(epoch FROM opened_at) - %s)::integer AS opened_s, "
        "(extract(epoch FROM last_at) - %s)::integer AS last_s, "
        "(extract(epoch FROM cleared_at) - %s)::integer AS cleared_s, revision, "
        "restated_at IS NOT NULL AS restated FROM serving.alert_life "
        "WHERE vehicle_id = %s ORDER BY opened_at",
        *[start_ms / 1000] * 3,
        vin(71),
    )


TRANSACTION_TIMEOUT_S = 120.0
"""For a transaction: a starved machine is not what is tested here."""


@dataclass(frozen=True, slots=True)
class Given:
    """A run over ``span``, long after it, that writes to ``url``."""

    settings: Settings
    url: str
    span: Span

    @property
    def closed_ms(self) -> int:
        return self.span.until_ms + 3_600_000

    @contextmanager
    def restater(self) -> Iterator[Restater]:
        """A connection of its own."""
        stop = threading.Event()
        database = Database(self.url, "recompute", stop, TRANSACTION_TIMEOUT_S)
        try:
            yield Restater(self.settings, database, stop, Feeder())
        finally:
            database.close()


def recompute(given: Given) -> Counts:
    """The command's run."""
    with given.restater() as restate:
        return work.recompute(restate, given.span, given.closed_ms)[1]


@cache
def night() -> datetime:
    """One moment for the whole run: the hour may strike between two calls."""
    return datetime.now(UTC)


def by_night(given: Given) -> Counts | None:
    """The nightly run, in the hour in which it is due; None where nothing is."""
    now = night()
    terms = given.settings.recompute.model_copy(update={"hour_utc": now.hour})
    settings = given.settings.model_copy(update={"recompute": terms})
    with Given(settings, given.url, given.span).restater() as restate:
        return work.nightly(restate, given.closed_ms, lambda: now)


def repair(given: Given) -> int:
    """A round of the task `repair`."""
    with given.restater() as restate:
        return work.repair(restate, lambda: given.closed_ms)
