"""How good arrival times are on a simulated rush hour: destinations out of the truth, asked on the way.

Two runs of the same town, made into files (edge_simulator/day.py): one is history, one is driven. Both go
through the transforms of the stream (matching included) and are summed as the tables are. Of the second, only
what a prediction could know at its moment is used. Prints errors by horizon.

Run: python -m load_tests.eta_grade --history DAY --run DAY [--seed 1] [--every 120]
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import orjson
import pyarrow as pa

from edge_simulator.town.roads import region
from infra.contract.verdict import clock_limits
from infra.settings.sections import Roads
from infra.settings.settings import Settings
from stream_jobs.frames.arrays import Floats, Frames
from stream_jobs.frames.batch import frame_batch
from stream_jobs.roads.network import RoadIndex, RoadLookup, RoadNetwork, network_of, save
from stream_jobs.roads.ways import (
    HOURS_A_WEEK,
    EdgeSpeeds,
    Way,
    edges_after,
    hour_of_week,
    nearest,
    quickest,
    with_fallback,
)
from stream_jobs.windows.open_windows import ARCHIVED
from stream_jobs.windows.places import EDGE_BITS, EDGE_OFFSET, road_rows
from stream_jobs.windows.vehicle import STEP_MS_PER_M

LIVE_MS: Final = 300_000
MINUTE_MS: Final = 60_000
HORIZONS_MIN: Final = ((0.5, 2), (2, 5), (5, 10), (10, 20), (20, 60))
LEAST_TRIP_M: Final = 500.0
LATENESS_MS: Final = 30_000
FAR_M: Final = 80.0
"""A vehicle further from every street is not on one."""
LAT_DEG, LON_DEG = 48.137, 11.575
"""Where the simulator's towns lie unless told otherwise."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a run's frames say: sums by edge and minute, and each vehicle's last sample a frame."""

    sums: pa.Table
    places: dict[str, list[tuple[int, float, float, float]]]
    """By vehicle: time ms, latitude, longitude, course."""


def told(folder: Path, lookup: RoadLookup) -> Told:
    """Both out of a run's files."""
    limits, index = clock_limits(Settings()), lookup.index()
    rows, places = [], defaultdict(list)
    files = f"{folder}/telemetry/*/*/*.parquet"
    connection = duckdb.connect()
    found: pa.Table = connection.execute(
        f"SELECT {', '.join(ARCHIVED)} FROM read_parquet('{files}') ORDER BY received_ms"
    ).to_arrow_table()
    for batch in found.to_batches(20_000):
        frames = frame_batch(batch, limits)
        if frames is not None:
            rows.append(_edge_sums(frames, index))
        for vehicle, place in _places(batch.column("value").to_pylist()):
            places[vehicle].append(place)
    partial = pa.concat_tables(rows)  # noqa: F841  read by the query below
    sums = connection.execute(
        "SELECT edge, start_ms, count(DISTINCT vehicle) AS vehicles, sum(m) AS m, sum(s) AS s "
        "FROM partial GROUP BY ALL ORDER BY ALL"
    ).to_arrow_table()
    return Told(sums, places)


def _edge_sums(frames: Frames, index: RoadIndex | None) -> pa.Table:
    """The rows of edges: vehicle, edge (its id), minute, metres, seconds."""
    _, edges = road_rows(frames, MINUTE_MS, index)
    edge_id = (edges["place"] & ((1 << EDGE_BITS) - 1)) - EDGE_OFFSET
    table = pa.table({
        "vehicle": frames.vehicles.take(pa.array(edges["of_frame"])),
        "edge": edge_id, "start_ms": edges["start_ms"],
        "m": edges["speed_over_time_sum"] / STEP_MS_PER_M,
        "s": edges["time_ms_sum"] / 1000,
    })  # fmt: skip
    return table.filter(pa.array(frames.believed[edges["of_frame"]] & (edge_id >= 0)))


def _places(payloads: list[bytes]) -> Iterator[tuple[str, tuple[int, float, float, float]]]:
    """The last sample of each frame, where it has a position and a course."""
    for payload in payloads:
        frame = orjson.loads(payload)
        lat, lon, course = (frame[k][-1] for k in ("lat_deg", "lon_deg", "heading_deg"))
        if None not in (lat, lon, course):
            at = frame["t0_ms"] + (frame["n"] - 1) * frame["dt_ms"]
            yield frame["vehicle_id"], (at, lat, lon, course)


@dataclass(frozen=True, slots=True)
class Graded:
    """One prediction and what came of it, s."""

    horizon_s: float
    predicted_s: float
    naive_s: float
    """By free flow: the same way at the limits."""


