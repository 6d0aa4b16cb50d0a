"""Crash records that come in parts: rows of the parts, and the record once all of them are there.

Parts belong together by vehicle, boot id, crash id, digest and number of parts. They may come in any order
and any number of times.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import orjson

from infra.contract.errors import ContractError
from infra.contract.messages import PART_HEAD, PART_SET, decode_crash, is_part, join_crash
from infra.contract.topics import HEADER_MQTT_TOPIC
from infra.contract.verdict import ClockLimits
from stream_jobs.app.statements import insert_json, json_rows
from stream_jobs.events.rows import Cursor, Record, Row, as_json, believed_ms, crash_row, optional_text

_OF_SET: Final = " AND ".join(f"{key} = %({key})s" for key in PART_SET)
_INSERT: Final = insert_json(
    "crash_part", f"{' '.join(PART_SET)} part event_ms received_ms mqtt_topic message"
)
_WHOLE: Final = f"""
SELECT vehicle_id, boot_id, crash_id, sha256, parts, part, mqtt_topic, message,
       (extract(epoch FROM received_at) * 1000)::bigint AS received_ms
FROM (SELECT p.*, count(message) OVER (PARTITION BY vehicle_id, boot_id, crash_id, sha256, parts) AS there
      FROM odograph.crash_part p
      JOIN (SELECT DISTINCT * FROM {json_rows(" ".join(PART_SET))}) k
           USING (vehicle_id, boot_id, crash_id, sha256, parts)) q
WHERE there = parts
ORDER BY vehicle_id, boot_id, crash_id, sha256, parts, part
"""  # noqa: S608  own columns
_ASSEMBLED: Final = f"UPDATE odograph.crash_part SET message = NULL WHERE {_OF_SET}"  # noqa: S608
_DROP: Final = f"DELETE FROM odograph.crash_part WHERE {_OF_SET}"  # noqa: S608

Rejected = tuple[Record, ContractError]


def part_row(record: Record, clocks: ClockLimits) -> Row | None:
    """The row of ``crash_part``; None for a record that came whole."""
    message = decode_crash(record.value)
    if not is_part(message):
        return None
    return {key: message[key] for key in (*PART_SET, "part")} | {
        "event_ms": believed_ms(clocks, message["event_ms"], record.at_ms),
        "received_ms": record.at_ms,
        "mqtt_topic": optional_text(record.headers.get(HEADER_MQTT_TOPIC)),
        "message": record.value.decode(),
    }


def write_parts(cursor: Cursor, rows: Sequence[Row], clocks: ClockLimits) -> tuple[list[Row], list[Rejected]]:
    """Store parts; the crash records that they complete, and the parts of those that give none.

    Parts that give none leave the table: sent again as they should be, they are accepted.
    """
    if not rows:
        return [], []
    cursor.execute(_INSERT, {"rows": as_json(rows)})
    cursor.execute(_WHOLE, {"rows": as_json([_key(row) for row in rows])})
    crashes: list[Row] = []
    rejected: list[Rejected] = []
    for key, found in groupby(cursor.fetchall(), _key):
        parts = list(found)
        try:
            crashes.append(assembled(parts, clocks))
            cursor.execute(_ASSEMBLED, key)
        except ContractError as error:
            for part in parts:  # the Kafka record that it was, for the dead letters
                topic, vehicle = part["mqtt_topic"], part["vehicle_id"].encode()
                headers = {} if topic is None else {HEADER_MQTT_TOPIC: topic.encode()}
                message = part["message"].encode()
                received = Record("crash", 0, 0, part["received_ms"], vehicle, message, headers)
                rejected.append((received, error))
            cursor.execute(_DROP, key)
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
    return crash_row(Record("crash", 0, 0, received_ms, None, raw, {}), clocks)


def _key(row: Mapping[str, Any]) -> Row:
    return {key: row[key] for key in PART_SET}
