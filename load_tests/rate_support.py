"""What rate measurements need: CPU time by part and by process, and services of their own."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import TopicPartition

from infra.clients.kafka import consumer
from infra.clients.mqtt_broker import MqttBroker, opened
from infra.settings.settings import Endpoints, load
from infra.stack.access import devices
from infra.stack.downloads import cache
from infra.stack.downloads.fetch import fetch_all
from infra.stack.mosquitto import mosquitto
from infra.stack.processes import guarded
from infra.stack.service import Runner, Service, free_port
from infra.stack.stack import Stack
from load_tests.mqtt_flood import Flood, vehicle_id

TICKS = os.sysconf("SC_CLK_TCK")
FLOOD_S = 30.0
KAFKA_HEAP_MB = 512
ANSWER_S = 10.0


def cpu_s(task: int | Path) -> float:
    """User and system time of a process, or of a thread by its folder in /proc, so far, s."""
    fields = (Path("/proc") / str(task) / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def rss_mb(pid: int) -> float:
    """Peak resident memory, MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


@dataclass(slots=True)
class Clock:
    """CPU time by part; a part within another one counts for itself only."""

    spent_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    _open: list[str] = field(default_factory=list)
    _since_s: float = 0.0

    def time(self, owner: Any, method: str, part: str) -> None:
        """Count what a method of one object costs as ``part``."""
        inner: Callable[..., Any] = getattr(owner, method)

        def timed(*arguments: Any, **named: Any) -> Any:
            self._switch()
            self._open.append(part)
            try:
                return inner(*arguments, **named)
            finally:
                self._switch()
                self._open.pop()

        setattr(owner, method, timed)

    def _switch(self) -> None:
        now_s = time.process_time()
        if self._open:
            self.spent_s[self._open[-1]] += now_s - self._since_s
        self._since_s = now_s


@dataclass(frozen=True, slots=True)
class Broker:
    """A Mosquitto of its own, which may be killed and started again."""

    service: Service
    runner: Runner

    @property
    def port(self) -> int:
        """Where it listens, on loopback."""
        return self.service.port

    @property
    def pid(self) -> int:
        """Its process; 0 while it does not run."""
        found = self.runner.find(self.service.name)
        return found.pid if found else 0

    def start(self) -> None:
        """Bring it back; returns when it answers."""
        self.runner.start(self.service)


@contextmanager
def broker_in(home: Path) -> Iterator[Broker]:
    """A Mosquitto in ``home`` while the block runs."""
    folder = load(paths={"home": str(home)}).paths.cache
    fetch_all(folder, ("mosquitto",))
    with guarded(home):
        places = (home / "data" / "mosquitto", home / "config")
        service = mosquitto(cache.rootfs(folder), *places, free_port())
        broker = Broker(service, Runner(home))
        broker.start()
        try:
            yield broker
        finally:
            broker.runner.stop(service.name)


@dataclass(frozen=True, slots=True)
class Services:
    """A Mosquitto and a Kafka with the contract's topics, their addresses in ``home``."""

    home: Path
    endpoints: Endpoints
    prefix: str
    broker_pid: int
    kafka_pid: int
    gateway: MqttBroker

    def flood(self, client_id: str = "odograph-rate-flood") -> Flood:
        """A publisher; a secure broker takes it as a gateway of all vehicles."""
        return Flood("", 0, client_id, sock=opened(self.gateway, FLOOD_S))


@contextmanager
def services_in(home: Path, secure: bool = False) -> Iterator[Services]:
    """Mosquitto and Kafka in ``home`` while the block runs, and no database."""
    settings = load(paths={"home": str(home)}, kafka={"heap_mb": KAFKA_HEAP_MB}, secure=secure)
    stack = Stack(settings, lambda _: None, {}, ["mosquitto", "kafka"])
    fetch_all(settings.paths.cache, stack.embedded)
    with guarded(home):
        found = stack.up()
        broker, kafka = (stack.runner.find(name) for name in ("mosquitto", "kafka"))
        assert broker is not None
        assert kafka is not None
        named = {"gateway-flood": [*map(vehicle_id, range(devices.GATEWAY_VEHICLES))]}
        gateway = devices.connected_as(settings, found, named)[0] if secure else found.mqtt
        yield Services(home, found, settings.kafka.prefix, broker.pid, kafka.pid, gateway)
        stack.down()


class Ends:
    """How many records a topic has had: a context manager."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = consumer(bootstrap, "odograph-rate-ends")
        self.topic = topic
        found = self._consumer.list_topics(topic, timeout=ANSWER_S).topics[topic].partitions
        self._partitions = [TopicPartition(topic, number) for number in found]

    def __enter__(self) -> Ends:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def total(self) -> int:
        """The sum of the partitions' ends."""
        ends = [self._consumer.get_watermark_offsets(p, timeout=ANSWER_S) for p in self._partitions]
        return sum(end[1] for end in ends if end)
