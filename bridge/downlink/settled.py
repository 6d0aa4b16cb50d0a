"""Which alerts a webhook was told, or were not for it: kept in the database, where there are two regions.

A committed offset is a place in one region's log. After a failover the other region's log is read from its
beginning, and what is settled here is told nobody again. While the database is away, deliveries of what is
new go on: what is told meanwhile may be told again after a failover.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import structlog
from psycopg.rows import dict_row

from infra.clients.db import Connection, connected, sql_of
from infra.contract.errors import ServiceError
from infra.contract.frame import Frame

SQL: Final = sql_of(__file__)
AWAY_S: Final = 5.0
FORGET_S: Final = 86_400.0
COLUMNS: Final = ("alert_id", "vehicle_id", "rule", "incident_id", "fleet", "severity", "received_ms")
MARK: Final = dict.fromkeys(COLUMNS, "") | {"fleet": False, "received_ms": 0}
"""In the place of an alert: this webhook has been served."""
T = TypeVar("T")


class Settled:
    """Of one destination; without a ``url`` nothing is kept and nothing known. For one thread."""

    def __init__(self, url: str, destination: str) -> None:
        self._url, self._destination = url, destination
        self._not_before_s = self._forget_s = 0.0
        self._begun_ms = 0
        self._log = structlog.get_logger().bind(destination=destination)

    def begin(self) -> tuple[bool, list[Frame]]:
        """Whether this webhook was served before, in whichever region, and what it was told, oldest first."""
        if not self._url:
            return False, []
        with connected(self._url) as database:  # without this answer all might be told again
            known = bool(database.execute(SQL["known"], (self._destination, [""])).fetchall())
            told = database.cursor(row_factory=dict_row).execute(SQL["told"], (self._destination,)).fetchall()
        self._begun_ms = time.time_ns() // 1_000_000
        self.note([(MARK, False)])
        return known, told[::-1]

    def of(self, alerts: Sequence[Frame]) -> set[str]:
        """The ids of those of these alerts that are settled.

        Raises ServiceError where the database is away and one is older than ``begin``: the other region may
        have told it.
        """
        ids = [alert["alert_id"] for alert in alerts]

        def ask(database: Connection) -> set[str]:
            return {alert_id for (alert_id,) in database.execute(SQL["known"], (self._destination, ids))}

        if not ids or not self._url:
            return set()
        if min(alert["received_ms"] for alert in alerts) < self._begun_ms:
            with connected(self._url) as database:
                return ask(database)
        return self._try(ask, set())

    def note(self, settled: Sequence[tuple[Frame, bool]]) -> None:
        """Alerts, each with whether it was told; returns when they are stored."""
        rows = [
            {name: alert[name] for name in COLUMNS} | {"destination": self._destination, "told": told}
            for alert, told in settled
        ]

        def store(database: Connection) -> None:
            database.cursor().executemany(SQL["note"], rows)
            if time.monotonic() >= self._forget_s:
                database.execute(SQL["forget"], (self._destination,))
                self._forget_s = time.monotonic() + FORGET_S

        if rows:
            self._try(store, None)

    def _try(self, work: Callable[[Any], T], otherwise: T) -> T:
        if not self._url or time.monotonic() < self._not_before_s:
            return otherwise
        try:
            with connected(self._url) as database:
                return work(database)
        except ServiceError as error:
            self._not_before_s = time.monotonic() + AWAY_S
            self._log.warning("what is told now may be told again after a failover", reason=str(error))
            return otherwise
