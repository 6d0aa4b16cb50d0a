"""What the service tells vehicles: alerts to one, notices to one or all. JSON, signed (see signing).

``expires_ms`` is when a message is no news any more: a vehicle takes none later, so that an old one, signed
as it is, cannot be played to it again.
"""

from __future__ import annotations

from typing import Final

import orjson

from infra.contract.bounds import MAX_INT
from infra.contract.errors import ContractError
from infra.contract.frame import SCHEMA, Frame, load_object, require_int
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
"""Keys of an alert on ``<root>/<vehicle>/alert`` after the head (HEAD_KEYS); values as in Kafka."""
HEAD_KEYS: Final = ("schema", "sent_ms", "expires_ms")

NOTICE_KEYS: Final = ("notice_id", "to", "severity", "text")
"""Keys of a notice after the head. ``to`` is a vehicle id or ``all``."""
NOTICE_TEXT_CHARS: Final = 1000
MAX_BYTES: Final = ALERT_MAX_BYTES + 256
"""Of a message without its signature: an alert as Kafka has it, and the head."""


def encode_alert(alert: Frame, sent_ms: int, expires_ms: int) -> bytes:
    """The message to the vehicle of an alert as Kafka has it; to be signed."""
    return orjson.dumps(
        dict(zip(HEAD_KEYS, (SCHEMA, sent_ms, expires_ms), strict=True))
        | {key: alert[key] for key in DOWNLINK_ALERT_KEYS}
    )


def decode_alert(raw: bytes) -> Frame:
    """The alert in ``raw``, as a vehicle reads it; unknown keys are kept. Raises ContractError."""
    alert = _head(raw)
    _texts(alert, ("alert_id", "rule", "message"))
    require_int(alert, "event_ms", 0, MAX_INT, "bad_clock")
    if type(alert.get("vehicle_id")) is not str or VEHICLE_ID.fullmatch(alert["vehicle_id"]) is None:
        raise ContractError("bad_identity", f"vehicle_id {alert.get('vehicle_id')!r} is not a VIN")
    return alert


def encode_notice(notice_id: str, to: str, severity: str, text: str, sent_ms: int, expires_ms: int) -> bytes:
    """A notice ``to`` a vehicle or everybody; raises ContractError where a vehicle would refuse it."""
    values = (SCHEMA, sent_ms, expires_ms, notice_id, to, severity, text)
    body = dict(zip((*HEAD_KEYS, *NOTICE_KEYS), values, strict=True))
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
    message = load_object(raw, MAX_BYTES)
    if message.get("schema") != SCHEMA or type(message["schema"]) is not int:
        raise ContractError("bad_schema", f"schema {message.get('schema')!r}, {SCHEMA} is spoken here")
    require_int(message, "sent_ms", 0, MAX_INT, "bad_clock")
    require_int(message, "expires_ms", 0, MAX_INT, "bad_clock")
    if message.get("severity") not in SEVERITIES:
        raise ContractError("bad_value", f"severity {message.get('severity')!r} is none of {SEVERITIES}")
    return message


def _texts(message: Frame, keys: tuple[str, ...]) -> None:
    for key in keys:
        if type(message.get(key)) is not str:
            raise ContractError("bad_shape", f"{key} {message.get(key)!r} is not a string")
