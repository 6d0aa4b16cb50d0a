"""Some minutes of frames that went through the live pipeline and are over: what replays are made of."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from infra.contract.verdict import clock_limits
from load_tests.drills.aggregates import BALANCE_S, digested, start_jobs
from load_tests.drills.evidence import sent
from load_tests.drills.flow import Load, finish
from load_tests.drills.site import Site, until
from load_tests.drills.spark_faults import DIRT
from stream_jobs.replay import databases
from stream_jobs.replay.records import ARCHIVED_MS

RUN: Final = "live"
BEGIN_S: Final = 120.0
MINUTE_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class Recorded:
    """The day of the frames (UTC), when they began, and whose they are."""

    day: str
    since: str
    vehicles: tuple[str, ...]


def recorded(site: Site, load: Load) -> Recorded:
    """Frames through the live pipeline until all is archived, rolled up and over. The live jobs rest then."""
    site.bridge()
    start_jobs(site)
    site.simulate(RUN, *load.arguments(*DIRT))
    finish(site, RUN, load.duration_s + BEGIN_S)
    digested(site)
    until(lambda: _rolled_up(site), BALANCE_S, "the live windows are rolled up")
    site.stop("jobs")
    told = site.run_file(RUN)
    over_ms = told["ended_ms"] + MINUTE_MS + clock_limits(site.settings).lateness_ms + ARCHIVED_MS
    until(lambda: time.time() * 1000 > over_ms, BALANCE_S, "the minutes of the load are over")
    began = time.gmtime(told["started_ms"] / 1000)
    vehicles = sorted({vehicle for vehicle, _, _ in sent(site.home, RUN).frames})
    return Recorded(
        time.strftime("%Y-%m-%d", began), time.strftime("%Y-%m-%dT%H:%M:%S", began), tuple(vehicles)
    )


def _rolled_up(site: Site) -> bool:
    return not any("roll up" in left for left in databases.open_work(site.endpoints.db_owner_url))
