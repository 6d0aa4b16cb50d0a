"""Keeps the lookup of vehicles as the database has it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa

from stream_jobs.database import Database, fetch
from stream_jobs.vehicles import lookups

_VEHICLES: Final = (
    "SELECT vehicle_id, model, powertrain, vehicle_class FROM odograph.vehicle ORDER BY vehicle_id"
)


class LookupKeeper:
    """Writes the file where the table says something new."""

    def __init__(self, home: Path, database: Database) -> None:
        self._path = lookups.vehicle_file(home)
        self._database = database

    def __call__(self) -> int:
        """The number of vehicles known."""
        rows = self._database.run(lambda connection: fetch(connection, _VEHICLES))
        table = pa.Table.from_pylist(
            [dict(zip(lookups.SCHEMA.names, row, strict=True)) for row in rows], lookups.SCHEMA
        )
        lookups.write(self._path, table)
        return len(rows)
