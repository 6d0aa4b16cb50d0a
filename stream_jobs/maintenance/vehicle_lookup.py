"""Keeps the lookup of vehicles as the database has it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa

from stream_jobs.app.database import Database, fetch
from stream_jobs.vehicles import lookups

_VEHICLES: Final = (
    "SELECT vehicle_id, model, powertrain, vehicle_class FROM odograph.vehicle ORDER BY vehicle_id"
)


def write_vehicle_lookup(database: Database, home: Path) -> int:
    """Write the file where the table says something new; the number of vehicles known."""
    rows = database.run(lambda connection: fetch(connection, _VEHICLES))
    table = pa.Table.from_pylist(
        [dict(zip(lookups.SCHEMA.names, row, strict=True)) for row in rows], lookups.SCHEMA
    )
    lookups.write(lookups.vehicle_file(home), table)
    return len(rows)
