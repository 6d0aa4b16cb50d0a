"""Rows of the query as rows of its tables: which table, which keys, times as timestamps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import pyarrow as pa

from stream_jobs.vehicles.journeys.rows import HarshRow, IdleRow, StopRow, TripRow
from stream_jobs.vehicles.rows import LateVehicleFrames, Row


@dataclass(frozen=True, slots=True)
class RowTable:
    """A table, its natural keys, and whether its rows are restated by the batch layer."""

    name: str
    keys: tuple[str, ...]
    restated: bool = True


TABLES: Final[Mapping[type, RowTable]] = {
    TripRow: RowTable("odograph.trip", ("vehicle_id", "started_at")),
    StopRow: RowTable("odograph.trip_stop", ("vehicle_id", "began_at")),
    IdleRow: RowTable("odograph.idle_episode", ("vehicle_id", "began_at")),
    HarshRow: RowTable("odograph.harsh_event", ("vehicle_id", "began_at", "kind")),
    LateVehicleFrames: RowTable(
        "odograph.late_vehicle_frames", ("vehicle_id", "from_time", "received_at"), restated=False
    ),
}
COLUMN_OF: Final = {
    "started_ms": "started_at", "ended_ms": "ended_at", "began_ms": "began_at", "from_ms": "from_time",
    "to_ms": "to_time", "received_ms": "received_at",
}  # fmt: skip
"""Times of rows by the columns they become."""


def tables_of(rows: Iterable[Row]) -> dict[RowTable, pa.Table]:
    """Rows by table; of rows of one key the last stands."""
    found: dict[RowTable, dict[tuple[Any, ...], dict[str, Any]]] = defaultdict(dict)
    kinds: dict[RowTable, type] = {}
    for row in rows:
        table = TABLES.get(type(row))
        if table is not None:
            named = _columns(row)
            kinds[table] = type(row)
            found[table][tuple(named[key] for key in table.keys)] = named
    return {t: pa.Table.from_pylist(list(r.values()), _schema(kinds[t])) for t, r in found.items()}


def restated_tables(rows: Iterable[Row]) -> dict[RowTable, pa.Table]:
    """Rows of all tables that the batch layer restates, without a row where there is none."""
    found = tables_of(rows)
    kinds = {table: kind for kind, table in TABLES.items() if table.restated}
    return {table: found.get(table, _schema(kind).empty_table()) for table, kind in kinds.items()}


def _columns(row: Row) -> dict[str, Any]:
    return {COLUMN_OF.get(name, name): getattr(row, name) for name in row.__struct_fields__}


def _schema(kind: type) -> pa.Schema:
    fields = [(f.name, str(f.type)) for f in msgspec.structs.fields(kind)]
    return pa.schema([(COLUMN_OF.get(name, name), _arrow(name, text)) for name, text in fields])


def _arrow(name: str, annotation: str) -> pa.DataType:
    if name in COLUMN_OF:
        return pa.timestamp("ms", tz="UTC")
    if "str" in annotation:
        return pa.string()
    return pa.float64() if "float" in annotation else pa.int64()