class Grader:
    """Asks for arrival times in a run, knowing what was known then."""

    def __init__(self, net: RoadNetwork, history: Told, run: Told, terms: Roads) -> None:
        self._net, self._after, self._run, self._terms = net, edges_after(net), run, terms
        self._usual_kmh = with_fallback(net, usual_kmh(net, history), terms.eta_limit_share)
        self._by_minute: dict[int, list[tuple[int, int, float, float]]] = defaultdict(list)
        for edge, start, vehicles, m, s in zip(*(c.to_pylist() for c in run.sums.columns), strict=True):
            self._by_minute[start].append((edge, vehicles, m, s))

    def trip(self, truth: dict[str, Any], every_ms: int) -> Iterator[Graded]:
        """Predictions on the way of one true trip, from its begin on."""
        goals = nearest(self._net, truth["to_lat"], truth["to_lon"])
        due = truth["from_ms"]
        for at, lat, lon, course in self._run.places.get(truth["vehicle_id"], ()):
            if not due <= at < truth["to_ms"]:
                continue
            due = at + every_ms
            starts = nearest(self._net, lat, lon, course)
            if starts and starts[0].off_m < FAR_M:
                speeds = self._speeds(at)
                way = quickest(self._net, self._after, starts[0], goals, speeds.time_s)
                if way is not None:
                    yield Graded((truth["to_ms"] - at) / 1000, way.time_s, self._at_limit(way))

    def _speeds(self, at_ms: int) -> EdgeSpeeds:
        """Speeds as known at a moment: minutes are known once they are closed."""
        last = (at_ms - LATENESS_MS) // MINUTE_MS * MINUTE_MS
        sums: dict[int, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
        for start in range(last - LIVE_MS, last, MINUTE_MS):
            for edge, vehicles, m, s in self._by_minute[start]:
                for k, value in enumerate((vehicles, m, s)):
                    sums[edge][k] += value
        seen = {edge: (3.6 * m / s, int(n)) for edge, (n, m, s) in sums.items() if s > 0}
        age_s = (at_ms - last + LIVE_MS / 2) / 1000
        now = datetime.fromtimestamp(at_ms / 1000, UTC)
        return EdgeSpeeds(self._net, now, ZoneInfo("UTC"), self._usual_kmh, seen, age_s, self._terms)

    def _at_limit(self, way: Way) -> float:
        net, edges = self._net, list(way.edges)
        whole_s = 3.6 * (net.length_m[edges] / net.limit_kmh[edges]).sum()
        return float(whole_s * way.length_m / net.length_m[edges].sum())


def usual_kmh(net: RoadNetwork, history: Told) -> Floats:
    """Space-mean speed by hour of the week, [HOURS_A_WEEK, n_edges], nan where nobody was."""
    metres, seconds = np.zeros((2, HOURS_A_WEEK, len(net.edge_id)))
    columns = (history.sums[name].to_pylist() for name in ("edge", "start_ms", "m", "s"))
    for edge, start, m, s in zip(*columns, strict=True):
        hour = hour_of_week(datetime.fromtimestamp(start / 1000, UTC), ZoneInfo("UTC"))
        metres[hour, edge] += m
        seconds[hour, edge] += s
    with np.errstate(invalid="ignore"):
        return 3.6 * metres / seconds


def trips(folder: Path, vehicles: Collection[str]) -> Iterator[dict[str, Any]]:
    """Whole true trips of vehicles that report, not too short."""
    for line in (folder / "truth.jsonl").open("rb"):
        row = orjson.loads(line)
        if row["kind"] != "trip" or row["vehicle_id"] not in vehicles:
            continue
        if row["whole"] and row["distance_m"] >= LEAST_TRIP_M:
            yield row


def table(graded: Collection[Graded]) -> list[dict[str, float]]:
    """Errors by horizon: MAPE and bias of the prediction, MAPE of the way at the limits; %."""
    found = []
    for low, high in HORIZONS_MIN:
        own = [g for g in graded if low * 60 <= g.horizon_s < high * 60]
        if own:
            errors = [(g.predicted_s - g.horizon_s) / g.horizon_s * 100 for g in own]
            naive = [(g.naive_s - g.horizon_s) / g.horizon_s * 100 for g in own]
            found.append({
                "from_min": low, "to_min": high, "predictions": len(own),
                "mape_pct": round(statistics.fmean(map(abs, errors)), 1),
                "median_ape_pct": round(statistics.median(map(abs, errors)), 1),
                "bias_pct": round(statistics.fmean(errors), 1),
                "bias_s": round(statistics.fmean(g.predicted_s - g.horizon_s for g in own), 1),
                "mape_at_limit_pct": round(statistics.fmean(map(abs, naive)), 1),
            })  # fmt: skip
    return found


def main() -> None:
    """Grade and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--history", type=Path, required=True, help="folder of the day that is history")
    parser.add_argument("--run", type=Path, required=True, help="folder of the day that is driven")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", type=float, default=120.0, help="s between two predictions of a trip")
    parser.add_argument("--trips", type=int, default=1000, help="trips graded at most")
    arguments = parser.parse_args()
    town = region(arguments.seed, LAT_DEG, LON_DEG, 1)
    net = network_of(1, [(e, c, v, m, [[x, y] for y, x in path]) for e, c, v, m, path in town.edges()])
    with tempfile.TemporaryDirectory() as scratch:
        save(net, Path(scratch) / "roads.npz")
        lookup = RoadLookup(Path(scratch), Roads())
        history, run = told(arguments.history, lookup), told(arguments.run, lookup)
    grader = Grader(net, history, run, Roads())
    chosen = list(itertools.islice(trips(arguments.run, run.places.keys()), arguments.trips))
    graded = [g for trip in chosen for g in grader.trip(trip, round(arguments.every * 1000))]
    print(json.dumps({"trips": len(chosen), "by_horizon": table(graded)}, indent=1))


if __name__ == "__main__":
    main()
