"""A load on the whole chain at a fixed rate, and what it did: lag, latencies, CPU by part.

Open loop: the simulator keeps its rate whatever the pipeline does. The figures hold only where the lag stays
flat and the ledger's residual is 0; both are printed beside them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psycopg

from infra.contract.settings import Endpoints, Settings
from infra.demo import audit, fleet
from infra.demo.fleet import Fleet
from infra.demo.pipeline import running
from infra.ledger import Ledger
from infra.stack import processes
from infra.stack.log_ends import LogEnds
from load_tests.probes import CrashProbe, Percentiles, ViewProbe

TICK_S = 1.0
SETTLE_S = 180.0
PARTS = (
    "simulate",
    "mosquitto",
    "bridge",
    "downlink",
    "kafka",
    "jobs",
    "instant",
    "events",
    "postgres",
    "dashboard",
)

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Card:
    """What a run showed. ``cores`` is CPU time over wall time by part; lag in records, by second."""

    vehicles: int
    target_fps: float
    achieved_fps: float
    seconds: float
    lag_median: float
    lag_max: float
    lag_slope_per_s: float
    event_to_view: Percentiles
    crash_to_alert: Percentiles
    cores: dict[str, float]
    residual: int

    @property
    def flat(self) -> bool:
        """Whether the lag did not grow by more than 1 % of the rate."""
        return self.lag_slope_per_s <= 0.01 * self.target_fps


def measure(settings: Settings, load: Fleet, warm_up_s: float, duration_s: float, say: Say) -> Card:
    """Start the pipeline, load it, measure for ``duration_s`` after ``warm_up_s``, let it settle."""
    home = settings.paths.home.resolve()
    with (
        running(settings, say) as endpoints,
        LogEnds(endpoints.kafka_bootstrap, settings.kafka.prefix) as ends,
    ):
        load.store_roads(endpoints)
        before = audit.settled(home, endpoints, ends, SETTLE_S)
        child = load.start(home)
        try:
            _wait(warm_up_s, say, "warming up")
            card = _observe(settings, endpoints, ends, home, load, duration_s, say)
        finally:
            fleet.stop(home, child)
        ledger = _settled(home, endpoints, ends, before)
    return card(ledger.residual)


def _observe(
    settings: Settings,
    endpoints: Endpoints,
    ends: LogEnds,
    home: Path,
    load: Fleet,
    duration_s: float,
    say: Say,
) -> Callable[[int], Card]:
    lags: list[float] = []
    cpu_before, begun_s, first = _cpu_s(home), time.monotonic(), ends.appended("telemetry")
    with ViewProbe(endpoints) as view, CrashProbe(settings, endpoints) as crash:
        while time.monotonic() < begun_s + duration_s:
            time.sleep(TICK_S)
            appended = ends.appended("telemetry")
            lags.append(appended - _processed(endpoints))
            say(f"{time.monotonic() - begun_s:4.0f} s  in the log {appended - first:,}  lag {lags[-1]:,.0f}")
        took_s, appended = time.monotonic() - begun_s, ends.appended("telemetry") - first
        cpu_after = _cpu_s(home)
    cores = {p: round((cpu_after[p] - cpu_before[p]) / took_s, 3) for p in cpu_after if p in cpu_before}
    slope = float(np.polyfit(np.arange(len(lags)), lags, 1)[0])

    def card(residual: int) -> Card:
        return Card(
            vehicles=load.vehicles,
            target_fps=load.rate,
            achieved_fps=round(appended / took_s, 1),
            seconds=round(took_s, 1),
            lag_median=float(np.median(lags)),
            lag_max=max(lags),
            lag_slope_per_s=round(slope, 2),
            event_to_view=Percentiles.of(view.values_ms),
            crash_to_alert=Percentiles.of(crash.values_ms),
            cores=cores,
            residual=residual,
        )

    return card


def _processed(endpoints: Endpoints) -> int:
    """Records that the windows query has read in all its batches."""
    sql = "SELECT coalesce(sum(input_rows), 0) FROM serving.query_progress WHERE query = 'windows'"
    with psycopg.connect(endpoints.db_dashboard_url) as connection:
        row = connection.execute(sql).fetchone()
    return int(row[0]) if row else 0


def _settled(home: Path, endpoints: Endpoints, ends: LogEnds, before: Ledger) -> Ledger:
    end = time.monotonic() + SETTLE_S
    while True:
        ledger = audit.take(home, endpoints, ends) - before
        if ledger.residual == 0 or time.monotonic() > end:
            return ledger
        time.sleep(TICK_S)


def _wait(seconds: float, say: Say, what: str) -> None:
    say(f"{what}: {seconds:g} s")
    time.sleep(seconds)


def _cpu_s(home: Path) -> dict[str, float]:
    """CPU time of each part with its children, those that ended included, s."""
    parents = {int(p.parent.name): _stat(p) for p in Path("/proc").glob("[0-9]*/stat")}
    found = {}
    for name in PARTS:
        running_part = processes.find(home / "run", name)
        if running_part is not None:
            found[name] = _tree_s(running_part.pid, parents)
    return found


def _tree_s(pid: int, table: dict[int, tuple[int, float]]) -> float:
    own = table.get(pid, (0, 0.0))[1]
    return own + sum(_tree_s(child, table) for child, (parent, _) in table.items() if parent == pid)


def _stat(path: Path) -> tuple[int, float]:
    try:
        fields = path.read_text().rpartition(")")[2].split()
    except OSError:
        return 0, 0.0  # it has ended meanwhile
    ticks = sum(int(fields[k]) for k in (11, 12, 13, 14))
    return int(fields[1]), ticks / os.sysconf("SC_CLK_TCK")
