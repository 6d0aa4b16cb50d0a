"""The conservation ledger by hour: the hours that changed are audited, for the dashboard.

An hour is one of first samples, UTC; again while it is not over, and when frames of it come late.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import islice
from typing import Final

from infra.clients.db import sql_of
from infra.contract.verdict import clock_limits
from infra.settings.settings import Endpoints, Settings
from stream_jobs.app.database import Connection, Database, execute, fetch, insert_row
from stream_jobs.archive.manifest import HOUR_MS
from stream_jobs.audit import edge
from stream_jobs.audit.collect import Account, collect
from stream_jobs.audit.ledger import Scope
from stream_jobs.audit.report import findings
from stream_jobs.reprocess.queue import moment

SQL: Final = sql_of(__file__)

SLACK_MS: Final = 600_000  # a record may reach the log so much after its receipt
KEPT: Final = 200  # findings of an hour, at most; its figures are whole


# Columns of odograph.audit_vehicle that are figures of the account.
BY_VEHICLE: Final = ("generated", "counted", "late", "quarantined", "duplicate", "dead", "missing")


@dataclass(slots=True)
class HourlyLedger:
    """Audits what changed since the last call. ``closed_ms``: up to when archive and windows have all."""

    settings: Settings
    addresses: Endpoints
    database: Database
    closed_ms: Callable[[], int | None]
    _looked_ms: int = field(default=0, init=False)  # at the start all late frames of the last hours

    def __call__(self) -> int:
        """The number of hours audited; none while the queries have not caught up."""
        closed_ms = self.closed_ms()
        if closed_ms is None:
            return 0
        settings, lateness_ms = self.settings, clock_limits(self.settings).lateness_ms
        until = closed_ms - lateness_ms
        newest = until // HOUR_MS * HOUR_MS
        oldest = newest - (settings.ledger.hours - 1) * HOUR_MS
        marks = {"since": self._looked_ms - SLACK_MS, "oldest": oldest, "newest": newest, "until": until}
        hours = self.database.run(partial(fetch, statement=SQL["due"], parameters=marks))
        devices = edge.devices(settings.paths.home)
        for (hour,) in hours:
            scope = Scope(hour, hour + HOUR_MS).closed(closed_ms, lateness_ms, settings.jobs.window_s * 1000)
            account = collect(settings, self.addresses, scope, runs=devices)
            self.database.run(partial(put, hour_ms=hour, account=account))
        self._looked_ms = closed_ms
        return len(hours)


def put(connection: Connection, hour_ms: int, account: Account) -> None:
    """An hour's account in the place of what was found before."""
    hour = moment(hour_ms)
    execute(connection, SQL["clear"], {"hour": hour})
    sums = {"vehicles": len(account.vehicles), **asdict(account.total), "residual": account.residual}
    insert_row(
        connection, "audit_hour", {"hour": hour, "closed_until": moment(account.scope.until_ms), **sums}
    )
    for no, finding in enumerate(islice(findings(account), KEPT)):
        insert_row(connection, "audit_finding", {"hour": hour, "no": no, **asdict(finding)})
    for vehicle_id, f in sorted(account.vehicles.items()):
        lost = f.lost_on_link + f.dropped_on_board
        if f.late or f.quarantined or f.duplicate or f.dead or f.missing or lost:
            figures = {name: getattr(f, name) for name in BY_VEHICLE} | {"lost": lost}
            insert_row(connection, "audit_vehicle", {"hour": hour, "vehicle_id": vehicle_id, **figures})
