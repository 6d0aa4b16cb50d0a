"""The audit as the command line asks for it: what is closed is balanced, what is younger is in flight."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from infra.contract.errors import OdographError
from infra.contract.verdict import clock_limits
from infra.settings.settings import Endpoints, Settings
from infra.stack.broker_figures import broker_figures
from infra.stack.log_ends import LogEnds
from stream_jobs.audit import archive, horizon, sums, tables
from stream_jobs.audit import scope as scopes
from stream_jobs.audit.clones import Clone, cloned_vehicles
from stream_jobs.audit.horizon import ARCHIVE, TELEMETRY, Horizon
from stream_jobs.audit.ledger import Ledger
from stream_jobs.audit.scope import Scope
from stream_jobs.audit.sources import Sources, sources
from stream_jobs.audit.take import Account, take

POLL_S: Final = 1.0
PATIENCE_S: Final = 10.0
"""A frame between broker and log is in no witness's hands: what lacks is asked for again so long."""


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit found."""

    account: Account
    ledger: Ledger | None
    """The sums over everything since the start, where nothing is in flight."""
    clones: Sequence[Clone]
    in_flight: int = 0
    """Records of what was asked for that are younger than the horizon: nothing can be said of them yet."""
    horizon: Horizon | None = None

    @property
    def residual(self) -> int:
        """The larger of both balances' residuals: frames and records unaccounted for."""
        if self.ledger is None:
            return self.account.residual
        missing = max(0, self.ledger.missing_on_the_way)
        account = self.account
        explained = min(missing, (account.broker_dropped or 0) + account.lost_with_session)
        return max(self.account.residual, self.ledger.residual - explained)


def audit(settings: Settings, addresses: Endpoints, wanted: Scope, wait_s: float) -> Audit:
    """Balance the part of a scope that is closed; waits at most ``wait_s`` until nothing of it is in flight.

    Raises ServiceError.
    """
    end_s = time.monotonic() + wait_s
    where = replace(sources(settings, addresses), broker_dropped=_dropped(addresses))
    with tables.opened(where.db_url) as database:
        horizons = (database.horizon_ms(), archive.horizon_ms(where.home))
    known = [found for found in horizons if found is not None]
    wanted = wanted.kept(max(known, default=None), time.time_ns() // 1_000_000)
    if wanted.whole:
        quiet = _quiet(settings, addresses, where, end_s)
        if quiet is not None:
            return quiet
        wanted = replace(wanted, until_ms=time.time_ns() // 1_000_000)
    again_until_s = max(end_s, time.monotonic() + PATIENCE_S)
    while True:
        found = _closed(settings, addresses, where, wanted)
        settled = found.residual == 0 and (found.in_flight == 0 or time.monotonic() > end_s)
        if settled or time.monotonic() > again_until_s:
            return found
        time.sleep(POLL_S)


def _quiet(settings: Settings, addresses: Endpoints, where: Sources, end_s: float) -> Audit | None:
    """The audit of everything, where two readings agree and nothing waits; None where data flows."""
    last: Ledger | None = None
    with LogEnds(addresses.kafka_bootstrap, settings.kafka.prefix) as ends:
        while True:
            seen = horizon.look(settings, addresses)
            now = sums.take(where.home, addresses, ends) if seen.quiet else None
            over = time.monotonic() > end_s
            stands = now is not None and now == last
            if now is not None and stands and (now.residual == 0 or over):
                found = take(replace(where, taken=ends.ends(TELEMETRY)), scopes.WHOLE)
                return Audit(found, now, cloned_vehicles(settings.paths.home), horizon=seen)
            if over and (now is None or (last is not None and not stands)):
                return None
            last = now
            time.sleep(POLL_S)


def _closed(settings: Settings, addresses: Endpoints, where: Sources, wanted: Scope) -> Audit:
    """What of the scope is closed, and how much of it is not."""
    seen = horizon.look(settings, addresses)
    taken = seen.taken[ARCHIVE]
    where = replace(where, taken=taken, waiting=partial(horizon.in_flight, settings, addresses, seen))
    closed = wanted.closed(seen.moment_ms, clock_limits(settings).lateness_ms, where.window_ms)
    found = take(where, closed, asked_ms=wanted.until_ms)
    in_log = seen.behind(ARCHIVE) if closed.until_ms < wanted.until_ms else 0
    return Audit(found, None, cloned_vehicles(settings.paths.home), found.open_records + in_log, seen)


def _dropped(addresses: Endpoints) -> int | None:
    try:
        return broker_figures(addresses.mqtt).dropped
    except OdographError:
        return None  # an outer broker need not tell; what is missing stays unexplained then


def wanted(settings: Settings, since: str | None, day: str | None) -> Scope:
    """The scope that the options ask for; raises ConfigError."""
    return scopes.wanted(since, day, settings.tz, time.time_ns() // 1_000_000)
