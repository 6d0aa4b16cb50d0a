"""Alerts and incidents in the database: listed, acknowledged, ended, silenced; incidents assigned, commented.

What writes goes through the functions of schema ``dispatch``: as the role that may do nothing else (the
page), or as ``odograph_ingest`` (the command line).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal

import psycopg
from psycopg.rows import dict_row

from infra.clients.db import Cause, cause_of, session, sql_of, system_user
from infra.contract.downlink import Silence
from infra.contract.errors import ConfigError, ServiceError

SQL: Final = sql_of(__file__)

CONNECT_S: Final = 5
ANSWER_S: Final = 15.0  # for all of one deed: a database that stands still keeps nobody waiting at the page
Row = dict[str, Any]

Deed = Literal[
    "acknowledge", "clear", "incident_acknowledge", "incident_assign", "incident_comment", "incident_close"
]  # fmt: skip
"""What is done with alerts, or with incidents."""
_DEED: Final = "SELECT * FROM dispatch.{}(%(numbers)s::bigint[], %(by)s, %(words)s) AS number"


class AlertStore:
    """One connection of a role that may do what is asked of it."""

    def __init__(self, connection: psycopg.Connection[Row]) -> None:
        self._connection = connection

    def listed(self, rule: str | None, vehicle: str | None, every: bool, limit: int) -> list[Row]:
        """Active ones first, then unacknowledged, then by severity; ``every``: those that are over too."""
        return self._rows(SQL["list"], rule=rule, vehicle=vehicle, every=every, limit=limit)

    def shown(self, alert_no: int) -> Row:
        """Its life, ``history`` and ``evidence``. Raises ServiceError where there is none."""
        return self._whole("alert", ("history", "evidence"), alert_no)

    def silence(self, rule: str | None, vehicle: str | None, seconds: float, by: str, why: str) -> Row:
        """The new silence's number and end."""
        return self._rows(SQL["silence"], rule=rule, vehicle=vehicle, seconds=seconds, by=by, why=why)[0]

    def rules(self) -> list[str]:
        """Ids of the rules that the jobs started with, once."""
        return [row["rule"] for row in self._rows(SQL["rules"])]

    def end_silences(self, numbers: Sequence[int], by: str) -> list[int]:
        return [row["silence_no"] for row in self._rows(SQL["end_silence"], numbers=list(numbers), by=by)]

    def incidents(self, cause: str | None, vehicle: str | None, every: bool, limit: int) -> list[Row]:
        return self._rows(SQL["incidents"], cause=cause, vehicle=vehicle, every=every, limit=limit)

    def incident(self, incident_no: int) -> Row:
        """It, its alerts as ``timeline``, and ``notes``. Raises ServiceError where there is none."""
        return self._whole("incident", ("timeline", "notes"), incident_no)

    def do(self, deed: Deed, numbers: Sequence[int], by: str, words: str | None) -> list[int]:
        """The numbers with which it was done, those left out that were so before. ``words``: a note; who
        incidents are assigned to, None: nobody.
        """
        rows = self._rows(_DEED.format(deed), numbers=list(numbers), by=by, words=words)
        return [row["number"] for row in rows]

    def silence_incidents(self, numbers: Sequence[int], seconds: float, by: str, why: str) -> list[Row]:
        """A silence each of what its cause raises for its vehicle: number of both, and the end."""
        return self._rows(SQL["silence_incidents"], numbers=list(numbers), seconds=seconds, by=by, why=why)

    def in_force(self) -> list[Silence]:
        return [Silence(**row) for row in self._rows(SQL["in_force"])]

    def _whole(self, what: str, parts: Sequence[str], number: int) -> Row:
        found = self._rows(SQL[what], number=number)
        if not found:
            raise ServiceError(f"there is no {what} {number}; see odograph {what}s list --all")
        return found[0] | {part: self._rows(SQL[part], number=number) for part in parts}

    def _rows(self, statement: str, **params: Any) -> list[Row]:
        return self._connection.execute(statement.encode(), params).fetchall()


@contextmanager
def alert_store(url: str, actor: str | None = None) -> Iterator[AlertStore]:
    """The store, one transaction, of ``actor`` or the system user. Raises ServiceError, ConfigError."""
    who: dict[str, Any] = {"actor": actor or system_user(), "row_factory": dict_row}
    try:
        with session(url, answer_s=ANSWER_S, connect_timeout_s=CONNECT_S, **who) as connection:
            yield AlertStore(connection)
    except psycopg.errors.CheckViolation as error:
        raise ConfigError(f"alerts: {error.diag.message_primary}") from error
    except psycopg.Error as error:
        if cause_of(error) is Cause.AWAY:
            raise ServiceError(
                f"the database cannot be reached: {str(error).strip()}; see odograph status"
            ) from error
        raise ServiceError(f"the database refused: {str(error).strip()}; see odograph doctor") from error
