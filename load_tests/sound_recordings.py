"""Recordings of sound cars as an OBD logger writes them: 2 Hz, readings in the steps of standard sensors.

    python -m load_tests.sound_recordings FOLDER [--cars 5] [--duration 2h] [--seed 511]
    odograph replay --drives FOLDER --speed max --json

Petrol cars of a simulated fleet without faults; a CSV a car, and the mapping beside them. No alert of MINOR
or above may come of them.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from edge_simulator import scenario
from edge_simulator.vehicle.vehicles import MODELS
from edge_simulator.world import World
from infra.contract.signals import SIGNALS
from infra.settings.settings import load

DT_MS = 500
SAMPLES = 10
START_MS = 1_763_366_400_000  # 2025-11-17 08:00 UTC
FLEET = 40
"""Vehicles, so that enough of them are petrol cars, and each has traffic around it."""
NAMES = [
    s.name for s in SIGNALS if s.kind != "codes" and not s.name.startswith(("accel_", "yaw_", "steering_"))
]
"""What a logger may have; no inertial sensors."""


def world_of(seed: int, duration: str) -> World:
    """A fleet without faults, at 2 Hz."""
    wanted = {"vehicles": FLEET, "interval": f"{DT_MS * SAMPLES}ms", "duration": duration, "seed": seed,
              "step": f"{DT_MS}ms", "sensors": "obd", "ambient_c": 8.0}  # fmt: skip
    return World(scenario.read(None, load(), wanted, START_MS))


def rows(frame: dict[str, Any]) -> Iterator[list[object]]:
    """A line a sample; slow readings stand until the next frame."""
    for k in range(frame["n"]):
        at = datetime.fromtimestamp((frame["t0_ms"] + k * frame["dt_ms"]) / 1000, UTC)
        values = (frame.get(name) for name in NAMES)
        read = (value[k] if isinstance(value, list) else value for value in values)
        yield [at.isoformat(timespec="milliseconds"), *(int(v) if isinstance(v, bool) else v for v in read)]


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cars", type=int, default=5)
    parser.add_argument("--duration", default="2h")
    parser.add_argument("--seed", type=int, default=511)
    asked = parser.parse_args()
    world = world_of(asked.seed, asked.duration)
    models = [MODELS[k] for k in world.specs.model]
    petrol = [k for k, m in enumerate(models) if (m.powertrain, m.vehicle_class) == ("petrol", "car")]
    asked.folder.mkdir(parents=True, exist_ok=True)
    files = {k: (asked.folder / f"car{k}.csv").open("w", newline="") for k in petrol[: asked.cars]}
    writers = {k: csv.writer(file) for k, file in files.items()}
    for writer in writers.values():
        writer.writerow(["time", *NAMES])
    for slot in world.slots():
        for item in slot.messages:
            if item.channel == "telemetry" and item.vehicle in writers:
                writers[item.vehicle].writerows(rows(orjson.loads(item.payload)))
    for file in files.values():
        file.close()
    signals = "\n".join(f"  {name}: {{column: {name}, optional: true}}" for name in NAMES)
    head = "model: petrol\npowertrain: petrol\nvehicle_class: car\ntimestamp: {column: time, format: iso}\n"
    (asked.folder / "mapping.yaml").write_text(f"{head}signals:\n{signals}\n")


if __name__ == "__main__":
    main()
