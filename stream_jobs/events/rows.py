"""From Kafka records to what the database stores of them; pure.

A record that cannot be stored raises ContractError with the dead-letter reason.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from infra.contract.errors import REASONS, WHOLE_REASONS, ContractError
from infra.contract.frame import LAST_MS, decode, shown
from infra.contract.messages import crash_digest, decode_alert, decode_crash, read_status
from infra.contract.topics import (
    DETAIL_CHARS,
    HEADER_DETAIL,
    HEADER_MESSAGES,
    HEADER_MQTT_TOPIC,
    HEADER_REASON,
    HEADER_SINCE_MS,
)
from infra.settings.job_sections import Jobs
from stream_jobs.alerts.derive import Finding
from stream_jobs.crashes.check import as_rows, defects
from stream_jobs.frames.plausibility import POSITION, place

COUNT_DIGITS: Final = 15
MESSAGES_MAX: Final = 1_000_000
"""No bridge counts more messages in one letter."""
_BESIDES: Final = ("alerted_ms", "since_ms", "ended")

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Record:
    """A Kafka record; ``topic`` is the short name of the contract, ``at_ms`` its Kafka timestamp."""

    topic: str
    partition: int
    offset: int
    at_ms: int
    key: bytes | None
    value: bytes
    headers: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class ClockRange:
    """Which device clocks are believed: from ``floor_ms`` (since 1970) to ``ahead_ms`` after the receipt."""

    floor_ms: int
    ahead_ms: int

    def believed_ms(self, device_ms: int, received_ms: int) -> int:
        """The device's time, or the time of receipt where the device's clock cannot be right."""
        plausible = self.floor_ms <= device_ms <= received_ms + self.ahead_ms
        return device_ms if plausible else received_ms


def clock_range(jobs: Jobs) -> ClockRange:
    """The range in the settings."""
    floor = datetime.fromisoformat(jobs.clock_floor).replace(tzinfo=UTC)
    return ClockRange(int(floor.timestamp() * 1000), jobs.ahead_s * 1000)


def finding(record: Record) -> Finding:
    """The finding in a record of ``alerts``."""
    alert = decode_alert(record.value)
    since_ms = alert.get("since_ms")
    return Finding(
        alerted_ms=record.at_ms,
        since_ms=since_ms if type(since_ms) is int and 0 <= since_ms <= LAST_MS else None,
        ended=alert.get("ended") is True,
        **{field.name: alert[field.name] for field in fields(Finding) if field.name not in _BESIDES},
    )


def crash_row(record: Record, clocks: ClockRange) -> Row:
    """The row of ``crash_record``; its time is the receipt where the device's clock cannot be right."""
    crash = decode_crash(record.value)
    lat_deg, lon_deg = place(*(_number(crash, name) for name in POSITION))
    profile = crash.get("profile")
    return {
        "vehicle_id": crash["vehicle_id"],
        "boot_id": crash["boot_id"],
        "crash_id": crash["crash_id"],
        "event_ms": clocks.believed_ms(crash["event_ms"], record.at_ms),
        "received_ms": record.at_ms,
        "profile": profile if type(profile) is str else shown(profile),
        "delta_v_max_kmh": _number(crash, "delta_v_max_kmh"),
        "airbag_deployed": _flag(crash, "airbag_deployed"),
        "complete": _flag(crash, "complete") is True,
        "hash_ok": crash.get("sha256") == crash_digest(crash),
        "lat_deg": lat_deg,
        "lon_deg": lon_deg,
        "record": crash,
        "raw": record.value.decode(),
        "defects": as_rows(defects(crash)),
    }


def status_row(record: Record, clocks: ClockRange) -> Row | None:
    """The row of ``vehicle``; None for a tombstone, with which a compacted topic forgets a vehicle."""
    if not record.value:
        return None
    status = read_status(record.value)
    named = {
        key: status.get(key) for key in ("vehicle_id", "boot_id", "model", "powertrain", "vehicle_class")
    }
    at_ms = clocks.believed_ms(status["at_ms"], record.at_ms)
    return named | {"state": status["state"], "state_ms": at_ms}


def newest(rows: list[Row]) -> list[Row]:
    """The last word on each vehicle by device time; of two at the same time, the one later in the log."""
    last: dict[str, Row] = {}
    for row in rows:
        held = last.get(row["vehicle_id"])
        if held is None or row["state_ms"] >= held["state_ms"]:
            last[row["vehicle_id"]] = _with_names_kept(row, held)
        else:
            last[row["vehicle_id"]] = _with_names_kept(held, row)
    return list(last.values())


def _with_names_kept(row: Row, older: Row | None) -> Row:
    """A last will knows no model: what the birth said stays."""
    return row if older is None else row | {k: v for k, v in older.items() if row[k] is None}


def dead_letter_row(record: Record) -> Row:
    """The row of ``dead_letter``. Never raises: what is dead stays here."""
    told = optional_text(record.headers.get(HEADER_REASON))
    reason = told if told in REASONS else "unknown"
    whole = reason in WHOLE_REASONS and record.headers.get(HEADER_MQTT_TOPIC, b"").endswith(b"/telemetry")
    boot_id, seq = _frame_number(record.value) if whole else (None, None)
    return {
        "partition": record.partition,
        "log_offset": record.offset,
        "reason": reason,
        "detail": optional_text(record.headers.get(HEADER_DETAIL)),
        "mqtt_topic": optional_text(record.headers.get(HEADER_MQTT_TOPIC)),
        "vehicle_id": optional_text(record.key),
        "received_ms": record.at_ms,
        "bytes": len(record.value),
        "digest": hashlib.sha256(record.value).hexdigest(),
        "boot_id": boot_id,
        "seq": seq,
        "messages": _count(record.headers.get(HEADER_MESSAGES), MESSAGES_MAX),
        "since_ms": _count(record.headers.get(HEADER_SINCE_MS), record.at_ms),
    }


def _count(raw: bytes | None, most: int) -> int | None:
    """A number from a header that anybody may have written; None for nothing and for nonsense."""
    if raw is None or not raw.isdigit() or len(raw) > COUNT_DIGITS:
        return None
    return min(int(raw), most)


def _frame_number(raw: bytes) -> tuple[int | None, int | None]:
    """Boot id and sequence number of a frame; None where it is none, or only half of one was kept."""
    try:
        frame = decode(raw)
    except ContractError:
        return None, None
    return frame["boot_id"], frame["seq"]


def as_json(value: Sequence[Row] | Mapping[str, Any]) -> str:
    """Rows as the JSON that the statements unfold."""
    return orjson.dumps(value).decode()


def optional_text(raw: bytes | None) -> str | None:
    """Text that PostgreSQL takes: no NUL, no broken UTF-8, not endless."""
    if raw is None:
        return None
    return raw.decode("utf-8", errors="replace").replace("\0", "\ufffd")[:DETAIL_CHARS]


def _number(message: Row, key: str) -> float | None:
    value = message.get(key)
    if type(value) not in (int, float, type(None)):
        raise ContractError("bad_value", f"{key} {shown(value)} is not a number or null")
    return value


def _flag(message: Row, key: str) -> bool | None:
    value = message.get(key)
    if type(value) not in (bool, type(None)):
        raise ContractError("bad_value", f"{key} {shown(value)} is not true, false or null")
    return value
