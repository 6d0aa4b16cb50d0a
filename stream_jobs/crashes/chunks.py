"""Crash records that come in parts: rows of the parts, and the record once all of them are there.

Parts belong together by vehicle, boot id, crash id, digest and their number; in any order, any times.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import orjson

from infra.clients.db import sql_of
from infra.clients.kafka import Record
from infra.contract.errors import ContractError
from infra.contract.messages import PART_HEAD, PART_SET, decode_crash, is_part, join_crash
from infra.contract.topics import HEADER_MQTT_TOPIC
from infra.contract.verdict import ClockLimits
from stream_jobs.app.statements import json_rows
from stream_jobs.events import rows as row_of
from stream_jobs.events.rows import Cursor, Row, as_json

SQL: Final = sql_of(__file__)
_WHOLE: Final = SQL["whole"].format(sets=json_rows(" ".join(PART_SET)))

Rejected = tuple[Record, ContractError]


def part_row(record: Record, clocks: ClockLimits) -> Row | None:
    """The row of ``crash_part``; None for a record that came whole."""
    message = decode_crash(record.value)
    if not is_part(message):
        return None
    return {key: message[key] for key in (*PART_SET, "part")} | {
        "event_ms": row_of.believed_ms(clocks, message["event_ms"], record.received_ms),
        "received_ms": record.received_ms,
        "mqtt_topic": row_of.optional_text(record.headers.get(HEADER_MQTT_TOPIC)),
        "message": record.value.decode(),
    }


def write_parts(cursor: Cursor, rows: Sequence[Row], clocks: ClockLimits) -> tuple[list[Row], list[Rejected]]:
    """Store parts; the crash records that they complete, and the parts of those that give none.

    Parts that give none leave the table: sent again as they should be, they are accepted.
    """
    if not rows:
        return [], []
    row_of.insert_rows(cursor, "crash_part", rows)
    cursor.execute(_WHOLE, {"rows": as_json([_key(row) for row in rows])})
    crashes: list[Row] = []
    rejected: list[Rejected] = []
    for key, found in groupby(cursor.fetchall(), _key):
        parts = list(found)
        try:
            crashes.append(assembled(parts, clocks))
            cursor.execute(SQL["assembled"], key)
        except ContractError as error:
            for part in parts:  # the Kafka record that it was, for the dead letters
                topic, vehicle, message = part["mqtt_topic"], part["vehicle_id"], part["message"].encode()
                headers = {} if topic is None else {HEADER_MQTT_TOPIC: topic}
                received = Record("crash", 0, 0, part["received_ms"], message, headers, vehicle)
                rejected.append((received, error))
            cursor.execute(SQL["drop"], key)
    return crashes, rejected


def assembled(parts: Sequence[Row], clocks: ClockLimits) -> Row:
    """The row of ``crash_record`` out of all parts in order, received as the last; raises ContractError."""
    messages = [orjson.loads(part["message"]) for part in parts]
    raw = join_crash([message["data"] for message in messages], parts[0]["sha256"])
    whole = decode_crash(raw)
    if is_part(whole):
        raise ContractError("bad_shape", "the parts give a part again")
    for key in PART_HEAD:
        claims = {message[key] for message in messages}
        if claims != {whole[key]}:
            said = f"{key} of the record is {whole[key]!r}, its parts say {claims}"
            raise ContractError("bad_identity", said)
    received_ms = max(part["received_ms"] for part in parts)
    return row_of.crash_row(Record("crash", 0, 0, received_ms, raw, {}), clocks)


def _key(row: Mapping[str, Any]) -> Row:
    return {key: row[key] for key in PART_SET}
