"""CPU of a frame in the operator of the query ``telemetry``, by part, without Spark.

Simulated vehicles, a frame a second, all shipped rules; a bucket's memory loaded and dumped each batch.
``parse``: payloads to Frames. ``windows``: all that windows do. ``features``: what frames say, the
rules' expressions among it. ``core``: order, journeys and stateful rules. ``memory``: the vehicles' state.

python -m load_tests.vehicle_core_rate [--vehicles 50,500,2000] [--seconds 40] [--frames 2]
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from statistics import median
from typing import Final

import pyarrow as pa

from edge_simulator.scenario import Cadence, Scenario
from edge_simulator.world import World
from infra.settings.settings import Settings
from stream_jobs.rules.model import load_rules
from stream_jobs.rules.rule_set import of_rules
from stream_jobs.vehicles.core import Core
from stream_jobs.vehicles.features import vehicle_stage
from stream_jobs.vehicles.fleet import dump, load
from stream_jobs.windows.open_windows import Memory, OpenWindows

SEED: Final = 11
START_MS: Final = 1_780_000_000_000
DELAY_MS: Final = 500
WARM: Final = 3
"""Of the batches the first third is not counted."""


def batches(vehicles: int, seconds: int, size: int) -> Iterator[pa.RecordBatch]:
    """Records of a run of the simulator, ``size`` each."""
    beat = Cadence(100, 10)
    world = World(
        Scenario(seed=SEED, vehicles=vehicles, cadence=beat, start_ms=START_MS, frames_per_vehicle=seconds)
    )
    sent = [(slot.end_ms + DELAY_MS, m.payload) for slot in world.slots() for m in slot.messages]
    for begin in range(0, len(sent), size):
        received, values = zip(*sent[begin : begin + size], strict=True)
        yield pa.RecordBatch.from_pydict(
            {
                "partition": pa.array([0] * len(values), pa.int32()),
                "log_offset": pa.array(range(begin, begin + len(values)), pa.int64()),
                "received_ms": pa.array(received, pa.int64()),
                "value": pa.array(values, pa.binary()),
            }
        )


def measure(vehicles: int, seconds: int, frames: int) -> dict[str, float]:
    """CPU us a frame by part, medians over the batches, and the bytes of a vehicle's state."""
    settings, rule_set = Settings(), of_rules(load_rules())
    stage, core, blob = (
        vehicle_stage(settings, rule_set),
        Core(settings.jobs, settings.journeys, rule_set),
        None,
    )
    spent: dict[str, list[float]] = defaultdict(list)
    memory = Memory()
    for records in batches(vehicles, seconds, vehicles * frames):
        moments = [time.process_time()]

        def lap(moments: list[float] = moments) -> None:
            moments.append(time.process_time())

        batch = stage.frames(records)
        assert batch is not None
        lap()
        windows = OpenWindows(settings.jobs, None, memory, int(batch.received_ms[0]) - 2000)
        windows.take(batch, batch.ok)
        windows.latest()
        windows.publish(int(batch.received_ms[-1]) - 2000, idle=False)
        memory = windows.memory()
        lap()
        features = stage.features(batch)
        lap()
        fleet, _ = load(blob, rule_set)
        lap()
        core.take(fleet, features)
        lap()
        blob = dump(fleet, Memory())
        lap()
        parts = [1e6 * (b - a) / len(batch) for a, b in pairwise(moments)]
        for name, us in zip(("parse", "windows", "features", "memory", "core", "dump"), parts, strict=True):
            spent[name].append(us)
        spent["all"].append(sum(parts))
    found = {name: round(median(us[len(us) // WARM :]), 1) for name, us in spent.items()}
    found["memory"] = round(found["memory"] + found.pop("dump"), 1)
    return found | {"state_bytes": len(blob or b"") // vehicles}


def main() -> None:
    """Read the options and print a line for each size of the fleet."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--vehicles", default="50,500,2000")
    parser.add_argument("--seconds", type=int, default=40)
    parser.add_argument("--frames", type=int, default=2, help="of a vehicle in a batch")
    args = parser.parse_args()
    for vehicles in map(int, args.vehicles.split(",")):
        print(f"{vehicles} vehicles:", measure(vehicles, args.seconds, args.frames))


if __name__ == "__main__":
    main()
