"""The periodic task ``overload``: begins and ends putting telemetry off (README, "Overload").

The table odograph.overload is what is known of it; bridges and operators are told again until it stands in
the topics ``policy`` and ``alerts``.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from infra.clients.db import sql_of
from infra.contract.messages import FLEET, POLICY_KEY, RULE, Deferral
from infra.settings.sections import Overload as Terms
from stream_jobs.alerts.derive import AlertRow
from stream_jobs.app.database import Connection, Database, execute, fetch
from stream_jobs.vehicles.rows import finding_id, pack

SQL: Final = sql_of(__file__)

FRESH_S: Final = 60.0  # older progress says nothing of now: the query does not run, which is no overload
SEVERITY: Final = "MAJOR"


Lags = Sequence[tuple[int, int]]  # moments, ms since 1970, and how many records waited then; in order of time


def begins(lags: Lags, now_ms: int, terms: Terms) -> bool:
    """Whether more than the limit waits, and more than before throughout the last ``grow_s``."""
    since_ms = now_ms - round(1000 * terms.grow_s)
    before, within = [n for at, n in lags if at <= since_ms], [n for at, n in lags if at > since_ms]
    if not before or not within or within[-1] < terms.lag_records:
        return False
    return within[-1] > before[-1] and min(within) >= before[-1]


def ends(lags: Lags, now_ms: int, began_ms: int, terms: Terms) -> bool:
    """Whether it has lasted ``least_s``, and little waits."""
    if not lags or now_ms - began_ms < 1000 * terms.least_s:
        return False
    return lags[-1][0] > now_ms - 1000 * FRESH_S and lags[-1][1] <= terms.calm_records


@dataclass(slots=True)
class Overload:
    """One pass decides, and tells what the bridges and operators were not told yet."""

    terms: Terms
    database: Database
    policy: Callable[[Sequence[tuple[Any, ...]]], None]
    alerts: Callable[[Sequence[tuple[Any, ...]]], None]
    _told: tuple[int, int | None] | None = None

    def __call__(self) -> bool:
        """Whether telemetry is put off now."""
        last = self.database.run(self._decide)
        began_ms, ended_ms, classes, lag = last or (0, 0, "", 0)
        if self._told != (began_ms, ended_ms):
            chosen = tuple(classes.split(",")) if ended_ms is None else ()
            self.policy([(POLICY_KEY, Deferral(chosen, self.terms.show_every_s).encode())])
            if last is not None:
                self.alerts([(FLEET, pack(self._alert(began_ms, ended_ms, classes, lag)))])
            self._told = began_ms, ended_ms
        return last is not None and ended_ms is None

    def _decide(self, connection: Connection) -> tuple[int, int | None, str, int] | None:
        """The last overload: begin, end where it is over, classes, lag at its begin."""
        terms, now_ms = self.terms, time.time_ns() // 1_000_000
        opened = fetch(connection, SQL["open"])
        lags = fetch(connection, SQL["lags"], {"since_s": FRESH_S + 2 * terms.grow_s})
        if opened and (ends(lags, now_ms, opened[0][0], terms) or opened[0][1] != terms.classes):
            execute(connection, SQL["end"], {"at_ms": now_ms})
        elif not opened and terms.classes and begins(lags, now_ms, terms):
            execute(connection, SQL["begin"], {"at_ms": now_ms, "classes": terms.classes, "lag": lags[-1][1]})
        return next(iter(fetch(connection, SQL["last"])), None)

    def _alert(self, began_ms: int, ended_ms: int | None, classes: str, lag: int) -> AlertRow:
        over, at_ms = ended_ms is not None, began_ms if ended_ms is None else ended_ms
        what = f"telemetry of {classes.replace(',', ', ')} goes to the archive only"
        return AlertRow(
            alert_id=finding_id(FLEET, RULE, 1, began_ms, ended=over), vehicle_id=FLEET, boot_id=0, seq=0,
            rule=RULE, rule_version=1, severity=SEVERITY, lat_deg=None, lon_deg=None,
            event_ms=at_ms, received_ms=at_ms, since_ms=began_ms, ended=over,
            value=float(lag), limit=float(self.terms.lag_records),
            message=f"Overload: {f'{what} no longer' if over else what}; {lag:,} records waited at its begin",
        )  # fmt: skip


def unless_overloaded(database: Database, work: Callable[[], int]) -> Callable[[], int]:
    """``work`` that can wait: it is not done while telemetry is put off."""
    return lambda: 0 if database.run(lambda connection: fetch(connection, SQL["open"])) else work()
