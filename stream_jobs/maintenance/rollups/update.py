"""Rolls windows up: each pass is one transaction, and a pass that is done again changes nothing."""

from __future__ import annotations

from typing import Final

from stream_jobs.app.database import Connection, Database, execute, fetch
from stream_jobs.maintenance.rollups import statements as sql
from stream_jobs.maintenance.rollups.fleet import roll_up_fleet

LINES: Final = 200
"""Lines of the queue in one transaction: some minutes of a batch each."""
PASSES: Final = 20
"""Transactions in one call, at most: then the task lets its thread see whether it is to stop."""


class RollUps:
    """Makes the minutes, hours and days anew whose windows changed; days are cut in the zone ``tz``."""

    def __init__(self, database: Database, tz: str) -> None:
        self._database = database
        self._tz = tz
        self._zone_stands = False

    def __call__(self) -> int:
        """Roll up what changed since the last call; the number of minutes made anew."""
        if not self._zone_stands:
            self._database.run(lambda c: set_zone(c, self._tz))
            self._zone_stands = True
        made = 0
        for _ in range(PASSES):
            step = self._database.run(lambda c: roll_up(c, self._tz))
            made += step
            if not step:
                break
        return made


def set_zone(connection: Connection, tz: str) -> None:
    """Where hours and days were cut in another zone, they are made anew."""
    if fetch(connection, sql.ZONE) != [(tz,)]:
        for statement in sql.CHANGE_ZONE:
            execute(connection, statement, {"tz": tz} if "%(tz)s" in statement else None)


def roll_up(connection: Connection, tz: str) -> int:
    """One pass over some lines of the queue; the number of minutes made anew."""
    execute(connection, sql.ONE_AT_A_TIME)
    execute(connection, sql.CREATE_DUE)
    due = execute(connection, sql.TAKE, {"lines": LINES})
    below = ""
    for level in sql.LEVELS:
        if below:
            execute(connection, sql.LIFT, {"unit": level.unit, "below": below, "tz": tz})
        for since, until in fetch(connection, sql.SPAN, {"unit": level.unit}):
            execute(connection, sql.roll_up(level), {"since": since, "until": until, "tz": tz})
            if level.lowest:
                execute(connection, roll_up_fleet(), {"since": since, "until": until})
        below = level.unit
    return due
