"""Copies of tables as files that queries look things up in: vehicles, usual values, free flow."""

from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import structlog

from infra.clients.db import Connection, sql_of
from infra.clients.duck import table_of
from infra.settings.settings import Settings
from stream_jobs.app.database import Database, fetch
from stream_jobs.frames.lookup_files import folder_of
from stream_jobs.vehicles import lookups

SQL: Final = sql_of(__file__)

WARM_C: Final = 70.0  # hours with a colder mean say nothing of a warm engine
_FREE_FLOW: Final = "SELECT cell, heading_sector, free_flow_kmh FROM odograph.road_cell_baseline"

log = structlog.get_logger("stream_jobs.history")


def write_vehicle_lookup(connection: Connection, folder: Path) -> None:
    """Write the file where the table says something new."""
    lookups.write(folder / lookups.VEHICLE_FILE, table_of(lookups.SCHEMA, fetch(connection, SQL["vehicles"])))


def write_history(database: Database, settings: Settings) -> None:
    """Write each file where the tables say something new."""
    folder = folder_of(settings)
    terms = {
        "days": settings.recompute.history_days,
        "hours": settings.recompute.history_hours,
        "others": settings.cohort.least_others,
        "warm_c": WARM_C,
    }
    usual = table_of(lookups.USUAL_SCHEMA, database.run(lambda c: fetch(c, SQL["usual"], terms)))
    flow = database.run(lambda c: fetch(c, _FREE_FLOW))
    new = lookups.write(folder / lookups.USUAL_FILE, usual, usual.schema)
    new |= lookups.write(folder / lookups.FREE_FLOW_FILE, free_flow_table(flow), lookups.PLACE_SCHEMA)
    if new:
        log.info("history is in force", vehicles=usual.num_rows, places=len(flow))


def free_flow_table(rows: list[tuple[str, int, float]]) -> pa.Table:
    """Rows of odograph.road_cell_baseline as the file has them."""
    cells = np.array([int(cell, 16) for cell, _, _ in rows], np.int64)
    sectors = np.array([sector for _, sector, _ in rows], np.int64)
    columns = [lookups.places(cells, sectors), np.array([kmh for _, _, kmh in rows], np.float64)]
    return pa.table(columns, schema=lookups.PLACE_SCHEMA).sort_by("place")
