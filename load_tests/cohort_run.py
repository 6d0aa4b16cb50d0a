"""A simulated fleet against its like: frames through the transforms of the stream, then the cohort's judge.

The frames of a run without a bad link go through the batch layer's transform (the code that the stream has,
here without Spark); minutes are rolled up by the task's own expressions (here by DuckDB, the same SQL); then
come the shipped metrics. Prints findings and their delay by fault, and what sound vehicles raised.

Run: python -m load_tests.cohort_run --seed 3 --vehicles 60 --minutes 60 --fault overheating=3 [--ambient 30]
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa

from edge_simulator.faults import Wanted
from edge_simulator.scenario import Cadence, Scenario
from edge_simulator.vehicle.vehicles import MODELS
from edge_simulator.world import World
from infra.contract.verdict import OK, clock_limits
from infra.settings.sections import Cohort as Terms
from infra.settings.settings import load
from load_tests.archived import archived_windows
from stream_jobs.maintenance.rollups import COLUMNS
from stream_jobs.rules.cohort.judge import Bucket, Judged, judge, load_metrics
from stream_jobs.rules.cohort.update import bucket_of, rolled, values

START_MS: Final = 1_790_000_100_000
FRAME_MS: Final = 5000
FRAME_SAMPLES: Final = 10


@dataclass(frozen=True, slots=True)
class Run:
    """What a run gave: ``minutes`` are rows of odograph.vehicle_minute, ``models`` by vehicle."""

    minutes: pa.Table
    models: dict[str, str]
    truth: list[dict[str, Any]]

    @property
    def faults(self) -> dict[str, dict[str, Any]]:
        """The fault of each vehicle that has one."""
        return {row["vehicle_id"]: row for row in self.truth if row["kind"] == "fault"}


def simulate(
    seed: int, vehicles: int, minutes: int, ambient_c: float, faults: Sequence[Wanted], work: Path
) -> Run:
    """A run, and its minutes by way of windows."""
    world = World(Scenario(
        seed=seed, vehicles=vehicles, cadence=Cadence(FRAME_MS // FRAME_SAMPLES, FRAME_SAMPLES),
        start_ms=START_MS, ambient_c=ambient_c, frames_per_vehicle=60_000 * minutes // FRAME_MS,
        faults=tuple(faults), longest_step_ms=500,
    ))  # fmt: skip
    truth: list[dict[str, Any]] = []
    payloads: list[bytes] = []
    for slot in world.slots():
        truth += slot.truth
        payloads += [m.payload for m in slot.messages if m.channel == "telemetry"]
    names = [MODELS[k].name for k in world.specs.model]
    return Run(_minutes(payloads, work), dict(zip(world.vehicle_ids, names, strict=True)), truth)


def _minutes(payloads: Sequence[bytes], work: Path) -> pa.Table:
    n = len(payloads)
    numbers = {
        "partition": np.zeros(n, np.int32),
        "log_offset": np.arange(n),
        "received_ms": np.zeros(n, np.int64),
    }
    texts = {"value": pa.array(payloads, pa.binary()), "topic": ["telemetry"] * n, "verdict": [OK] * n}
    settings = load(paths={"home": str(work)})
    records, limits = pa.table(numbers | texts), clock_limits(settings)
    windows = archived_windows(records, settings.jobs, limits)[0]  # noqa: F841  read below
    rolls = ", ".join(f"{c.over_windows} AS {c.name}" for c in COLUMNS)
    return (
        duckdb.connect()
        .sql(
            f"SELECT vehicle_id, date_trunc('minute', window_start) AS bucket, {rolls} "
            "FROM windows GROUP BY ALL ORDER BY ALL"
        )
        .to_arrow_table()
    )


def buckets_of(run: Run, terms: Terms) -> list[Bucket]:
    """The buckets that the task would read."""
    minutes = run.minutes  # noqa: F841  read by the query below
    rows = (
        duckdb.connect()
        .sql(
            f"SELECT epoch_ms(start), vehicle_id, engine_load_mean_pct, ambient_mean_c, "
            f"{values(load_metrics(terms.metrics))} FROM (SELECT vehicle_id, "
            f"time_bucket(INTERVAL {terms.bucket_min} MINUTE, bucket) AS start, {rolled()} "
            "FROM minutes GROUP BY ALL) r ORDER BY 1, 2"
        )
        .fetchall()
    )
    found: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for at_ms, vehicle, *rest in rows:
        found[at_ms].append((at_ms, vehicle, run.models[vehicle], *rest))
    return [bucket_of(at_ms, own, terms) for at_ms, own in found.items()]


def judged(run: Run, terms: Terms) -> Judged:
    """All of the run, as the task judges it."""
    return judge(buckets_of(run, terms), 0, {}, load_metrics(terms.metrics), terms)


def report(run: Run, found: Judged) -> dict[str, Any]:
    """Findings by fault with their delay after the onset, s; and those of sound vehicles, which are wrong."""
    first: dict[tuple[str, str], int] = {}
    for news in found.news:
        if news.residual is not None:
            first.setdefault((news.vehicle_id, news.metric.metric), news.event_ms)
    by_fault: dict[str, list[Any]] = defaultdict(list)
    for vehicle, fault in run.faults.items():
        delays = {m: (at - fault["from_ms"]) // 1000 for (v, m), at in first.items() if v == vehicle}
        by_fault[fault["fault"]].append({"model": run.models[vehicle], "found_after_s": delays})
    wrong = [[run.models[v], m] for v, m in first if v not in run.faults]
    return {"vehicles": len(run.models), "stored": len(found.kept), "by_fault": by_fault, "sound": wrong}


def main() -> None:
    """Simulate, judge, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    arguments = parser.parse_args()
    run = of_options(arguments)
    print(json.dumps(report(run, judged(run, Terms())), indent=1))


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of a run."""
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--vehicles", type=int, default=60)
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--ambient", type=float, default=16.0, help="degC")
    parser.add_argument("--fault", action="append", default=[], help="as overheating=3: so many vehicles")


def of_options(arguments: argparse.Namespace) -> Run:
    """The run that the options name."""
    wanted = [name.partition("=") for name in arguments.fault]
    faults = [Wanted(name, count=int(count or 1)) for name, _, count in wanted]
    with tempfile.TemporaryDirectory() as work:
        return simulate(
            arguments.seed, arguments.vehicles, arguments.minutes, arguments.ambient, faults, Path(work)
        )


if __name__ == "__main__":
    main()
