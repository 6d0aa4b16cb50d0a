"""What the real-time query costs a frame, and how soon a crash record is an alert, at a steady rate.

Run: python -m load_tests.instant_rate [--rates 1200,4000] [--seconds N] [--rounds N]
         [--variant NAME:KEY=VALUE;KEY=VALUE ...]

Kafka of its own. ``shipped`` and each variant are an application ``odograph jobs instant`` with topics of
its own, and all run at once on the same frames. KEY is a variable of the environment, for instance
ODOGRAPH_JOBS_JAVA_OPTIONS; PYTHONPATH for another checkout: what was before. Medians of the rounds are told.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final, NamedTuple

import orjson
from confluent_kafka import TopicPartition

from infra.clients import kafka
from infra.clients.log import configure
from infra.contract.topics import kafka_topic
from infra.settings.settings import ENDPOINTS_FILE
from infra.stack import probes
from infra.stack.kafka import create_topics
from infra.stack.processes import log_tail
from infra.stack.service import free_port
from infra.stack.supervisor import odograph
from load_tests.conf_trials import SHIPPED, changes
from load_tests.filling import bodies, payload, vehicle
from load_tests.query_rate import say
from load_tests.rate_support import Services, cpu_s, services_in

VEHICLES: Final = 1_000
TICK_S: Final = 0.005
CRASH_S: Final = 0.25
READY_S: Final = 600.0
SETTLE_S: Final = 2.0
LATE_S: Final = 30.0


class Spent(NamedTuple):
    """CPU time, s."""

    all: float
    compilers: float
    """Of it Java's compilers: it ends when all is compiled."""


class Found(NamedTuple):
    """Of one variant in one round: us a frame, and ms from each crash record to its alert."""

    cpu_us: float
    compilers_us: float
    waits_ms: list[float]


