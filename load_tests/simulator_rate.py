"""What a frame costs the simulator, by part, and how many it makes: CPU microseconds, in one process.

Three kinds of runs: physics and instruments alone; these with encoding; and all of it, published at QoS 1
with every PUBACK awaited to a Mosquitto of this program's own, which nobody subscribes to. The broker's own
CPU is stated apart. Births and farewells are left out, and so is the time before the first frame.

Run: python -m load_tests.simulator_rate [--rates 1000,5000,10000,0] [--repeats 3] [--json]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from edge_simulator.runfiles import RunFiles
from edge_simulator.scenario import SAMPLES, Scenario, cadence
from edge_simulator.sending.run import Client, Run, RunOptions, filters, publisher_of
from edge_simulator.world import World
from infra.clients.mqtt_broker import MqttBroker
from load_tests.rate_support import Broker, Clock, broker_in, cpu_s

FLAT_OUT_VEHICLES = 10_000
PARTS = ("physics", "recorders", "instruments", "encode", "queue", "publish")


@dataclass(frozen=True, slots=True)
class Measured:
    """One run."""

    kind: str
    asked_per_s: int
    frames: int
    frames_per_s: float
    cpu_us: float
    """CPU of the simulator's process, a frame."""
    cores: float
    parts_us: dict[str, float]
    broker_us: float = 0.0
    overrun: int = 0
    puback_p99_ms: float = 0.0


