"""CPU of the machine physics for one step, apart from motion and messages.

python -m load_tests.machine_step [VEHICLES]: medians over 180 steps of 100 ms, after 20 to settle. "step"
leaves out the once-a-second part, "all in" spreads it over its ten steps.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from edge_simulator.vehicle import vehicles
from edge_simulator.vehicle.machine import Machine
from load_tests.cycles import Ride

STEPS, SETTLE, H_S = 200, 20, 0.1


def measure(n: int) -> tuple[float, float]:
    """CPU of a vehicle and step, us: the median step, and the median of ten with the slow one."""
    rng = np.random.default_rng(1)
    machine = Machine(vehicles.Specs(vehicles.draw(rng, n)), rng, 16.0)
    ride, phase = Ride.standing(n), rng.uniform(0, 2 * np.pi, n)
    ride.slope = rng.uniform(-0.03, 0.03, n)
    spent = []
    for k in range(STEPS):
        ride.set_speed(np.maximum(12.0 + 14.0 * np.sin(0.1 * k * H_S + phase), 0.0), H_S)
        if k == 0:
            ride.a = np.zeros(n)
        begin = time.process_time()
        machine.step(ride, ride.on, H_S)
        spent.append(time.process_time() - begin)
    steps = np.array(spent[SETTLE:]) / n * 1e6
    return float(np.median(steps)), float(np.median(steps.reshape(-1, 10).mean(axis=1)))


if __name__ == "__main__":
    for count in [int(a) for a in sys.argv[1:]] or [10_000]:
        step_us, all_us = measure(count)
        print(f"{count} vehicles: step {step_us:.3f} us a vehicle, all in {all_us:.3f} us")
