"""The frames around each alert, copied out of the archive once both sides of it are there.

Each row says where the log had it, so that the copy can be checked.
"""

from collections.abc import Sequence
from typing import Any, Final

import orjson

from infra.clients.db import sql_of
from infra.clients.duck import connected
from infra.contract.verdict import clock_limits
from infra.settings.settings import Settings
from stream_jobs.app.database import Connection, Database, execute, fetch
from stream_jobs.app.statements import insert_json
from stream_jobs.archive import reader
from stream_jobs.archive.manifest import archive_of
from stream_jobs.reprocess.queue import hours_ms

SQL: Final = sql_of(__file__)

AROUND_MS: Final = 30_000
FRAMES_MAX: Final = 300
ALERTS_AT_ONCE: Final = 50

_KEPT: Final = "t0_ms boot_id seq received_ms verdict kafka_topic partition log_offset log_generation"
_STORE: Final = insert_json("alert_evidence", f"alert_no {_KEPT} frame")

Due = tuple[int, str, int, int]  # number, vehicle, when it opened, the later of that and its first receipt
Row = dict[str, Any]


def copy_evidence(database: Database, settings: Settings, closed_ms: int | None) -> int:
    """Copy the frames of alerts that are due; how many alerts.

    ``closed_ms``: up to when the archive has taken in everything.
    """
    if closed_ms is None:
        return 0
    lateness_ms = 1000 * settings.jobs.lateness_s
    terms = {"until_ms": closed_ms - AROUND_MS - lateness_ms, "limit": ALERTS_AT_ONCE}
    due: list[Due] = database.run(lambda c: fetch(c, SQL["due"], terms))
    if not due:
        return 0
    ahead_ms = clock_limits(settings).ahead_ms
    spans = [(opened - AROUND_MS - ahead_ms, late + AROUND_MS + lateness_ms) for _, _, opened, late in due]
    stored = reader.of_hours(archive_of(settings.paths.home), hours_ms(spans))
    files = [file for file in stored if any(file.may_hold(*span) for span in spans)]
    _, vehicles, opened_ms, _ = zip(*due, strict=True)
    frames: list[Row] = []
    if files:
        with connected("256MB") as connection:
            span = (max(opened_ms) + AROUND_MS, min(opened_ms) - AROUND_MS)
            sql = SQL["frames"].format(records=reader.records_sql(reader.by_log(files)))
            frames = connection.sql(sql, params=[sorted(set(vehicles)), *span]).to_arrow_table().to_pylist()
    rows = chosen(due, frames)
    counts = [{"alert_no": d[0], "frames": sum(r["alert_no"] == d[0] for r in rows)} for d in due]

    def write(connection: Connection) -> None:
        execute(connection, _STORE, {"rows": orjson.dumps(rows).decode()})
        execute(connection, SQL["done"], {"rows": orjson.dumps(counts).decode()})
        execute(connection, SQL["forget"], {"days": settings.jobs.evidence_days})

    database.run(write)
    return len(due)


def chosen(due: Sequence[Due], frames: Sequence[Row]) -> list[Row]:
    """A row for each alert and frame within AROUND_MS of its opening, copies left out; pure."""
    rows: list[Row] = []
    for number, vehicle, opened_ms, _ in due:
        near = {
            (frame["boot_id"], frame["seq"]): frame
            for frame in reversed(frames)
            if frame["vehicle_id"] == vehicle
            and frame["t0_ms"] <= opened_ms + AROUND_MS
            and frame["end_ms"] >= opened_ms - AROUND_MS
            and b"\\u0000" not in frame["value"]  # jsonb cannot hold it
        }
        for frame in sorted(near.values(), key=lambda f: abs(f["t0_ms"] - opened_ms))[:FRAMES_MAX]:
            own = {"alert_no": number, "frame": orjson.loads(frame["value"])}
            rows.append(own | {name: frame[name] for name in _KEPT.split()})
    return rows
