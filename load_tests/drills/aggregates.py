"""The windows in the database against the oracle's, over the records as the log holds them."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from psycopg.rows import dict_row

from infra.clients.db import session
from infra.clients.kafka import LogEnds
from infra.contract.verdict import clock_limits
from infra.stack.supervisor import odograph
from load_tests.drills.evidence import Log
from load_tests.drills.site import Site, until
from load_tests.drills.verdict import Promise
from load_tests.oracle import Limits, expect
from stream_jobs.audit.collect import current_ledger
from stream_jobs.audit.ledger import Ledger

JOBS_READY_S: Final = 240.0
BALANCE_S: Final = 300.0
STUCK_S: Final = 180.0
"""A ledger that comes no closer to balance for so long does not do so any more."""
POLL_S: Final = 1.0
SAMPLE: Final = 60
"""Vehicles whose windows are compared: the oracle takes a millisecond for each frame."""
WRITER: Final = ("batch_id", "revision", "restated_at")
"""Columns that say who wrote a row and when."""
SELECT: Final = "SELECT * FROM odograph.vehicle_window WHERE vehicle_id = ANY(%s)"
SELECT_ROADS: Final = "SELECT * FROM odograph.road_cell_window"


@dataclass(frozen=True, slots=True)
class Windows:
    """Rows of vehicles' windows: as the oracle has them, and how many of them the database has otherwise."""

    expected: int
    missing: int
    wrong: int
    surplus: int
    roads: int | None = None
    """Rows of road cells among them; None where they were not compared."""

    def promise(self) -> Promise:
        """All rows are equal."""
        bad = self.missing + self.wrong + self.surplus
        text = f"{self.expected} windows: {self.missing} missing, {self.wrong} wrong, {self.surplus} too many"
        return Promise("windows equal the oracle's", bad == 0 and self.expected > 0, text)


def start_jobs(site: Site, mutant: str | None = None) -> None:
    """Start the stream application and the store of dead letters; returns when they are ready."""
    start_stream(site, mutant)
    site.start("events", odograph("jobs", "events"))
    for name in ("jobs", "events"):
        site.wait_ready(name, JOBS_READY_S)


def start_stream(site: Site, mutant: str | None = None) -> None:
    """Start the stream application, with a defect where one is named; it is not ready yet.

    And beside it, where it does not run, the periodic tasks.
    """
    if not site.pid("maintenance"):
        site.start("maintenance", odograph("maintenance"))
    patched = (sys.executable, "-m", "load_tests.drills.mutant_jobs", str(mutant))
    site.start("jobs", patched if mutant else odograph("jobs", "stream"))


def balanced(site: Site, stuck_s: float = STUCK_S) -> Ledger:
    """The ledger once every frame is accounted for, and all late and put off ones are in windows.

    Or when it has not come closer to that for ``stuck_s``: after many kills there is a backlog, and how long
    that takes is not what a drill is about.
    """
    end, least = time.monotonic() + stuck_s, None
    with LogEnds(site.endpoints.kafka_bootstrap, site.settings.kafka.prefix) as ends:
        while True:
            ledger = current_ledger(site.home, site.endpoints, ends)
            left = abs(ledger.residual) + ledger.late_open + ledger.deferred_open
            if not left or time.monotonic() > end:
                return ledger
            if least is None or left < least:
                end, least = time.monotonic() + stuck_s, left
            time.sleep(POLL_S)


def digested(site: Site, deadline_s: float = BALANCE_S) -> None:
    """Wait until the jobs have taken in all that lies in the log, and all late frames are repaired."""

    def done() -> bool:
        with LogEnds(site.endpoints.kafka_bootstrap, site.settings.kafka.prefix) as ends:
            ledger = current_ledger(site.home, site.endpoints, ends)
        return (ledger.missing_in_archive, ledger.missing_in_windows, ledger.late_open) == (0, 0, 0)

    until(done, deadline_s, "the jobs have taken in the log")


def accounted(ledger: Ledger) -> Promise:
    """What the ledger promises."""
    text = f"residual {ledger.residual}, late and not repaired {ledger.late_open}"
    return Promise("every frame is accounted for", (ledger.residual, ledger.late_open) == (0, 0), text)


def windows(
    site: Site,
    log: Log,
    vehicles: list[str],
    ends: Mapping[int, int] | None = None,
    *,
    roads: bool = False,
) -> Windows:
    """Of the first ``SAMPLE`` of these vehicles, which are in ``log``.

    ``roads``: road cells too, where no vehicle is left out and no other was ever there. ``ends``: as they
    must be after the records before these offsets, by partition; None: after all.
    """
    everyone = set(vehicles)
    chosen = set(sorted(everyone)[:SAMPLE])
    expected = expect(log.records(lambda vehicle: vehicle in chosen, ends), _limits(site))
    with session(site.endpoints.db_owner_url, row_factory=dict_row) as connection:
        rows: list[dict[str, Any]] = connection.execute(SELECT, (list(chosen),)).fetchall()
        cell_rows: list[dict[str, Any]] = connection.execute(SELECT_ROADS).fetchall()
    found = {(row.pop("vehicle_id"), row.pop("window_start")): row for row in rows}
    of_vehicles = _differences(expected.vehicle, found)
    if not roads or chosen != everyone:
        return of_vehicles
    cells = {(row.pop("cell"), row.pop("heading_sector"), row.pop("window_start")): row for row in cell_rows}
    of_roads = _differences(expected.road, cells)
    return Windows(
        expected=of_vehicles.expected + of_roads.expected,
        missing=of_vehicles.missing + of_roads.missing,
        wrong=of_vehicles.wrong + of_roads.wrong,
        surplus=of_vehicles.surplus + of_roads.surplus,
        roads=of_roads.expected,
    )


def _differences(expected: Mapping[Any, dict[str, Any]], found: Mapping[Any, dict[str, Any]]) -> Windows:
    plain = {key: {k: v for k, v in row.items() if k not in WRITER} for key, row in found.items()}
    return Windows(
        expected=len(expected),
        missing=len(expected.keys() - plain.keys()),
        wrong=sum(plain[key] != row for key, row in expected.items() if key in plain),
        surplus=len(plain.keys() - expected.keys()),
    )


def _limits(site: Site) -> Limits:
    clock, jobs = clock_limits(site.settings), site.settings.jobs
    return Limits(
        clock.floor_ms, clock.ahead_ms, clock.lateness_ms, jobs.window_s * 1000, jobs.road_window_s * 1000
    )
