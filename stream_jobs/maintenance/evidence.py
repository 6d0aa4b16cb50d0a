"""The frames around each alert, copied out of the archive once both sides of it are there.

Each row says where the log had it, so that the copy can be checked.
"""

from collections.abc import Sequence
from typing import Any, Final

import duckdb
import orjson
import pyarrow as pa

from infra.clients.db import sql_of
from infra.clients.duck import connected, table_of
from infra.contract.verdict import clock_limits
from infra.settings.settings import Settings
from stream_jobs.app.database import Connection, Database, execute, fetch
from stream_jobs.app.statements import insert_json
from stream_jobs.archive import reader
from stream_jobs.archive.manifest import archive_of
from stream_jobs.reprocess.queue import hours_ms

SQL: Final = sql_of(__file__)
FORGET: Final = SQL["forget"]

AROUND_MS: Final = 30_000
FRAMES_MAX: Final = 300
ALERTS_AT_ONCE: Final = 50

_STORE: Final = insert_json(
    "alert_evidence",
    "alert_no t0_ms boot_id seq received_ms verdict kafka_topic partition log_offset log_generation frame",
)
_DUE: Final = pa.schema([
    ("alert_no", pa.int64()), ("vehicle_id", pa.string()), ("opened_ms", pa.int64()), ("late_ms", pa.int64()),
])  # fmt: skip

Due = tuple[int, str, int, int]  # number, vehicle, when it opened, the later of that and its first receipt
Row = dict[str, Any]


def copy_evidence(database: Database, settings: Settings, closed_ms: int | None) -> None:
    """Copy the frames of alerts that are due.

    ``closed_ms``: up to when the archive has taken in everything.
    """
    if closed_ms is None:
        return
    lateness_ms = 1000 * settings.jobs.lateness_s
    terms = {"until_ms": closed_ms - AROUND_MS - lateness_ms, "limit": ALERTS_AT_ONCE}
    due: list[Due] = database.run(lambda c: fetch(c, SQL["due"], terms))
    if not due:
        return
    ahead_ms = clock_limits(settings).ahead_ms
    spans = [(opened - AROUND_MS - ahead_ms, late + AROUND_MS + lateness_ms) for _, _, opened, late in due]
    stored = reader.of_hours(archive_of(settings.paths.home), hours_ms(spans))
    files = [file for file in stored if any(file.may_hold(*span) for span in spans)]
    rows: list[Row] = []
    if files:
        with connected("256MB") as connection:
            rows = frames_of(connection, due, reader.records_sql(reader.by_log(files)))
    counts = [{"alert_no": d[0], "frames": sum(r["alert_no"] == d[0] for r in rows)} for d in due]

    def write(connection: Connection) -> None:
        execute(connection, _STORE, {"rows": orjson.dumps(rows).decode()})
        execute(connection, SQL["done"], {"rows": orjson.dumps(counts).decode()})

    database.run(write)


def frames_of(connection: duckdb.DuckDBPyConnection, due: Sequence[Due], records: str) -> list[Row]:
    """A row for each alert and frame of ``records`` within AROUND_MS of its opening, copies left out."""
    connection.register("due", table_of(_DUE, due))
    opened = [opened_ms for _, _, opened_ms, _ in due]
    asked = {"first_ms": min(opened) - AROUND_MS, "last_ms": max(opened) + AROUND_MS}
    asked |= {"around_ms": AROUND_MS, "most": FRAMES_MAX}
    found = connection.sql(SQL["frames"].format(records=records), params=asked).to_arrow_table()
    return [row | {"frame": orjson.Fragment(row["frame"])} for row in found.to_pylist()]
