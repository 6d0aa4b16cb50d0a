"""The ledger's sources (runs, archive, Kafka, database) asked one after the other and put side by side.

``current_ledger`` gives the sums of everything, ``collect`` the account of each vehicle in a scope.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from psycopg.rows import dict_row

from infra.clients.db import Connection, asked, connected, sql_of
from infra.clients.kafka import LogEnds
from infra.clients.waiting import looks
from infra.contract.seq_ranges import Ranges, minus, size
from infra.contract.topics import LIVE
from infra.contract.verdict import clock_limits
from infra.settings.settings import Endpoints, Settings
from stream_jobs.audit import archive, edge, ledger
from stream_jobs.audit.archive import NOT_CUT, Archive, LogGap, NextOffsets
from stream_jobs.audit.edge import Device, EdgeDevice, ranges_by_device
from stream_jobs.audit.ledger import WHOLE, Figures, Ledger, Scope

SQL: Final = sql_of(__file__)

POLL_S: Final = 1.0
COMPARED_VEHICLES: Final = 20  # vehicles whose windows are compared one by one, where their sums differ
SLACK_MS: Final = 3_600_000

LISTED: Final = (SQL["counted"], SQL["late"], SQL["quarantined"], SQL["dead"])
"""By vehicle the figures that the database has; under the empty name dead letters of nobody."""


def current_ledger(home: Path, endpoints: Endpoints, ends: LogEnds) -> Ledger:
    """The ledger over everything since this home's start; raises ServiceError.

    The figures are read one after the other: while data flows, they differ by what is on its way.
    """
    runs = edge.run_totals(home)
    with archive.opened(home, WHOLE) as store:
        live = [*map(ends.topic, LIVE)]
        archived = store.totals(*live, logs=[*map(ends.generation, live)])
    listed: dict[str, int] = asked(endpoints.db_ingest_url, SQL["ledger"], row_factory=dict_row)[0]
    dead = asked(endpoints.db_ingest_url, SQL["dead_letters"])
    with archive.opened(home, WHOLE) as store:  # what has come meanwhile too
        appended, dead_archived = sum(map(ends.appended, LIVE)), store.dead_archived(dead)
        found = Ledger(**runs, **archived, **listed, appended=appended, dead_archived=dead_archived)
        if found.missing_in_archive or found.missing_in_windows >= 0:
            return found
        own = min(-found.missing_in_windows, store.again_in_all())  # frames, though their numbers were used
    return replace(found, duplicate=found.duplicate - own)


def settled_ledger(home: Path, endpoints: Endpoints, ends: LogEnds, deadline_s: float) -> Ledger:
    """The ledger once the archive holds the log and two readings agree, or as it is read after the deadline.

    A reading that began before the deadline is not the last one, however long it takes.
    """
    last: Ledger | None = None
    for _ in looks(deadline_s, POLL_S):
        now = current_ledger(home, endpoints, ends)
        if now == last and now.missing_in_archive == 0 and now.missing_in_windows == 0:
            break
        last = now
    return now


class SessionLoss(NamedTuple):
    """Whatever the broker held for a session of the bridge in this time may be lost, ms since 1970."""

    since_ms: int
    at_ms: int
    detail: str


class Gap(NamedTuple):
    """Frames of a device that no one has, in ranges of sequence numbers. ``lost_with``: the bridge's session
    that went while they may have been at the broker: when (UTC), and which.
    """

    vehicle_id: str
    boot_id: int
    ranges: Ranges
    lost_with: str | None = None


class WindowGap(NamedTuple):
    """A window that counts other frames than the archive has in time, and the first and last of those."""

    vehicle_id: str
    window_start_ms: int
    archived: int
    counted: int
    boot_id: int | None
    first_seq: int | None
    last_seq: int | None


@dataclass(slots=True)
class Account:
    """The ledger of a scope by vehicle, and what is missing by name.

    ``open_records``: archived records of frames that came after the scope, within what was asked for: not
    closed yet. ``again``: frames in windows under a number that another frame of the device had.
    ``sessions``: those of the bridge that the broker lost within the scope. ``broker_dropped``: what the
    broker says it dropped since its start; None: it does not answer.
    """

    scope: Scope
    vehicles: dict[str, Figures] = field(default_factory=dict)
    total: Figures = field(default_factory=Figures)
    gaps: list[Gap] = field(default_factory=list)
    windows: list[WindowGap] = field(default_factory=list)
    log: list[LogGap] = field(default_factory=list)
    open_records: int = 0
    again: int = 0
    sessions: list[SessionLoss] = field(default_factory=list)
    broker_dropped: int | None = None

    @property
    def lost_with_session(self) -> int:
        """Missing frames that may have been at the broker when a session of the bridge went."""
        return sum(size(gap.ranges) for gap in self.gaps if gap.lost_with)

    @property
    def dropped_by_broker(self) -> int:
        """Missing frames that the broker's own count explains: at most so many are its drops."""
        return min(max(0, self._missing - self.lost_with_session), self.broker_dropped or 0)

    @property
    def _missing(self) -> int:
        return sum(max(0, f.missing - f.not_kept) for f in self.vehicles.values())

    @property
    def residual(self) -> int:
        """Frames and records unaccounted for: 0 when all is well."""
        in_log = sum(size(g.ranges) + g.doubles for g in self.log)
        otherwise = sum(f.residual for f in self.vehicles.values()) - self._missing
        return otherwise + max(0, self._missing - self.lost_with_session - self.dropped_by_broker) + in_log