class Variant:
    """One application, its topics and what came out of it."""

    def __init__(self, services: Services, name: str, changed: Mapping[str, str]) -> None:
        self.name, self.prefix, home = name, f"{name}.", services.home / name
        self._bootstrap, self._port = services.endpoints.kafka_bootstrap, free_port()
        create_topics(self._bootstrap, self.prefix)
        home.mkdir()
        own = replace(services.endpoints, http_ports={"instant": self._port})
        (home / ENDPOINTS_FILE).write_text(json.dumps(asdict(own)))
        env = {"ODOGRAPH_PATHS_HOME": str(home), "ODOGRAPH_KAFKA_PREFIX": self.prefix} | dict(changed)
        self._log = home / "log"
        with self._log.open("wb") as log:
            command = odograph("jobs", "instant")
            self._process = subprocess.Popen(command, env=os.environ | env, cwd=home, stdout=log, stderr=log)
        self.seen: dict[int, float] = {}
        """When the alert of a crash record could be read, by the record's number, s."""

    def topic(self, name: str) -> str:
        """The full name of one of its topics."""
        return kafka_topic(self.prefix, name)

    def until_ready(self) -> None:
        """Raises TimeoutError with the log where it does not start."""
        end_s = time.monotonic() + READY_S
        while probes.readyz(self._port) is not None:
            if time.monotonic() > end_s or self._process.poll() is not None:
                raise TimeoutError(f"{self.name} is not ready:\n{log_tail(self._log)}")
            time.sleep(0.2)

    def cpu_s(self) -> Spent:
        """Of the program and its Java machine so far."""
        pid = self._process.pid
        pids = [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
        tasks = [task for each in pids for task in Path(f"/proc/{each}/task").iterdir()]
        compilers = [task for task in tasks if "CompilerThre" in (task / "comm").read_text()]
        return Spent(sum(map(cpu_s, pids)), sum(cpu_s(task) for task in compilers))

    def read_alerts(self, stop: threading.Event) -> None:
        """Note when alerts of crashes come, until ``stop``."""
        consumer = kafka.consumer(self._bootstrap, self.name)
        topic = self.topic("alerts")
        count = kafka.partition_counts(consumer, [topic])[topic]
        consumer.assign([TopicPartition(topic, number, 0) for number in range(count)])
        while not stop.is_set():
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                now_s, alert = time.monotonic(), orjson.loads(message.value() or b"")
                if alert["rule"].startswith("crash"):
                    self.seen.setdefault(alert["seq"], now_s)
        consumer.close()

    def stop(self) -> None:
        """End the application."""
        self._process.terminate()
        self._process.wait()


class Load(threading.Thread):
    """Frames at ``rate`` a second and a crash record every CRASH_S, into the topics of every variant."""

    def __init__(self, bootstrap: str, variants: list[Variant]) -> None:
        super().__init__()
        self.rate, self.frames, self.stopped = 0, 0, threading.Event()
        self.crashed: dict[int, float] = {}
        self._variants, self._bodies = variants, bodies(scattered=False, second=0)
        self._frames = kafka.producer(bootstrap, {"linger.ms": 5, "compression.type": "lz4"})
        self._crashes = kafka.producer(bootstrap, {"linger.ms": 0})

    def run(self) -> None:
        """On the clock: what a tick could not send, the next one does."""
        last_s = crash_at_s = time.monotonic()
        owed = 0.0
        while not self.stopped.wait(TICK_S):
            now_s = time.monotonic()
            owed, last_s = owed + self.rate * (now_s - last_s), now_s
            for _ in range(int(owed)):
                self._frame()
            owed %= 1
            if self.rate and now_s >= crash_at_s:
                crash_at_s = now_s + CRASH_S
                self._crash()
            self._frames.poll(0)
            self._crashes.poll(0)
        self._frames.flush()

    def _frame(self) -> None:
        number, at_ms = self.frames % VEHICLES, time.time_ns() // 1_000_000
        body = self._bodies[number % len(self._bodies)]
        value = payload(number, self.frames // VEHICLES, at_ms - 1_000, body)
        for variant in self._variants:
            self._frames.produce(variant.topic("telemetry"), value, vehicle(number))
        self.frames += 1

    def _crash(self) -> None:
        number = len(self.crashed)
        head = {"vehicle_id": vehicle(number), "boot_id": 1, "seq": number, "crash_id": f"1-{number}"}
        record = orjson.dumps(head | {"event_ms": time.time_ns() // 1_000_000, "airbag_deployed": True})
        self.crashed[number] = time.monotonic()
        for variant in self._variants:
            self._crashes.produce(variant.topic("crash"), record, vehicle(number))


@contextmanager
def loaded(
    services: Services, changed: Mapping[str, Mapping[str, str]]
) -> Iterator[tuple[Load, list[Variant]]]:
    """All variants ready and their readers at work; the load does not flow yet."""
    stop = threading.Event()
    with ExitStack() as stack:
        variants = []
        for name, each in changed.items():
            variants.append(Variant(services, name, each))
            stack.callback(variants[-1].stop)
        load = Load(services.endpoints.kafka_bootstrap, variants)
        readers = [threading.Thread(target=variant.read_alerts, args=(stop,)) for variant in variants]
        for variant in variants:
            variant.until_ready()
        for thread in (load, *readers):
            thread.start()
            stack.callback(thread.join)
        stack.callback(stop.set)
        stack.callback(load.stopped.set)
        yield load, variants


def measure(load: Load, variants: list[Variant], seconds: float) -> dict[str, Found]:
    """One round. A crash record that is no alert LATE_S after it counts with how long it has waited."""
    before, first, begun = [each.cpu_s() for each in variants], load.frames, len(load.crashed)
    time.sleep(seconds)
    after, frames, crashes = (
        [each.cpu_s() for each in variants],
        load.frames - first,
        range(begun, len(load.crashed)),
    )
    late_s = time.monotonic() + LATE_S
    while (now_s := time.monotonic()) < late_s and not all(k in v.seen for v in variants for k in crashes):
        time.sleep(0.1)
    found = {}
    for each, was, now in zip(variants, before, after, strict=True):
        waits_ms = [1e3 * (each.seen.get(k, now_s) - load.crashed[k]) for k in crashes]
        cpu_us, compilers_us = (1e6 * (b - a) / frames for a, b in zip(was, now, strict=True))
        found[each.name] = Found(cpu_us, compilers_us, waits_ms)
    return found


def table(found: Mapping[int, list[dict[str, Found]]]) -> str:
    """A line a rate and variant."""
    lines = ["| frames/s | variant | CPU us a frame | of it compiling | crash to alert p50 | p99, ms |"]
    lines += ["|---|---|---|---|---|---|"]
    for rate, rounds in found.items():
        for name in rounds[0]:
            cpu = statistics.median(each[name].cpu_us for each in rounds)
            compiling = statistics.median(each[name].compilers_us for each in rounds)
            waits = sorted(ms for each in rounds for ms in each[name].waits_ms)
            p50, p99 = statistics.median(waits), waits[int(0.99 * len(waits))]
            lines.append(f"| {rate:,} | {name} | {cpu:.1f} | {compiling:.1f} | {p50:.0f} | {p99:.0f} |")
    return "\n".join(lines)


def main() -> None:
    """Start, load, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rates", default="1200,4000", help="frames/s, comma between them")
    parser.add_argument("--warm-up", type=float, default=60.0, help="s at the last rate, while Java compiles")
    parser.add_argument("--seconds", type=float, default=20.0, help="of a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--variant", action="append", default=[])
    asked = parser.parse_args()
    configure("instant-rate")
    rates = [int(rate) for rate in asked.rates.split(",")]
    changed: dict[str, dict[str, str]] = {SHIPPED: {}} | dict(map(changes, asked.variant))
    found: dict[int, list[dict[str, Found]]] = {rate: [] for rate in rates}
    with (
        tempfile.TemporaryDirectory(prefix="odograph-instant-") as folder,
        services_in(Path(folder)) as services,
        loaded(services, changed) as (load, variants),
    ):
        load.rate = rates[-1]
        time.sleep(asked.warm_up)
        for rate, rounds in found.items():
            load.rate = rate
            time.sleep(SETTLE_S)
            for _ in range(asked.rounds):
                rounds.append(measure(load, variants, asked.seconds))
                say(f"{rate}: " + ", ".join(f"{k} {f.cpu_us:.1f} us a frame" for k, f in rounds[-1].items()))
    print(table(found))


if __name__ == "__main__":
    main()
