"""What the event data recorders cost: ``python -m load_tests.recorders [VEHICLES]``, one thread, CPU time."""

from __future__ import annotations

import sys
import time

import numpy as np

from edge_simulator.edr.recorder import Ring
from edge_simulator.scenario import Scenario, cadence
from edge_simulator.world import World
from infra.contract.messages import PROFILES

STEPS = 200


def main(vehicles: int) -> None:
    """Print CPU time a vehicle and sample, and bytes a vehicle."""
    world = World(
        Scenario(
            seed=1, vehicles=vehicles, cadence=cadence(vehicles, None, 1000), start_ms=0, frames_per_vehicle=1
        )
    )
    world.fleet.step(0.1)
    world.machine.step(world.fleet.state, world.fleet.ignition_on(), 0.1)
    profile = PROFILES["us563_2024"]
    ring = Ring(vehicles, profile.samples, profile.dt_ms)
    for _ in range(2):  # the first round touches the memory for the first time
        begun = time.process_time()
        for k in range(STEPS):
            ring.record(100 * k, world.instruments.pre_crash())
        spent_s = time.process_time() - begun
    size = sum(value.nbytes for value in vars(ring).values() if isinstance(value, np.ndarray))
    print(
        f"{vehicles} vehicles: {1e6 * spent_s / STEPS:.0f} us a sample of all, "
        f"{1e9 * spent_s / STEPS / vehicles:.1f} ns a vehicle; "
        f"{size / vehicles:.0f} bytes a vehicle, {size / 2**20:.0f} MiB in all"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