def collect(
    settings: Settings,
    addresses: Endpoints,
    scope: Scope,
    *,
    runs: Mapping[Device, EdgeDevice] | None = None,
    asked_ms: int = 0,
    committed: NextOffsets = NOT_CUT,
    waiting: Callable[[], Mapping[Device, Ranges]] = dict,
    broker_dropped: int | None = None,
) -> Account:
    """The account of a scope; ``runs``: their devices, where they were read already. Raises ServiceError.

    ``asked_ms``: the end of what was asked for, where the scope is the closed part of it. ``committed``: up
    to where the archive has all of the live topic. ``waiting``: frames in the log that are in no consumer's
    results yet.
    """
    found, home = Account(scope, broker_dropped=broker_dropped), settings.paths.home
    runs = edge.devices(home) if runs is None else runs
    with archive.opened(home, scope, committed, clock_limits(settings).ahead_ms + SLACK_MS) as store:
        with connected(addresses.db_ingest_url) as database:
            _devices(found, runs, store, database, waiting)
            # Lists have lines of the other region's log too, whose files are there.
            values = scope.bounds() | {"logs": ["", committed[1], *store.logs]}
            with database.cursor(row_factory=dict_row) as cursor:
                for query in LISTED:
                    for row in cursor.execute(query, values):
                        vehicle = found.vehicles.setdefault(row.pop("vehicle_id"), Figures())
                        vehicle.add(Figures(**row))
            # Numbers used again for another moment: what windows counted under them is no double.
            more = [v for v, one in sorted(found.vehicles.items()) if one.counted > one.in_time]
            for vehicle_id, again in store.again(more).items():
                found.again += ledger.enter_again(found.vehicles[vehicle_id], again)
            _sessions(found, store, database)
            _windows(found, store, database, settings.jobs.window_s * 1000)
        found.log = store.log_gaps()
        found.open_records = store.open_records(asked_ms) if asked_ms > scope.until_ms else 0
    for vehicle in found.vehicles.values():
        found.total.add(vehicle)
    return found


def _devices(
    found: Account, runs: Mapping[Device, EdgeDevice], store: Archive, database: Connection,
    waiting: Callable[[], Mapping[Device, Ranges]],
) -> None:  # fmt: skip
    """Every device's frames, and which are missing."""
    counts = store.devices()
    lacking = {d: ledger.absent(counts.get(d), runs.get(d), found.scope) for d in counts.keys() | runs.keys()}
    ranges = {d: [*a.between, *a.behind] for d, a in lacking.items() if a.between or a.behind}
    elsewhere = store.elsewhere(ranges)
    left = {d for d, whole in ranges.items() if minus(whole, elsewhere.get(d, []))}
    vehicles = sorted({vehicle_id for vehicle_id, _ in left})
    dead = ranges_by_device(database.execute(SQL["dead_frames"], (vehicles,)).fetchall()) if left else {}
    in_log = waiting() if left else {}
    for device in sorted(counts.keys() | left):
        known_places = (places.get(device, []) for places in (elsewhere, dead, in_log))
        one, missing = ledger.of_device(counts.get(device), runs.get(device), lacking[device], *known_places)
        found.vehicles.setdefault(device[0], Figures()).add(one)
        if missing:
            found.gaps.append(Gap(*device, missing))


def _sessions(found: Account, store: Archive, database: Connection) -> None:
    """The gaps' ranges, those apart in the time of whose frames the broker lost a session of the bridge."""
    scope, gaps = found.scope, found.gaps
    losses = [SessionLoss(*row) for row in database.execute(SQL["session_losses"]).fetchall()]
    found.sessions = [x for x in losses if x.at_ms >= scope.since_ms and x.since_ms < scope.until_ms]
    if not losses or not gaps:
        return
    spans = store.around({(g.vehicle_id, g.boot_id): g.ranges for g in gaps})
    found.gaps = []
    for gap in gaps:
        parts: defaultdict[str | None, Ranges] = defaultdict(list)
        for first, last in gap.ranges:
            before_ms, after_ms = spans[(gap.vehicle_id, gap.boot_id), first]
            went = next((x for x in losses if x.since_ms <= after_ms and x.at_ms >= before_ms), None)
            at = went and datetime.fromtimestamp(went.at_ms / 1000, UTC)
            parts[f"{at:%Y-%m-%d %H:%M:%S} UTC, {went.detail}" if went else None].append((first, last))
        found.gaps += (gap._replace(ranges=part, lost_with=session) for session, part in parts.items())


def _windows(found: Account, store: Archive, database: Connection, window_ms: int) -> None:
    """Where a vehicle's sums differ, the windows that differ."""
    differ = [v for v, one in sorted(found.vehicles.items()) if one.in_time != one.counted + one.deferred]
    for vehicle_id in differ[:COMPARED_VEHICLES]:
        archived = store.windows(vehicle_id, window_ms)
        values = found.scope.bounds() | {"vehicle": vehicle_id}
        counted: dict[int, int] = dict(database.execute(SQL["windows"], values).fetchall())
        for start in sorted(archived.keys() | counted.keys()):
            frames, *place = archived.get(start, (0, None, None, None))
            if frames != counted.get(start, 0):
                found.windows.append(WindowGap(vehicle_id, start, frames or 0, counted.get(start, 0), *place))
