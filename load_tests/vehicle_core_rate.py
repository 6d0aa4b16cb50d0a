"""CPU of a frame in the operator of the query ``telemetry``, by part, without Spark.

Healthy vehicles under way (a frame a second), all shipped rules: what the operator does with the features of
frames, a bucket's memory loaded and dumped each batch. Readings are made here: known, and never holding.
``stage`` is from payloads to features, by DuckDB and numpy: a fixed cost a batch, and one a frame.

python -m load_tests.vehicle_core_rate [--vehicles 50] [--frames 5] [--rounds 15] [--profile]
"""

from __future__ import annotations

import argparse
import cProfile
import math
import pstats
import random
import time
from collections import defaultdict
from statistics import median
from typing import Any, Final

import numpy as np
import pyarrow as pa

from infra.contract.settings import Settings
from load_tests.filling import bodies, payload
from stream_jobs.rules import load_rules
from stream_jobs.vehicles.arrivals import by_vehicle
from stream_jobs.vehicles.beat import Reading
from stream_jobs.vehicles.core import Core
from stream_jobs.vehicles.facts import FACTS
from stream_jobs.vehicles.limits import core_limits
from stream_jobs.vehicles.plugged import Detection, of_rules
from stream_jobs.vehicles.said import inputs_of
from stream_jobs.vehicles.stage import Features, vehicle_stage
from stream_jobs.vehicles.state import Bucket, dump_bucket, dump_vehicle, load_bucket, load_vehicle

T0: Final = 1_780_000_000_000
KINDS: Final = ("petrol", "petrol", "petrol", "diesel", "heavy", "electric")
WARM_FRAMES: Final = 60
STAGE_FRAMES: Final = (250, 1000, 10_000)
WARM_STEP_MS: Final = 20_000
"""20 minutes in wide steps fill the means and baselines."""
_ENGINE: Final = ("coolant", "thermostat", "oil", "battery_crank", "transmission", "fuel", "dpf", "idling")


def quiet(rule: Any, kind: str, rng: random.Random) -> Reading:
    """What a healthy vehicle's frame says to a rule."""
    nothing = Reading(None, None, None, None)
    if rule.id.startswith(("cells", "thermal")) and kind != "electric":
        return nothing
    if rule.id.startswith(_ENGINE) and kind == "electric":
        return nothing
    if rule.id.startswith("fuel") and kind != "petrol":
        return nothing
    if rule.id.startswith("dpf") and kind == "petrol":
        return nothing
    return _said(rule, rng)


def _said(rule: Any, rng: random.Random) -> Reading:
    lasting = rule.lasting
    spec = type(lasting.spec).__name__
    limit = 10.0 if rule.limit is not None else None
    value = rng.gauss(20.0, 0.1) if rule.beyond == "below" else rng.gauss(-20.0, 0.1)
    armed = True if lasting.armed else None
    names = ("3",) if rule.id == "transmission_slip" else ("front left",) if lasting.names else ()
    if spec == "Level" and lasting.spec.mean_s == 0:
        return Reading(False, True, value, limit, armed, True, names)
    if spec == "Count" and rule.value is not None and lasting.spec.reversal is None:
        return Reading(False, None, None, None, armed, False)
    if spec in ("Silence", "Baseline"):
        return Reading(True, None, value if spec == "Baseline" else None, limit, armed, True, names)
    if spec == "Clone" or rule.id == "thermal_runaway":
        return Reading(None, None, None, limit, armed, True, names)
    return Reading(None, None, value, limit, armed, True, names)


class Fleet:
    """Features of batches of frames, as the stage gives them."""

    def __init__(self, detection: Detection, vehicles: int) -> None:
        self._rules = detection.rules
        self._vehicles = vehicles
        self._rng = random.Random(7)
        self._seq = 0
        self._now_ms = T0

    def batch(self, frames: int, step_ms: int) -> Features:
        """The next ``frames`` of each vehicle."""
        which = [(v, k) for k in range(frames) for v in range(self._vehicles)]
        facts = np.array([self._facts(v, k, step_ms) for v, k in which], float)
        kinds = [KINDS[v % len(KINDS)] for v, _ in which]
        inputs = inputs_of([[quiet(rule, kind, self._rng) for rule in self._rules] for kind in kinds])
        self._now_ms += frames * step_ms
        self._seq += frames
        return Features(
            [f"VIN{v:06}" for v, _ in which], np.array([v % 3 for v, _ in which]),
            np.array([self._seq + k for _, k in which]), facts, [()] * len(which), inputs,
        )  # fmt: skip

    def _facts(self, vehicle: int, k: int, step_ms: int) -> list[float]:
        kind, t0 = KINDS[vehicle % len(KINDS)], self._now_ms + k * step_ms
        known = {
            "boot_id": 1, "seq": self._seq + k, "t0_ms": t0, "end_ms": t0 + 1000, "received_ms": t0 + 1500,
            "believed": 1, "ignition_on": 1, "lat_deg": 48 + (t0 - T0) / 1e8, "lon_deg": 11.5,
            "heading_deg": 0, "speed_kmh": 40, "speed_max_kmh": 41, "distance_m": 11.1 * step_ms / 1000,
            "fuel_l": 0.001, "moving_ms": 1000, "moving_from_ms": t0, "moving_to_ms": t0 + 1000,
            "speeding_ms": 0,
            "vehicle_class": 2 if kind == "heavy" else 0, "odometer_m": (t0 - T0) / 90,
        }  # fmt: skip
        return [known.get(name, math.nan) for name in FACTS]


