"""F7 and F8: the stream application is killed, at any moment and between its two commits."""

from __future__ import annotations

import random
import statistics
import time
from dataclasses import dataclass, field
from typing import Any, Final

from load_tests.bench.parts import cpu_s
from load_tests.drills.aggregates import accounted, balanced, start_jobs, start_stream, windows
from load_tests.drills.commits import Gap, caught, digest, replayed
from load_tests.drills.evidence import Log, compare, sent
from load_tests.drills.flow import Load, finish, flows
from load_tests.drills.journeys import trips
from load_tests.drills.site import Site, until
from load_tests.drills.verdict import Promise, Verdict, counts, nothing_lost

BEGIN_S: Final = 120.0
RECOVERY_S: Final = 30.0
"""At most, from the kill to the readiness page."""
READY_S: Final = 240.0
UP_S: Final = (0.2, 10.0)
"""An application that is ready lives for so long."""
STARTING: Final = 0.2
"""Share of kills that hit the application while it starts."""
STARTING_S: Final = (0.5, 8.0)
PER_KILL_S: Final = 120.0
DIRT: Final = ("--late", "0.05", "--duplicate", "0.05", "--disorder", "0.05")
"""What the closing of windows and the dropping of copies are for: all of it within the lateness."""
TRIES: Final = 6


@dataclass(slots=True)
class Kills:
    """What the kills came to."""

    recoveries_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    """CPU time from the start of an application until it was ready: what a recovery needs of any machine."""
    while_starting: int = 0

    @property
    def total(self) -> int:
        """How many there were."""
        return len(self.recoveries_s) + self.while_starting


def f7(site: Site, load: Load, mutant: str | None = None) -> Verdict:
    """kill -9 the Spark application, its whole process group, at random moments while frames flow."""
    log = Log(site.settings, site.endpoints)
    log.begin_here("telemetry")
    site.bridge()
    start_jobs(site, mutant)
    lasting = Load(load.rate, load.times * PER_KILL_S, load.seed)
    site.simulate("f7", *lasting.arguments(*DIRT))
    flows(site, "f7", load.rate, BEGIN_S)
    begun = time.monotonic()
    kills = killed(site, random.Random(load.seed), load.times, mutant)
    while time.monotonic() - begun < load.duration_s:
        time.sleep(0.1)
    site.stop("f7")
    finish(site, "f7", BEGIN_S)
    return judged(site, log, "f7", kills, mutant)


def killed(site: Site, rng: random.Random, times: int, mutant: str | None = None) -> Kills:
    """Kill the stream application so many times; it is ready again at the end."""
    kills = Kills()
    while kills.total < times:
        time.sleep(rng.uniform(*UP_S))
        site.kill_group("jobs")
        fallen_s = time.monotonic()
        start_stream(site, mutant)
        while rng.random() < STARTING and kills.total < times - 1:
            time.sleep(rng.uniform(*STARTING_S))
            site.kill_group("jobs")
            kills.while_starting += 1
            fallen_s = time.monotonic()
            start_stream(site, mutant)
        site.wait_ready("jobs", READY_S)
        kills.recoveries_s.append(round(time.monotonic() - fallen_s, 1))
        kills.cpu_s.append(round(cpu_s(site.home).get("jobs", 0.0), 1))
    return kills


def judged(site: Site, log: Log, run_id: str, kills: Kills, mutant: str | None = None) -> Verdict:
    """What became of a run with kills in it, once everything has settled."""
    ledger = balanced(site)
    written = sent(site.home, run_id)
    found = compare(log, written)
    equal = windows(site, log, [vehicle for vehicle, _, _ in written.frames], roads=True)
    worst_s = max(kills.recoveries_s, default=0.0)
    promises = (
        *nothing_lost(found),
        accounted(ledger),
        equal.promise(),
        trips(site, log),
        Promise(f"ready again within {RECOVERY_S:g} s", worst_s < RECOVERY_S, f"{worst_s:g} s at most"),
    )
    figures: dict[str, Any] = counts(found) | {
        "kills": kills.total,
        "kills_while_starting": kills.while_starting,
        "recovery_s_median": statistics.median(kills.recoveries_s) if kills.recoveries_s else None,
        "recovery_s_max": worst_s,
        "recovery_cpu_s_median": statistics.median(kills.cpu_s) if kills.cpu_s else None,
        "recoveries_s": kills.recoveries_s,
        "road_rows": equal.roads,
    }
    return Verdict("f7", promises, figures, mutant)


def f8(site: Site, load: Load, mutant: str | None = None) -> Verdict:
    """kill -9 when the database has a batch and Spark's own log of commits does not have it yet."""
    log = Log(site.settings, site.endpoints)
    log.begin_here("telemetry")
    site.bridge()
    start_jobs(site, mutant)
    runs: list[str] = []
    changed, gaps, tries = 0, 0, 0
    while gaps < load.times and tries < load.times * TRIES:
        tries += 1
        runs.append(f"f8-{tries}")
        gap = _burst(site, log, load, runs)
        if gap is not None:
            before = digest(site)
            start_stream(site, mutant)
            replayed(site, gap, READY_S)
            changed += digest(site) != before
            gaps += 1
            site.wait_ready("jobs", READY_S)
    ledger = balanced(site)
    equal = windows(site, log, [v for v, _, _ in sent(site.home, *runs).frames], roads=True)
    promises = (
        Promise("killed between the commits", gaps == load.times, f"{gaps} times of {load.times}"),
        Promise("a replayed batch changes no row and no line", changed == 0, f"{changed} did"),
        accounted(ledger),
        equal.promise(),
    )
    return Verdict("f8", promises, {"gaps": gaps, "bursts": tries}, mutant)


def _burst(site: Site, log: Log, load: Load, runs: list[str]) -> Gap | None:
    """Frames gather while the application stands still; it takes them in one batch and is killed in it.

    None where Spark was faster.
    """
    with site.paused_group("jobs"):
        site.simulate(runs[-1], *Load(load.rate, load.duration_s, load.seed + len(runs)).arguments())
        finish(site, runs[-1], load.duration_s + BEGIN_S)
        total = len(sent(site.home, *runs).frames)
        until(lambda: log.appended("telemetry") >= total, BEGIN_S, "the burst is in the log")
    return caught(site, "telemetry", log.appended("telemetry"))
