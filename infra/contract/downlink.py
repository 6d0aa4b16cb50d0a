"""What the service tells vehicles: alerts to one, notices to one or all. JSON, as the other messages."""

from __future__ import annotations

from typing import Final

import orjson

from infra.contract.errors import ContractError
from infra.contract.frame import MAX_INT, SCHEMA, Frame, load_object, require_int
from infra.contract.messages import ALERT_MAX_BYTES, SEVERITIES
from infra.contract.topics import EVERYBODY, VEHICLE_ID

DOWNLINK_ALERT_KEYS: Final = (
    "alert_id",  # the same finding has the same id: a receiver drops what it has seen
    "vehicle_id",
    "rule",
    "severity",
    "event_ms",
    "value",
    "limit",
    "message",
)
"""Keys of an alert on ``<root>/<vehicle>/alert`` after ``schema`` and ``sent_ms``; values as in Kafka."""

NOTICE_KEYS: Final = ("notice_id", "to", "severity", "text")
"""Keys of a notice after ``schema`` and ``sent_ms``. ``to`` is a vehicle id or ``all``."""
NOTICE_TEXT_CHARS: Final = 1000


def encode_alert(alert: Frame, sent_ms: int) -> bytes:
    """The message to the vehicle of an alert as Kafka has it."""
    return orjson.dumps(
        {"schema": SCHEMA, "sent_ms": sent_ms, **{key: alert[key] for key in DOWNLINK_ALERT_KEYS}}
    )


def decode_alert(raw: bytes) -> Frame:
    """The alert in ``raw``, as a vehicle reads it; unknown keys are kept. Raises ContractError."""
    alert = _head(raw)
    _texts(alert, ("alert_id", "rule", "message"))
    require_int(alert, "event_ms", 0, MAX_INT, "bad_clock")
    if type(alert.get("vehicle_id")) is not str or VEHICLE_ID.fullmatch(alert["vehicle_id"]) is None:
        raise ContractError("bad_identity", f"vehicle_id {alert.get('vehicle_id')!r} is not a VIN")
    return alert


def encode_notice(notice_id: str, to: str, severity: str, text: str, sent_ms: int) -> bytes:
    """A notice ``to`` a vehicle or everybody; raises ContractError where a vehicle would refuse it."""
    values = (notice_id, to, severity, text)
    body = {"schema": SCHEMA, "sent_ms": sent_ms, **dict(zip(NOTICE_KEYS, values, strict=True))}
    raw = orjson.dumps(body)
    decode_notice(raw)
    return raw


def decode_notice(raw: bytes) -> Frame:
    """The notice in ``raw``. Raises ContractError."""
    notice = _head(raw)
    _texts(notice, ("notice_id", "to", "text"))
    if notice["to"] != EVERYBODY and VEHICLE_ID.fullmatch(notice["to"]) is None:
        raise ContractError("bad_identity", f"to {notice['to']!r} is neither {EVERYBODY} nor a VIN")
    if not 1 <= len(notice["text"]) <= NOTICE_TEXT_CHARS:
        raise ContractError("bad_value", f"a text of 1 to {NOTICE_TEXT_CHARS} characters is wanted")
    return notice


def _head(raw: bytes) -> Frame:
    message = load_object(raw, ALERT_MAX_BYTES)
    if message.get("schema") != SCHEMA or type(message["schema"]) is not int:
        raise ContractError("bad_schema", f"schema {message.get('schema')!r}, {SCHEMA} is spoken here")
    require_int(message, "sent_ms", 0, MAX_INT, "bad_clock")
    if message.get("severity") not in SEVERITIES:
        raise ContractError("bad_value", f"severity {message.get('severity')!r} is none of {SEVERITIES}")
    return message


def _texts(message: Frame, keys: tuple[str, ...]) -> None:
    for key in keys:
        if type(message.get(key)) is not str:
            raise ContractError("bad_shape", f"{key} {message.get(key)!r} is not a string")
