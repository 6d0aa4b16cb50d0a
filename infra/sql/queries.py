"""Short reads and writes of commands and tasks; each opens its own connection and raises ServiceError."""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import structlog
from psycopg.rows import dict_row

from infra.clients.db import asked, connected, sql_of, system_user
from infra.sql.migrate import license_of

SQL: Final = sql_of(__file__)
AGGREGATES: Final = ("odograph.vehicle_minute_continuous", "odograph.vehicle_hour_continuous")
"""TimescaleDB's own, where its license has them. Hours are made of minutes: in this order."""
NOTE_S: Final = 5.0

log = structlog.get_logger("infra.sql")

RoadRow = tuple[int, str, float, float, list[tuple[float, float]]]
"""Edge id, class, limit [km/h], length [m], path [(lat, lon)] in degrees."""


class Reinjected(NamedTuple):
    """A dead letter on its way in again; ``digest`` is the SHA-256 of its bytes, hex."""

    partition: int
    log_offset: int
    digest: str
    kafka_topic: str
    vehicle_id: str
    boot_id: int
    seq: int


def pulse(url: str) -> dict[str, Any]:
    """One row of live figures: frames counted, late, lag, watermark lag, alerts, vehicles reporting."""
    return dict(asked(url, SQL["pulse"], row_factory=dict_row)[0])


def store_roads(url: str, network: str, rows: Iterable[RoadRow]) -> int:
    """Write a road network's edges, replacing those of the same name; how many."""
    values = [
        (network, edge_id, road_class, limit, length_m, json.dumps([[lon, lat] for lat, lon in path]))
        for edge_id, road_class, limit, length_m, path in rows
    ]
    with connected(url) as connection, connection.cursor() as cursor:
        cursor.execute(SQL["network"], (network,))
        cursor.execute(SQL["no_roads"], (network,))
        cursor.executemany(SQL["road"], values)
    return len(values)


def ask(url: str, letters: Sequence[Reinjected]) -> None:
    """Note which dead letters are about to be sent in; again is fine."""
    with connected(url, actor=system_user()) as connection, connection.cursor() as cursor:
        cursor.executemany(SQL["ask"], letters)


def done(url: str, letters: Sequence[Reinjected]) -> None:
    """Note that Kafka has them."""
    with connected(url) as connection, connection.cursor() as cursor:
        cursor.executemany(SQL["done"], [letter[:3] for letter in letters])


def stored(url: str) -> set[tuple[int, str]]:
    """Offset and digest of every letter that was sent in and reported stored."""
    return set(asked(url, SQL["stored"]))


def refresh(url: str, since: datetime, until: datetime, piece_s: float) -> int:
    """Make the continuous aggregates of a span anew, each day of it in ``piece_s`` at most; how many days.

    Their policies look back less than a day: what is restated further back needs this. Only their owner may,
    whoever else says so. Changes nothing in the Apache edition.
    """
    with connected(
        url, "database: continuous aggregates", autocommit=True, application_name="odograph-continuous",
        connect_timeout_s=5, tcp_user_timeout=10_000, statement_timeout_s=piece_s,
    ) as connection:  # fmt: skip
        if license_of(connection) != "timescale":
            return 0
        if connection.execute(SQL["ours"], AGGREGATES[:1]).fetchone() != (True,):
            log.warning("continuous aggregates of another role are not refreshed", to=until.isoformat())
            return 0
        days = connection.execute(SQL["days"], {"since": since, "until": until}).fetchall()
        for name in AGGREGATES:
            for begin, end in days:
                connection.execute(SQL["refresh"], (name, begin, end))
        return len(days)


def note(url: str, action: str, vehicle_id: str | None, detail: str, actor: str | None = None) -> None:
    """Note in the audit log what leaves no row elsewhere; ``actor``: who signed in, else the system user."""
    with connected(url, answer_s=NOTE_S, actor=actor or system_user()) as connection:
        connection.execute(SQL["note"], (action, vehicle_id, detail))


def audit_log(url: str, vehicle_id: str | None, actor: str | None, limit: int) -> list[dict[str, Any]]:
    """The newest entries, the oldest first; ``broken``: how many of the whole log do not hold."""
    values = {"vehicle": vehicle_id, "actor": actor, "limit": limit}
    return asked(url, SQL["audit_log"], values, row_factory=dict_row)


def fleets(url: str) -> list[tuple[str, int]]:
    """Each fleet and how many vehicles it has."""
    return asked(url, SQL["fleets"])
