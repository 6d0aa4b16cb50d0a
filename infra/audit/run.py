"""The audit as the command line asks for it: waits for quiet, asks all witnesses, names the clones."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from infra.audit import archive, tables
from infra.audit import scope as scopes
from infra.audit.scope import Scope
from infra.audit.sources import TELEMETRY, sources
from infra.audit.take import Account, take
from infra.clones import Clone, cloned_vehicles
from infra.contract.errors import OdographError, ServiceError
from infra.contract.settings import Endpoints, Settings
from infra.contract.verdict import clock_limits
from infra.demo.audit import settled
from infra.ledger import Ledger
from infra.stack import lag
from infra.stack.broker_figures import broker_figures
from infra.stack.log_ends import LogEnds

CLOSERS: Final = ("windows", "archive")
"""Queries that must have taken in everything before a moment is closed."""
POLL_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit found. ``ledger``: the sums over everything since the start, for a whole audit."""

    account: Account
    ledger: Ledger | None
    clones: Sequence[Clone]
    open_ms: int = 0
    """So much at the end of the time asked for is not closed: the queries are behind."""

    @property
    def residual(self) -> int:
        """The larger of both balances' residuals: frames and records unaccounted for."""
        if self.ledger is None:
            return self.account.residual
        missing = max(0, self.ledger.missing_on_the_way)
        explained = min(missing, self.account.broker_dropped or 0)
        return max(self.account.residual, self.ledger.residual - explained)


def audit(settings: Settings, addresses: Endpoints, wanted: Scope, wait_s: float) -> Audit:
    """Ask for the scope until nothing is left open, or until ``wait_s`` is over; raises ServiceError."""
    where = replace(sources(settings, addresses), broker_dropped=_dropped(addresses))
    with tables.opened(where.db_url) as database:
        horizons = (database.horizon_ms(), archive.horizon_ms(where.home))
    known = [horizon for horizon in horizons if horizon is not None]
    wanted = wanted.kept(max(known, default=None), time.time_ns() // 1_000_000)
    with LogEnds(addresses.kafka_bootstrap, settings.kafka.prefix) as ends:
        if wanted.whole:
            ledger = settled(where.home, addresses, ends, wait_s)
            found = take(replace(where, log_ends=ends.ends(TELEMETRY)), wanted)
            return Audit(found, ledger, cloned_vehicles(settings.paths.home))
    end = time.monotonic() + wait_s
    while True:
        moment_ms = closed_ms(settings, addresses)
        over = time.monotonic() > end
        if moment_ms is None and over:
            raise ServiceError(
                f"the queries {' and '.join(CLOSERS)} have not caught up with the log yet; "
                "nothing can be balanced before they have, see: odograph status"
            )
        if moment_ms is not None:
            limit_ms = clock_limits(settings).lateness_ms
            found = take(where, wanted.closed(moment_ms, limit_ms, where.window_ms))
            open_ms = max(0, wanted.until_ms - limit_ms - where.window_ms - found.scope.until_ms)
            if (found.residual == 0 and open_ms == 0) or over:
                return Audit(found, None, cloned_vehicles(settings.paths.home), open_ms)
        time.sleep(POLL_S)


def closed_ms(settings: Settings, addresses: Endpoints) -> int | None:
    """Up to when archive and windows have taken in everything: now, where nothing waits for them.

    Else when both last had; None where one of them never had within a day.
    """
    now_ms = time.time_ns() // 1_000_000
    behind = lag.records_behind(settings, addresses)
    if all(behind.get(query) == 0 for query in CLOSERS):  # one that never finished a batch is not in it
        return now_ms
    with tables.opened(addresses.db_ingest_url) as database:
        return database.caught_up_ms(CLOSERS)


def _dropped(addresses: Endpoints) -> int | None:
    try:
        return broker_figures(addresses.mqtt_host, addresses.mqtt_port).dropped
    except OdographError:
        return None  # an outer broker need not tell; what is missing stays unexplained then


def wanted(settings: Settings, since: str | None, day: str | None) -> Scope:
    """The scope that the options ask for; raises ConfigError."""
    return scopes.wanted(since, day, settings.tz, time.time_ns() // 1_000_000)
