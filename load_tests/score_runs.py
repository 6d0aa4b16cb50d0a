"""Scored runs in time-lapse: a faulty fleet simulated, fed to the real jobs, judged against its own truth.

    python -m load_tests.score_runs --home /tmp/score --seeds 11,12,13 [--profiles steady,day] [--speed 60]

The simulator's messages go into Kafka as the bridge would have written them, stamped with the time at which
they were due: receipt, lateness, watermarks and timers are those of a live run, only faster. The bridge has
tests of its own. Runs follow each other in simulated time, so no clock goes back. The home is this program's
own: services and jobs are started in it and stopped at the end; a scorecard a run goes to stdout, all of it
to <home>/scores/<run>.json. ``steady`` (everybody drives) is for faults, ``day`` (they park) for trips too.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import orjson

from edge_simulator import scenario
from edge_simulator.faults.kinds import KINDS
from edge_simulator.telemetry.instruments import Sensors
from edge_simulator.telemetry.outbox import Outgoing
from edge_simulator.world import World
from infra.clients.kafka import LogEnds, produce, producer
from infra.contract.errors import ServiceError
from infra.contract.topics import HEADER_MQTT_TOPIC, HEADER_RECEIVED_MS, kafka_topic, mqtt_topic
from infra.settings.settings import Endpoints, Settings, load
from infra.settings.values import duration_ms
from infra.sql import truth
from infra.stack import status
from infra.stack.downloads import fetch
from infra.stack.processes import guarded
from infra.stack.stack import Stack
from infra.stack.supervisor import Supervisor, programs, wait_ready
from load_tests.score import report

JOBS = ("jobs", "instant", "events", "maintenance")
QUERIES = ("archive", "telemetry")
READY_S = 900.0
STUCK_S = 900.0
"""No query has moved for so long: it will not any more."""
STILL_S = 15.0
"""Nothing has changed in the tables for so long: the jobs are through."""
GAP_MS = 600_000
DAY_MORE = 3
"""Times as many vehicles where most of them are parked."""
SAY_EVERY_S = 10.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What every run of a call shares; times in ms."""

    vehicles: int
    duration: str
    interval: str
    begins: str
    faults: tuple[str, ...]
    speed: float
    sensors: str

    @property
    def span_ms(self) -> int:
        """Length of a run."""
        return duration_ms(self.duration, "--duration")


def say(text: str) -> None:
    """A line for whoever waits."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")


@contextmanager
def jobs_in(settings: Settings) -> Iterator[Endpoints]:
    """Services and jobs, ready, while the block runs."""
    stack = Stack(settings, say)
    fetch.fetch_all(settings.paths.cache, stack.embedded)
    stack.home.mkdir(parents=True, exist_ok=True)
    ours = tuple(program for program in programs() if program.name in JOBS)
    stop = threading.Event()
    with guarded(stack.home):
        found = stack.up()
        try:
            with Supervisor(stack.home, ours, say) as supervisor:
                watcher = threading.Thread(target=supervisor.watch, args=(stop,), daemon=True)
                watcher.start()
                try:
                    late = wait_ready({n: found.http_ports[n] for n in JOBS}, READY_S, say)
                    if late:
                        raise ServiceError(f"not ready: {late}; logs in {stack.home}/logs")
                    yield found
                finally:
                    stop.set()
                    watcher.join()
        finally:
            stack.down()


def world_of(plan: Plan, settings: Settings, profile: str, seed: int, start_ms: int) -> World:
    """The world of one run, faults included."""
    vehicles = plan.vehicles * (DAY_MORE if profile == "day" else 1)
    wanted = {
        "vehicles": vehicles, "interval": plan.interval, "duration": plan.duration, "seed": seed,
        "profile": profile, "faults": plan.faults, "clock": {"begins": plan.begins},
        "parked_every": "60s" if profile == "day" else None, "step": "500ms", "sensors": plan.sensors,
    }  # fmt: skip
    run = scenario.read(None, settings, wanted, start_ms)
    own = {"first": plan.vehicles if profile == "day" else 0}  # an id is one vehicle, whatever the profile
    return World(run.model_copy(update=own))


class Feed:
    """Messages into Kafka as the bridge writes them, at ``speed`` times real time at most."""

    def __init__(self, settings: Settings, found: Endpoints, world: World, speed: float) -> None:
        self._settings, self._world, self._speed = settings, world, speed
        limits = {"linger.ms": 20, "queue.buffering.max.messages": 200_000}
        self._producer = producer(found.kafka_bootstrap, limits)
        self.sent = 0

    def put(self, items: Sequence[Outgoing]) -> None:
        """Append messages in their order."""
        for item in items:
            vehicle_id = self._world.vehicle_ids[item.vehicle]
            topic = mqtt_topic(self._settings.mqtt.root, vehicle_id, item.channel)
            headers: list[tuple[str, str | bytes | None]] = [
                (HEADER_MQTT_TOPIC, topic.encode()),
                (HEADER_RECEIVED_MS, b"%d" % item.due_ms),
            ]
            name = kafka_topic(self._settings.kafka.prefix, item.channel)
            record = (name, item.payload, vehicle_id.encode())
            produce(self._producer, *record, timestamp=item.due_ms, headers=headers)
            self.sent += 1
        self._producer.poll(0)

    def pace(self, begun_s: float, passed_ms: int) -> None:
        """Wait until the wall clock is where ``passed_ms`` of the run belong."""
        ahead_s = passed_ms / 1000 / self._speed - (time.monotonic() - begun_s)
        if ahead_s > 0.05:
            time.sleep(ahead_s)

    def flush(self) -> None:
        """Wait until Kafka has all of it."""
        assert self._producer.flush(60) == 0, "Kafka does not take the rest"


def drive(plan: Plan, settings: Settings, found: Endpoints, run: tuple[str, int], start_ms: int) -> str:
    """Simulate and feed one run; its id. Truth goes to a file as a simulator's run leaves it."""
    profile, seed = run
    run_id = f"score-{profile}-{start_ms}-{seed}"
    world = world_of(plan, settings, profile, seed, start_ms)
    feed = Feed(settings, found, world, plan.speed)
    folder = settings.paths.home / "runs" / run_id
    folder.mkdir(parents=True)
    begun_s = said_s = time.monotonic()
    feed.put(world.emitter.births())
    with (folder / truth.FILE).open("wb") as file:
        for slot in world.slots():
            file.writelines(orjson.dumps(row) + b"\n" for row in slot.truth)
            feed.put(slot.messages)
            feed.pace(begun_s, slot.end_ms - start_ms)
            if time.monotonic() - said_s > SAY_EVERY_S:
                said_s = time.monotonic()
                passed_s = (slot.end_ms - start_ms) / 1000
                say(f"seed {seed}: {passed_s:.0f} of {plan.span_ms / 1000:.0f} s, {feed.sent} messages, "
                    f"{passed_s / (said_s - begun_s):.0f} x real time")  # fmt: skip
        rest, rows = world.end(slot.end_ms)
        feed.put(rest)
        file.writelines(orjson.dumps(row) + b"\n" for row in rows)
    feed.flush()
    say(f"seed {seed}: {feed.sent} messages in {time.monotonic() - begun_s:.0f} s")
    return run_id


