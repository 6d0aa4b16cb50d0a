"""What the query finds, as plain rows; times in ms since 1970."""

from __future__ import annotations

from typing import Final

import msgspec

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
