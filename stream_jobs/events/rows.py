"""From Kafka records to what the database stores of them; pure.

A record that cannot be stored raises ContractError with the dead-letter reason.
"""

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from operator import itemgetter
from typing import Any, Final

import msgspec
import psycopg

from infra.clients.db import Connection
from infra.clients.kafka import Record
from infra.contract import messages, topics
from infra.contract.errors import REASONS, WHOLE_REASONS, ContractError
from infra.contract.frame import LAST_MS, decode, shown
from infra.contract.verdict import ClockLimits
from stream_jobs.alerts.derive import Finding
from stream_jobs.app.statements import insert_json
from stream_jobs.crashes.check import defects, profile_of
from stream_jobs.frames.plausibility import POSITION, place

COUNT_DIGITS: Final = 15
MESSAGES_MAX: Final = 1_000_000  # no bridge counts more messages in one letter
NUMBER: Final = ((int, float), "a number or null")
FLAG: Final = ((bool,), "true, false or null")

Row = dict[str, Any]
Cursor = psycopg.Cursor[Row]


def believed_ms(clocks: ClockLimits, device_ms: int, received_ms: int) -> int:
    """The device's time, or the time of receipt where the device's clock cannot be right."""
    plausible = clocks.floor_ms <= device_ms <= received_ms + clocks.ahead_ms
    return device_ms if plausible else received_ms


def finding(record: Record) -> Finding:
    """The finding in a record of ``alerts``."""
    alert = messages.decode_alert(record.value)
    since_ms = alert.get("since_ms")
    return Finding(
        alerted_ms=record.received_ms,
        since_ms=since_ms if type(since_ms) is int and 0 <= since_ms <= LAST_MS else None,
        ended=alert.get("ended") is True,
        **{key: alert[key] for key in messages.ALERT_KEYS},
    )


def crash_row(record: Record, clocks: ClockLimits) -> Row:
    """The row of ``crash_record``; its time is the receipt where the device's clock cannot be right."""
    crash = messages.decode_crash(record.value)
    lat_deg, lon_deg = place(*(_typed(crash, name, *NUMBER) for name in POSITION))
    return {
        **{name: crash[name] for name in ("vehicle_id", "boot_id", "crash_id")},
        "event_ms": believed_ms(clocks, crash["event_ms"], record.received_ms),
        "received_ms": record.received_ms,
        "profile": profile_of(crash),
        "delta_v_max_kmh": _typed(crash, "delta_v_max_kmh", *NUMBER),
        "airbag_deployed": _typed(crash, "airbag_deployed", *FLAG),
        "complete": _typed(crash, "complete", *FLAG) is True,
        "hash_ok": crash.get("sha256") == messages.crash_digest(crash),
        "lat_deg": lat_deg,
        "lon_deg": lon_deg,
        "record": crash,
        "raw": record.value.decode(),
        "defects": [asdict(defect) for defect in defects(crash)],
    }


def status_row(record: Record, clocks: ClockLimits) -> Row:
    """The row of ``vehicle``."""
    status = messages.decode_status(record.value, messages.STATUS_STATES)
    names = ("vehicle_id", "boot_id", "model", "powertrain", "vehicle_class", "state")
    at_ms = believed_ms(clocks, status["at_ms"], record.received_ms)
    return {name: status.get(name) for name in names} | {"state_ms": at_ms}


def newest(rows: list[Row]) -> list[Row]:
    """The last word on each vehicle by device time, else place in the log; what it leaves out stays."""
    last: dict[str, Row] = {}
    for row in sorted(rows, key=itemgetter("state_ms")):
        older = last.get(row["vehicle_id"], row)
        last[row["vehicle_id"]] = older | {key: value for key, value in row.items() if value is not None}
    return list(last.values())


def dead_letter_row(record: Record, log_generation: str = "") -> Row:
    """The row of ``dead_letter``, a place in that log. Never raises: what is dead stays here."""
    headers, mqtt_topic = record.headers, record.headers.get(topics.HEADER_MQTT_TOPIC)
    reason = optional_text(headers.get(topics.HEADER_REASON))
    frame: Mapping[str, Any] = {}
    if reason in WHOLE_REASONS and (mqtt_topic or "").endswith("/telemetry"):
        with suppress(ContractError):  # it is no frame, or only half of one was kept
            frame = decode(record.value)
    return {
        "partition": record.partition,
        "log_offset": record.offset,
        "reason": reason if reason in REASONS else "unknown",
        "detail": optional_text(headers.get(topics.HEADER_DETAIL)),
        "mqtt_topic": optional_text(mqtt_topic),
        "vehicle_id": optional_text(record.key),
        "received_ms": record.received_ms,
        "bytes": len(record.value),
        "digest": hashlib.sha256(record.value).hexdigest(),
        **{name: frame.get(name) for name in ("boot_id", "seq")},
        "messages": _count(headers.get(topics.HEADER_MESSAGES), MESSAGES_MAX),
        "log_generation": log_generation,
        "since_ms": _count(headers.get(topics.HEADER_SINCE_MS), record.received_ms),
    }


def _count(text: str | None, most: int) -> int | None:
    """A number from a header that anybody may have written; None for nothing and for nonsense."""
    if text is None or not text.isdecimal() or len(text) > COUNT_DIGITS:
        return None
    return min(int(text), most)


def as_json(value: Sequence[Any] | Mapping[str, Any]) -> str:
    """Rows as the JSON that the statements unfold."""
    return msgspec.json.encode(value).decode()


def with_rows(cursor: Cursor | Connection, statement: str, rows: Sequence[Any]) -> None:
    """Run a statement that unfolds ``rows``, if there are any."""
    if rows:
        cursor.execute(statement, {"rows": as_json(rows)})


def insert_rows(cursor: Cursor, table: str, rows: Sequence[Row], end: str = "ON CONFLICT DO NOTHING") -> None:
    """Rows of the same keys into a table of odograph: each is stored in its column."""
    if rows:
        with_rows(cursor, insert_json(table, " ".join(rows[0]), end), rows)


def optional_text(text: str | None) -> str | None:
    """Text that PostgreSQL takes: no NUL, not endless."""
    return text and text.replace("\0", "\ufffd")[: topics.DETAIL_CHARS]


def _typed(message: Row, key: str, kinds: tuple[type, ...], wanted: str) -> Any:
    value = message.get(key)
    if type(value) not in (*kinds, type(None)):
        raise ContractError("bad_value", f"{key} {shown(value)} is not {wanted}")
    return value
