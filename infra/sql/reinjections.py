"""Which dead letters were sent in again: rows of ``odograph.reinjection``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from infra.clients.db import connected

_ASK = """
INSERT INTO odograph.reinjection
    (partition, log_offset, digest, kafka_topic, vehicle_id, boot_id, seq, asked_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, now())
ON CONFLICT (partition, log_offset, digest) DO UPDATE SET asked_at = excluded.asked_at
"""
_DONE = """
UPDATE odograph.reinjection SET reinjected_at = now()
WHERE partition = %s AND log_offset = %s AND digest = %s
"""
_STORED = "SELECT log_offset, digest FROM serving.reinjection WHERE reinjected_at IS NOT NULL"


@dataclass(frozen=True, slots=True)
class Reinjected:
    """A dead letter on its way in again; ``digest`` is the SHA-256 of its bytes, hex."""

    partition: int
    log_offset: int
    digest: str
    kafka_topic: str
    vehicle_id: str
    boot_id: int
    seq: int


def ask(url: str, letters: Sequence[Reinjected]) -> None:
    """Note what is about to be sent in; again is fine. Raises ServiceError."""
    rows = [
        (x.partition, x.log_offset, x.digest, x.kafka_topic, x.vehicle_id, x.boot_id, x.seq) for x in letters
    ]
    _write(url, _ASK, rows)


def done(url: str, letters: Sequence[Reinjected]) -> None:
    """Note that Kafka has them. Raises ServiceError."""
    _write(url, _DONE, [(x.partition, x.log_offset, x.digest) for x in letters])


def stored(url: str) -> set[tuple[int, str]]:
    """Offset and digest of every letter that was sent in and reported stored. Raises ServiceError."""
    with connected(url) as connection:
        return {(int(offset), str(digest)) for offset, digest in connection.execute(_STORED)}


def _write(url: str, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
    with connected(url) as connection, connection.cursor() as cursor:
        cursor.executemany(statement, rows)
