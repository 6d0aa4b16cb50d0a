"""CPU of the motion alone, per vehicle and step, and the memory it takes.

python -m load_tests.motion_rate --vehicles 1000 10000 100000 --step-ms 100
"""

from __future__ import annotations

import argparse
import json
import resource
import time

import numpy as np

from edge_simulator.motion.fleet import Fleet
from edge_simulator.motion.ground_truth import GroundTruth
from edge_simulator.motion.town_day import Day
from edge_simulator.town.roads import region, towns
from edge_simulator.truth import TruthLog
from edge_simulator.vehicle import vehicles

SETTLE_S = 20.0
BLOCKS = 5
"""Of steps, without and with ground truth in turns; the quickest of each counts: others use the machine."""


def measure(count: int, profile: str, hour: float, step_s: float, steps: int) -> dict[str, float]:
    """Build a fleet, let it settle, and time its steps."""
    begun = time.process_time()
    rng = np.random.default_rng(1)
    net = region(1, 48.137, 11.575, towns(profile, count))
    specs = vehicles.Specs(vehicles.draw(rng, count))
    fleet = Fleet(net, specs, rng, Day(net, specs, rng, hour * 3600, 1) if profile == "day" else None)
    built_s = time.process_time() - begun
    for _ in range(int(SETTLE_S / step_s)):
        fleet.step(step_s)
    truth = TruthLog([str(k) for k in range(count)], 0)
    watched = GroundTruth(truth, fleet, 0)
    plain_s, seen_s = [], []
    for block in range(BLOCKS):
        begun = time.process_time()
        for _ in range(steps):
            fleet.step(step_s)
        middle = time.process_time()
        for k in range(block * steps, (block + 1) * steps):
            fleet.step(step_s)
            watched.step(round(1000 * step_s * (k + 1)))
            truth.take()
        plain_s.append(middle - begun)
        seen_s.append(time.process_time() - middle)
    moved_s = min(plain_s)
    return {
        "vehicles": count, "towns": len(net.town_lat), "under_way": int((~fleet.state.parked).sum()),
        "build_s": round(built_s, 2), "step_ms": round(1000 * moved_s / steps, 3),
        "us_per_vehicle": round(1e6 * moved_s / steps / count, 3),
        "ground_truth_us_per_vehicle": round(1e6 * (min(seen_s) - moved_s) / steps / count, 3),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }  # fmt: skip


def main() -> None:
    """Read the options and print a line for each size of fleet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--vehicles", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--step-ms", type=int, default=100)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--profile", choices=("steady", "day"), default="steady")
    parser.add_argument("--hour", type=float, default=8.0)
    args = parser.parse_args()
    for count in args.vehicles:
        print(json.dumps(measure(count, args.profile, args.hour, args.step_ms / 1000, args.steps)))


if __name__ == "__main__":
    main()
