"""What the query finds, as plain rows, alerts and rows of its tables; times in ms since 1970."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from stream_jobs.rules.detect.base import Detection
from stream_jobs.rules.model import Rule
from stream_jobs.vehicles.journeys.rows import HarshRow, IdleRow, StopRow, TripRow


class AlertRow(msgspec.Struct, frozen=True, tag="alert", gc=False):
    """A finding as it goes to the topic ``alerts``: the keys of the contract's ALERT_KEYS, and two besides.

    ``since_ms``: when it began to hold. ``ended``: no finding but the end of the alert.
    """

    alert_id: str
    vehicle_id: str
    rule: str
    rule_version: int
    severity: str
    event_ms: int
    value: float | None
    limit: float | None
    message: str
    boot_id: int
    seq: int
    received_ms: int
    lat_deg: float | None
    lon_deg: float | None
    since_ms: int | None = None
    ended: bool = False


class LateVehicleFrames(msgspec.Struct, frozen=True, tag="behind", gc=False):
    """Frames that came too late for the order: what the batch layer has to look at again."""

    vehicle_id: str
    from_ms: int
    to_ms: int
    received_ms: int
    frames: int


Row = AlertRow | LateVehicleFrames | TripRow | StopRow | IdleRow | HarshRow


def pack(row: Row) -> bytes:
    """The row as JSON, its kind under ``type``."""
    return msgspec.json.encode(row)


def unpack(body: bytes) -> Row:
    """The row that ``pack`` made a body of."""
    row: Row = _ROW.decode(body)
    return row


_ROW: Final = msgspec.json.Decoder(Row)


class Head(NamedTuple):
    """The frame that brought a finding; ``received_ms``: its receipt, or when a timer was due."""

    vehicle_id: str
    boot_id: int
    seq: int
    received_ms: int
    lat_deg: float | None
    lon_deg: float | None


def finding_id(vehicle_id: str, rule: str, version: int, event_ms: int, *, ended: bool) -> str:
    """The id of a finding: the same one however often it is found."""
    same = (vehicle_id, rule, version, event_ms, "ended" if ended else "found")
    return hashlib.sha256("|".join(map(str, same)).encode()).hexdigest()[:32]


def alert_row(rule: Rule, found: Detection, head: Head) -> AlertRow:
    """The record.

    Its id follows from what makes a finding the same one, vehicle, rule, version and event time, and not from
    the frame that brought it: found again, it is no news.
    """
    name = rule.id if found.part is None else f"{rule.id}.{found.part}"
    return AlertRow(
        alert_id=finding_id(head.vehicle_id, name, rule.version, found.event_ms, ended=found.ended),
        vehicle_id=head.vehicle_id,
        rule=name,
        rule_version=rule.version,
        severity=found.severity or rule.severity,
        event_ms=found.event_ms,
        value=found.value,
        limit=found.limit,
        message=f"{rule.message}: {found.detail}" if found.detail else rule.message,
        boot_id=head.boot_id,
        seq=head.seq,
        received_ms=head.received_ms,
        lat_deg=head.lat_deg,
        lon_deg=head.lon_deg,
        since_ms=found.since_ms,
        ended=found.ended,
    )


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
