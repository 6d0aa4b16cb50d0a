"""How long a crash record takes from its publish to being readable in Kafka while telemetry is at its worst.

Three states of the telemetry lane: idle; full (a filled broker queue is drained flat out, all the while); and
blocked (its topic is gone, its window is full, nothing of it moves). A vehicle publishes a crash record every
PACE_S; a consumer that reads the crash topic notes when it sees it. Both are this program's, so one clock
measures. Mosquitto and Kafka are its own too.

Run: python -m load_tests.crash_lane [--crashes 200] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson
from confluent_kafka import TopicPartition

from infra.clients import kafka
from infra.contract.topics import kafka_topic, mqtt_topic
from load_tests.bridge_rate import Variant, establish, running
from load_tests.drills.site import until
from load_tests.mqtt_flood import sized_messages, vehicle_id
from load_tests.rate_support import Ends, Services, services_in

BRIDGE = Variant("product", 1)
PACE_S = 0.05
VEHICLES = 2000
BACKLOG = 40_000
WAIT_S = 60.0
SETTLE_S = 3.0
WARM_UP = 20


@dataclass(frozen=True, slots=True)
class Latency:
    """Of the crash records of one state, ms; ``telemetry_per_s`` that were stored meanwhile."""

    state: str
    crashes: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    telemetry_per_s: float
    load: float


class Reader:
    """Reads the crash topic in a thread; ``seen`` is when each sequence number became readable, s."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.seen: dict[int, float] = {}
        self._stop = threading.Event()
        self._consumer = kafka.consumer(bootstrap, "odograph-crash-lane", {"fetch.wait.max.ms": 100})
        partitions = self._consumer.list_topics(topic, timeout=10).topics[topic].partitions
        self._consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(0.2)
            if message is not None and message.error() is None:
                now_s = time.monotonic()
                self.seen.setdefault(orjson.loads(message.value() or b"")["seq"], now_s)


def crash(seq: int) -> bytes:
    """A small crash record."""
    now_ms = time.time_ns() // 1_000_000
    head = {"schema": 1, "vehicle_id": vehicle_id(1), "boot_id": 1, "seq": seq}
    body = {"crash_id": f"c{seq}", "event_ms": now_ms, "sent_ms": now_ms, "delta_v_kmh": [0.0, -20.0]}
    return orjson.dumps(head | body | {"pre_crash": {"speed_kmh": [50.0]}})


@contextmanager
def flooding(services: Services) -> Iterator[None]:
    """Telemetry flat out while the block runs: a queue filled before it, kept filled."""
    stop = threading.Event()
    with services.flood() as flood:
        messages = sized_messages(BRIDGE.root, VEHICLES, BACKLOG, 1.0)
        flood.publish(messages)

        def more() -> None:
            while not stop.is_set():
                flood.publish(messages[:2000])

        thread = threading.Thread(target=more)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


def measure(
    state: str, services: Services, reader: Reader, ends: Ends | None, first: int, count: int
) -> Latency:
    """``count`` crash records at a steady pace; ``ends`` of the telemetry topic where there is one."""
    topic = mqtt_topic(BRIDGE.root, vehicle_id(1), "crash").encode()
    sent: dict[int, float] = {}
    stored = ends.total() if ends else 0
    begun_s = time.monotonic()
    with services.flood("odograph-crash-vehicle") as vehicle:
        for at in range(count):
            time.sleep(max(0.0, begun_s + at * PACE_S - time.monotonic()))
            sent[first + at] = time.monotonic()
            vehicle.publish([(topic, crash(first + at))])
    seconds, stored = time.monotonic() - begun_s, (ends.total() if ends else 0) - stored
    until(lambda: all(seq in reader.seen for seq in sent), WAIT_S, "every crash record is readable")
    taken = sorted(1000 * (reader.seen[seq] - at_s) for seq, at_s in sent.items())
    figures = (taken[count // 2], taken[int(count * 0.99)], taken[-1], stored / seconds, os.getloadavg()[0])
    return Latency(state, count, *(round(value, 2) for value in figures))


def block(services: Services, topic: str) -> None:
    """Take telemetry's topic away and fill its window."""
    admin = kafka.admin(services.endpoints.kafka_bootstrap)
    for future in admin.delete_topics([topic]).values():
        future.result(10)
    with services.flood() as flood:
        flood.publish(sized_messages(BRIDGE.root, VEHICLES, BACKLOG, 1.0))
    time.sleep(SETTLE_S)


def states(services: Services, count: int) -> Iterator[Latency]:
    """The three states, one after another."""
    telemetry, crashes = (kafka_topic(services.prefix, name) for name in ("telemetry", "crash"))
    bootstrap = services.endpoints.kafka_bootstrap
    with Ends(bootstrap, telemetry) as ends:
        establish(BRIDGE, services, ends)
        with running(BRIDGE, services, ends) as bridge, Reader(bootstrap, crashes) as reader:
            measure("", services, reader, ends, 0, WARM_UP)
            yield measure("idle", services, reader, ends, 1000, count)
            with flooding(services):
                yield measure("full", services, reader, ends, 100_000, count)
            bridge.wait(ends.total())
            block(services, telemetry)
            yield measure("blocked", services, reader, None, 200_000, count)


TITLE = "telemetry   crashes   p50 ms   p99 ms   max ms   telemetry/s   load"


def line(found: Latency) -> str:
    """A row of the table."""
    return (
        f"{found.state:<10}{found.crashes:>9}{found.p50_ms:>9.1f}{found.p99_ms:>9.1f}{found.max_ms:>9.1f}"
        f"{found.telemetry_per_s:>14,.0f}{found.load:>7.1f}"
    )


def main() -> None:
    """A table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--crashes", type=int, default=400, help="crash records in each state")
    parser.add_argument("--json", action="store_true", help="as JSON on stdout")
    options = parser.parse_args()
    found = []
    print(TITLE, file=sys.stderr)
    with (
        tempfile.TemporaryDirectory(prefix="odograph-crash-") as folder,
        services_in(Path(folder)) as services,
    ):
        for state in states(services, options.crashes):
            found.append(state)
            print(line(state), file=sys.stderr, flush=True)
    print(json.dumps([asdict(s) for s in found]) if options.json else "\n".join([TITLE, *map(line, found)]))


if __name__ == "__main__":
    main()