def settle(settings: Settings, found: Endpoints) -> None:
    """Wait until every query has taken what is in the log, and the alerts have come to rest."""
    moved_s, said_s, before = time.monotonic(), 0.0, (-1, -1)
    with LogEnds(found.kafka_bootstrap, settings.kafka.prefix) as log:
        while time.monotonic() < moved_s + STUCK_S:
            behind = status.records_behind(settings, found)
            now = (sum(behind.values()), log.appended("alerts"))
            if now != before:
                before, moved_s = now, time.monotonic()
            done = now[0] == 0 and set(QUERIES) <= set(behind)
            if done and time.monotonic() - moved_s > STILL_S:
                return
            if time.monotonic() - said_s > SAY_EVERY_S:
                said_s = time.monotonic()
                say(f"behind: {behind}, alert records: {now[1]}")
            time.sleep(1)
    say(f"no query has moved for {STUCK_S:g} s: the score is that of what is there")


def judged(settings: Settings, found: Endpoints, run_id: str) -> list[str]:
    """Print the scorecard of a run and keep it; the detectors that are not good enough."""
    truth.load(found.db_ingest_url, run_id, settings.paths.home / "runs" / run_id / truth.FILE)
    card = report.made(settings, run_id)
    folder = settings.paths.home / "scores"
    folder.mkdir(exist_ok=True)
    (folder / f"{run_id}.json").write_text(report.as_json(card, 0.95))
    sys.stdout.write(report.as_text(card, 0.95) + "\n\n")
    return card.failed(0.95)


def main() -> None:
    """Run every seed; exit 1 where a detector is below 0.95 on one of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--home", type=Path, required=True, help="a new folder of its own")
    parser.add_argument("--seeds", default="11", help="as 11,12,13")
    parser.add_argument("--vehicles", type=int, default=150)
    parser.add_argument("--duration", default="90m")
    parser.add_argument("--interval", default="5s", help="time between two frames of a vehicle")
    parser.add_argument("--profiles", default="steady,day")
    parser.add_argument("--begins", default="07:00", help="local time of the simulated day")
    parser.add_argument("--faults", type=int, default=5, help="vehicles with each kind of fault")
    parser.add_argument("--speed", type=float, default=60, help="times real time, at most")
    parser.add_argument("--sensors", choices=get_args(Sensors), default="obd", help="the steps of readings")
    asked = parser.parse_args()
    if (asked.home / "data").exists():
        parser.error(f"{asked.home} has runs of an earlier call: behind them the clock would go back")
    plan = Plan(
        asked.vehicles, asked.duration, asked.interval, asked.begins,
        tuple(f"{name}={asked.faults}" for name in KINDS), asked.speed, asked.sensors,
    )  # fmt: skip
    os.environ["ODOGRAPH_PATHS_HOME"] = str(asked.home.resolve())  # the jobs are programs of their own
    os.environ["ODOGRAPH_JOBS_CLOCK_S"] = "0"  # simulated time is not the wall's
    settings = load()
    runs = [(name, int(seed)) for seed in asked.seeds.split(",") for name in asked.profiles.split(",")]
    first_ms = time.time_ns() // 1_000_000 - len(runs) * (plan.span_ms + GAP_MS)
    poor: list[str] = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with jobs_in(settings) as found:
        for k, run in enumerate(runs):
            run_id = drive(plan, settings, found, run, first_ms + k * (plan.span_ms + GAP_MS))
            settle(settings, found)
            poor += judged(settings, found, run_id)
    sys.exit(1 if poor else 0)


if __name__ == "__main__":
    main()
