"""The newest state of each vehicle, from the database into the compacted Kafka topic ``vehicle-latest``.

How far the copy is lies in consumer_offset, in the clock of the database: at least once.
"""

from __future__ import annotations

from typing import Final

from stream_jobs.app.database import Connection, Database, execute, fetch
from stream_jobs.app.topic_writer import TopicWriter

TOPIC: Final = "vehicle-latest"
_CONSUMER: Final = {"consumer": "vehicle-latest", "topic": "odograph.vehicle_latest"}

_SINCE: Final = "SELECT next_offset FROM odograph.consumer_offset WHERE consumer = %(consumer)s"
_UNTIL: Final = """
SELECT (extract(epoch FROM least(now(), min(xact_start))) * 1000000)::bigint
FROM pg_stat_activity
WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid()
"""
"""Microseconds; no transaction still open can write an older ``updated_at`` than this."""
_CHANGED: Final = """
SELECT vehicle_id, (to_jsonb(l) - 'updated_at' - 'event_time'
       || jsonb_build_object('event_ms', (extract(epoch FROM event_time) * 1000)::bigint))::text
FROM odograph.vehicle_latest l
WHERE updated_at >= to_timestamp(%(since)s / 1000000.0)
"""
_DONE: Final = """
INSERT INTO odograph.consumer_offset (consumer, topic, partition, next_offset)
VALUES (%(consumer)s, %(topic)s, 0, %(until)s)
ON CONFLICT (consumer, topic, partition) DO UPDATE SET next_offset = excluded.next_offset
"""


def publish_latest(database: Database, topic: TopicWriter) -> int:
    """Publish what changed since the last call; the number of vehicles."""

    def changes(connection: Connection) -> tuple[int, list[tuple[str, str]]]:
        since = fetch(connection, _SINCE, _CONSUMER)
        until: int = fetch(connection, _UNTIL)[0][0]
        return until, fetch(connection, _CHANGED, {"since": since[0][0] if since else 0})

    until, rows = database.run(changes)
    if rows:
        topic.write([(vehicle, text.encode()) for vehicle, text in rows])
        database.run(lambda c: execute(c, _DONE, _CONSUMER | {"until": until}))
    return len(rows)
