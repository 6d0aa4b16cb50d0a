"""Trips and harsh events of the core beside what a simulated run says truly happened.

A run is simulated without services, with late, double, disordered and lost frames; its records go through the
stage and the core; trips are matched to the truth by overlap, harsh events by kind and time.
Run: python -m load_tests.journey_truth [--seed 7] [--vehicles 40] [--minutes 60] [--begins 7.25]
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from edge_simulator import day
from edge_simulator.scenario import Scenario, cadence
from edge_simulator.wireless.settings import LinkShares
from infra.contract.verdict import clock_limits
from infra.settings.settings import Settings
from load_tests.archived import features_read
from stream_jobs.frames.batch import RECORD
from stream_jobs.rules.rule_set import RuleSet
from stream_jobs.vehicles.core import Core
from stream_jobs.vehicles.features import VehicleStage
from stream_jobs.vehicles.rows import HarshRow, TripRow

START_MS: Final = 1_763_593_200_000
LINK: Final = LinkShares(late=0.02, late_beyond=0.005, duplicate=0.01, disorder=0.01, lost=0.002)
OVERLAP: Final = 0.5
"""Share of the common time of both that makes a trip the same trip."""
NEAR_MS: Final = 500
Truth = dict[str, Any]


def simulated(settings: Settings, arguments: argparse.Namespace) -> tuple[list[Truth], list[Path]]:
    """Rows of truth and the files of records."""
    scenario = Scenario(
        seed=arguments.seed,
        vehicles=arguments.vehicles,
        cadence=cadence(arguments.vehicles, None, 1000),
        start_ms=START_MS,
        frames_per_vehicle=arguments.minutes * 60,
        profile="steady" if arguments.begins is None else "day",
        begins_at_s=(arguments.begins or 8.0) * 3600,
        link=LINK,
    )
    folder = Path(day.make(scenario, settings, "truth", lambda _: None)["folder"])
    truth = [json.loads(line) for line in (folder / "truth.jsonl").read_text().splitlines()]
    return truth, sorted((folder / "telemetry").rglob("*.parquet"))


def told(settings: Settings, files: Sequence[Path]) -> list[Any]:
    """The last word of the core on each trip and harsh event."""
    stage = VehicleStage(clock_limits(settings), settings.journeys, Path("none"))
    core = Core(settings.jobs, settings.journeys, RuleSet())
    last: dict[tuple[Any, ...], Any] = {}
    features = features_read(stage, _records(files))
    assert features is not None
    for row in core.replay(features, int(features["received_ms"].max()) + 86_400_000):
        if isinstance(row, TripRow):
            last["trip", row.vehicle_id, row.started_ms] = row
        elif isinstance(row, HarshRow):
            last[row.kind, row.vehicle_id, row.began_ms] = row
    return list(last.values())


def _records(files: Sequence[Path]) -> Iterator[pa.RecordBatch]:
    for path in files:
        yield from pq.ParquetFile(path).iter_batches(20_000, columns=list(RECORD))


def matched_trips(truth: Sequence[Truth], rows: Sequence[TripRow]) -> list[tuple[Truth, TripRow]]:
    """Pairs that have more than OVERLAP of their time in common; each trip once."""
    free = list(rows)
    pairs = []
    for told_by in truth:
        best = max(free, key=lambda row: _overlap(told_by, row), default=None)
        if best is not None and _overlap(told_by, best) > OVERLAP:
            free.remove(best)
            pairs.append((told_by, best))
    return pairs


def _overlap(truth: Truth, row: TripRow) -> float:
    if truth["vehicle_id"] != row.vehicle_id:
        return 0.0
    common: float = min(truth["to_ms"], row.ended_ms) - max(truth["from_ms"], row.started_ms)
    whole: float = max(1, max(truth["to_ms"], row.ended_ms) - min(truth["from_ms"], row.started_ms))
    return common / whole


def matched_events(truth: Sequence[Truth], rows: Sequence[HarshRow]) -> int:
    """Events of the truth that were found; each finding counts once."""
    free = list(rows)
    hits = 0
    for event in truth:
        found = next((row for row in free if _same(event, row)), None)
        if found is not None:
            free.remove(found)
            hits += 1
    return hits


def _same(event: Truth, row: HarshRow) -> bool:
    near = row.began_ms <= event["to_ms"] + NEAR_MS and row.ended_ms >= event["from_ms"] - NEAR_MS
    return near and (event["vehicle_id"], event["what"]) == (row.vehicle_id, row.kind)


def main() -> None:
    """Simulate, replay, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--vehicles", type=int, default=40)
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--begins", type=float, help="hour of a day of diaries; none: everybody drives")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        settings = Settings(paths={"home": home})
        truth, files = simulated(settings, arguments)
        rows = told(settings, files)
    trips = [row for row in rows if isinstance(row, TripRow)]
    events = [row for row in rows if isinstance(row, HarshRow)]
    true_trips = [row for row in truth if row["kind"] == "trip"]
    true_events = [row for row in truth if row["kind"] == "harsh"]
    pairs = matched_trips(true_trips, trips)
    away = sorted(abs(row.started_ms - t["from_ms"]) for t, row in pairs if t["whole"])
    figures = {
        "trips": {"true": len(true_trips), "told": len(trips), "same": len(pairs)},
        "begin_off_ms_median": away[len(away) // 2] if away else None,
        "harsh": {
            "true": len(true_events), "told": len(events), "same": matched_events(true_events, events),
        },
    }  # fmt: skip
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