def fleet(vehicles: int, seconds: int, clock: Clock) -> World:
    """A world whose vehicles report each second, its parts timed; warm."""
    beat = cadence(vehicles, None, 1000)
    start_ms = time.time_ns() // 1_000_000
    world = World(
        Scenario(seed=1, vehicles=vehicles, cadence=beat, start_ms=start_ms, frames_per_vehicle=seconds)
    )
    world.warm_up()
    world.begin_at(time.time_ns() // 1_000_000 - SAMPLES * beat.dt_ms)
    emitter = world.emitter
    clock.time(world.fleet, "step", "physics")
    clock.time(world.machine, "step", "physics")
    clock.time(world._boxes, "sample", "recorders")
    clock.time(emitter, "sample", "instruments")
    clock.time(world.instruments, "slow", "instruments")
    clock.time(emitter, "emit", "encode")
    clock.time(emitter, "_queue_frames", "queue")
    slots = world.slots()
    for _ in range(SAMPLES - 1):
        next(slots)
    world.slots = lambda: slots  # type: ignore[method-assign]
    world.emitter.births = list  # type: ignore[method-assign]
    world.emitter.farewells = lambda at_ms: []  # type: ignore[method-assign]  # noqa: ARG005
    clock.spent_s.clear()
    return world


def _measured(
    kind: str, rate: int, frames: int, wall_s: float, cpu: float, clock: Clock, **more: Any
) -> Measured:
    parts = {part: round(1e6 * clock.spent_s[part] / frames, 2) for part in PARTS}
    parts["rest"] = round(1e6 * cpu / frames - sum(parts.values()), 2)
    return Measured(
        kind,
        rate,
        frames,
        round(frames / wall_s),
        round(1e6 * cpu / frames, 2),
        round(cpu / wall_s, 3),
        parts,
        **more,
    )


def generate(vehicles: int, seconds: int, encode: bool) -> Measured:
    """The world alone, as fast as it goes."""
    clock = Clock()
    world = fleet(vehicles, seconds, clock)
    if not encode:
        world.emitter.emit = lambda *_: None  # type: ignore[method-assign]
    begun, begun_cpu = time.monotonic(), time.process_time()
    for _ in world.slots():
        pass
    wall_s, cpu = time.monotonic() - begun, time.process_time() - begun_cpu
    kind = "generate and encode" if encode else "generate"
    return _measured(kind, 0, vehicles * seconds, wall_s, cpu, clock)


def all_in(
    broker: Broker, client: Client, rate: int, seconds: int, home: Path, listen: bool = True
) -> Measured:
    """A run as ``odograph simulate`` makes it, from the first birth to the last PUBACK; rate 0: flat out."""
    clock, vehicles = Clock(), rate or FLAT_OUT_VEHICLES
    world = fleet(vehicles, seconds, clock)
    run_id = f"rate-{time.time_ns()}"
    ears = filters("rate", world.vehicle_ids, 1) if listen else {}
    with publisher_of(client, vehicles)(
        [MqttBroker("127.0.0.1", broker.port)], [run_id], filters=ears
    ) as publisher:
        publisher.connect(5.0)
        clock.time(publisher, "publish_many", "publish")
        clock.time(publisher, "drive", "publish")
        with RunFiles(home, run_id, log_frames=False) as files:
            options = RunOptions(run_id, "rate", 20_000, 30.0, paced=rate > 0)
            run = Run(options, world, publisher, files, lambda _: None)
            begun, begun_cpu, broker_cpu = time.monotonic(), time.process_time(), cpu_s(broker.pid)
            summary = run.go(lambda: False)
            wall_s, cpu = time.monotonic() - begun, time.process_time() - begun_cpu
            broker_cpu = cpu_s(broker.pid) - broker_cpu
    if not summary["finished"] or summary["acked"] != vehicles * seconds:
        raise RuntimeError(f"{summary['acked']} of {vehicles * seconds} frames were acknowledged")
    return _measured(
        client, rate, summary["acked"], wall_s, cpu, clock, overrun=summary["overrun"],
        puback_p99_ms=summary["puback_ms"]["p99"], broker_us=round(1e6 * broker_cpu / summary["acked"], 2),
    )  # fmt: skip


def median(runs: list[Measured]) -> Measured:
    """The run of median CPU a frame."""
    return sorted(runs, key=lambda run: run.cpu_us)[len(runs) // 2]


def listening(broker: Broker, rate: int, seconds: int, repeats: int, home: Path) -> list[Measured]:
    """What it costs to listen when nothing is said: deaf and listening runs in turn, their medians."""
    runs: dict[bool, list[Measured]] = {False: [], True: []}
    for _ in range(repeats):
        for listen, found in runs.items():
            found.append(all_in(broker, "lean", rate, seconds, home, listen))
    return [replace(median(runs[k]), kind=f"lean, {name}") for k, name in ((False, "deaf"), (True, "ears"))]


def line(run: Measured) -> str:
    """A row of the table."""
    asked = str(run.asked_per_s) if run.asked_per_s else "flat out"
    parts = " ".join(f"{run.parts_us[part]:>{len(part) + 2}.1f}" for part in (*PARTS, "rest"))
    return (
        f"{run.kind:<20} {asked:>8} {run.frames_per_s:>9,.0f} {run.cpu_us:>7.1f} {run.cores:>6.2f} {parts} "
        f"{run.broker_us:>7.1f} {run.overrun:>8} {run.puback_p99_ms:>9.1f}"
    )


def main() -> None:
    """A table on stderr while it is measured; with --json all figures on stdout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rates", default="1000,5000,10000,0", help="frames/s, 0: flat out")
    parser.add_argument("--clients", default="lean,paho", help="MQTT clients")
    parser.add_argument("--seconds", type=int, default=6, help="simulated time of a run")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each kind; their median is printed")
    parser.add_argument("--listen", action="store_true", help="only: deaf against listening vehicles")
    parser.add_argument("--json", action="store_true", help="the medians as JSON on stdout")
    options = parser.parse_args()
    rates = [int(rate) for rate in options.rates.split(",")]
    clients: list[Client] = options.clients.split(",")
    titles = " ".join(f"{part:>{len(part) + 2}}" for part in (*PARTS, "rest"))
    print(
        f"{'what':<20} {'asked/s':>8} {'made/s':>9} {'CPU us':>7} {'cores':>6} {titles} {'broker':>7} "
        f"{'overrun':>8} {'p99 ms':>9}", file=sys.stderr,
    )  # fmt: skip
    found: list[Measured] = []
    with tempfile.TemporaryDirectory(prefix="odograph-rate-") as folder, broker_in(Path(folder)) as broker:
        kinds: list[Callable[[], Measured]] = [
            lambda encode=encode: generate(FLAT_OUT_VEHICLES, options.seconds, encode)  # type: ignore[misc]
            for encode in (False, True)
        ]
        kinds += [
            lambda client=client, rate=rate: all_in(broker, client, rate, options.seconds, Path(folder))  # type: ignore[misc]
            for rate in rates
            for client in clients
        ]
        if options.listen:
            found = listening(broker, rates[-1], options.seconds, options.repeats, Path(folder))
            print("\n".join(map(line, found)), file=sys.stderr, flush=True)
            kinds = []
        for kind in kinds:
            found.append(median([kind() for _ in range(options.repeats)]))
            print(line(found[-1]), file=sys.stderr, flush=True)
    if options.json:
        print(json.dumps([asdict(run) for run in found]))


if __name__ == "__main__":
    main()
