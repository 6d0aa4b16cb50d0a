"""From what was seen of a load to its part of the card and to its limits. Pure."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from bridge.uplink import service
from edge_simulator.scenario import SAMPLES
from infra.settings.settings import Settings
from load_tests.bench import bottleneck
from load_tests.bench.bottleneck import Limit
from load_tests.bench.card import Carried
from load_tests.bench.load import ARCHIVE, Seen, trends
from load_tests.bench.ticks import lags, memories, rate_of
from load_tests.probes import Percentiles

Batches = Sequence[Mapping[str, Any]]


def carried(seen: Seen, batches: Batches, view_ms: list[float], crash_ms: list[float]) -> Carried:
    """The figures of one load."""
    seconds, frames = seen.seconds, max(1.0, rate_of(seen.ticks) * seen.seconds)
    by_query = {query: lags(seen.ticks, query) for query in seen.ticks[-1].committed}
    fps = rate_of(seen.ticks)
    return Carried(
        frames_per_s=round(fps, 1),
        samples_per_s=round(SAMPLES * fps, 1),
        vehicles=seen.vehicles,
        seconds=round(seconds, 1),
        verdict=seen.verdict,
        offered_per_s=round(seen.offered_fps, 1),
        overrun_share=round(seen.overrun_share, 5),
        lag_median={query: median(values) for query, values in by_query.items()},
        lag_most={query: max(values) for query, values in by_query.items()},
        lag_growth_per_s={query: round(slope, 2) for query, slope in trends(seen.ticks).items()},
        broker_queue_most=max(tick.queued for tick in seen.ticks),
        broker_dropped=seen.ticks[-1].dropped - seen.ticks[0].dropped,
        event_to_view=Percentiles.of(view_ms),
        crash_to_alert=Percentiles.of(crash_ms),
        cores={part: round(used / seconds, 3) for part, used in seen.cpu_s.items()},
        us_a_frame={part: round(1e6 * used / frames, 1) for part, used in seen.cpu_s.items()},
        other_cores=round(max(0.0, seen.machine.busy_s - sum(seen.cpu_s.values())) / seconds, 2),
        idle_cores=round(seen.machine.idle_s / seconds, 2),
        memory=memories(seen.ticks),
        batches=[{name: _plain(value) for name, value in batch.items()} for batch in batches],
    )


def _plain(value: Any) -> Any:
    """The database's numbers as JSON's."""
    return value if isinstance(value, (str, int, type(None))) else round(float(value), 3)


def limits(seen: Seen, batches: Batches, settings: Settings) -> list[Limit]:
    """Each stage's use of its limit, the nearest to it first."""
    seconds = seen.seconds
    cores = {part: used / seconds for part, used in seen.cpu_s.items()}
    window, jobs = service.window(settings.bridge.max_in_flight), settings.jobs
    found = [
        bottleneck.of_machine(cores, seen.machine.busy_s / seconds, os.cpu_count() or 1),
        bottleneck.of_bridge([t.in_flight for t in seen.ticks if t.in_flight is not None], window),
        bottleneck.of_broker([tick.queued for tick in seen.ticks], seen.rate, window),
        bottleneck.of_database(seen.db_active_s, cores.get("postgres", 0.0), seconds),
        bottleneck.of_simulator(cores.get("simulate", 0.0), seen.overrun_share),
    ]
    for batch in batches:
        trigger_s = jobs.archive_trigger_s if batch["query"] == ARCHIVE else jobs.trigger_s
        found.append(bottleneck.of_query(batch, seconds, trigger_s))
    return sorted(found, key=lambda limit: -limit.share)