def staged(detection: Detection, frames: int, rounds: int) -> float:
    """CPU us of a frame in the stage, batches of ``frames``."""
    said = bodies(scattered=False, second=0)
    records = pa.RecordBatch.from_pydict(
        {
            "partition": pa.array([0] * frames, pa.int32()),
            "log_offset": pa.array(range(frames), pa.int64()),
            "received_ms": pa.array([T0 + 1500] * frames, pa.int64()),
            "value": pa.array([payload(v, 0, T0, said[v % len(said)]) for v in range(frames)], pa.binary()),
        }
    )
    stage, spent = vehicle_stage(Settings(), detection), []
    for _ in range(rounds + 1):
        begin = time.process_time()
        frames_read = stage.frames(records)
        assert frames_read is not None
        stage.features(frames_read)
        spent.append(time.process_time() - begin)
    return round(1e6 * median(spent[1:]) / frames, 1)


def take(core: Core, blob: bytes | None, batch: Features, spent: dict[str, float]) -> bytes:
    """One batch as the operator takes it; adds CPU seconds by part to ``spent``."""
    clock = time.process_time
    begin = clock()
    bucket: Bucket = load_bucket(blob)
    middle = clock()
    placed = by_vehicle([batch])
    spent["beats"] += clock() - middle
    spent["memory"] += middle - begin
    for vehicle_id, arrivals in placed.items():
        begin = clock()
        raw = bucket.vehicles.get(vehicle_id)
        state = core.new() if raw is None else load_vehicle(raw)
        loaded = clock()
        arrivals.sort(key=lambda each: each[:2])
        for _ in core.take(state, (each[2] for each in arrivals)):
            pass
        done = clock()
        bucket.vehicles[vehicle_id] = dump_vehicle(state)
        bucket.due_ms[vehicle_id] = core.due_ms(state)
        spent["core"] += done - loaded
        spent["memory"] += clock() - done + loaded - begin
    begin = clock()
    blob = dump_bucket(bucket)
    spent["memory"] += clock() - begin
    return blob


def measure(detection: Detection, vehicles: int, frames: int, rounds: int) -> dict[str, float]:
    """CPU us a frame by part, medians of ``rounds``."""
    core, fleet = Core(core_limits(Settings()), detection), Fleet(detection, vehicles)
    blob = take(core, None, fleet.batch(WARM_FRAMES, WARM_STEP_MS), defaultdict(float))
    found: dict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        batch = fleet.batch(frames, 1000)
        spent: dict[str, float] = defaultdict(float)
        blob = take(core, blob, batch, spent)
        for part, seconds in (spent | {"all": sum(spent.values())}).items():
            found[part].append(1e6 * seconds / len(batch.vehicle_id))
    return {part: round(median(each), 1) for part, each in found.items()} | {
        "blob_bytes": len(blob) // vehicles
    }


def main() -> None:
    """Read the options and print a line with the rules and one without."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--vehicles", type=int, default=50)
    parser.add_argument("--frames", type=int, default=5, help="of a vehicle in a batch")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--profile", action="store_true")
    args = parser.parse_args()
    detection = of_rules(load_rules())
    profiler = cProfile.Profile() if args.profile else None
    if profiler:
        profiler.enable()
    print("rules   ", measure(detection, args.vehicles, args.frames, args.rounds))
    if profiler:
        profiler.disable()
        pstats.Stats(profiler).sort_stats("tottime").print_stats(35)
    for frames in STAGE_FRAMES:
        print(f"stage, batches of {frames}:", staged(detection, frames, args.rounds))
    print("no rules", measure(Detection(), args.vehicles, args.frames, args.rounds))


if __name__ == "__main__":
    main()
