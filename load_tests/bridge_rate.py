"""How fast the bridge is: messages/s and CPU microseconds a message, beside the bridge one would write first.

The broker's queue is filled while no bridge runs; then a bridge drains it alone, so that neither the
publisher nor its pace is part of the figure. With ``--rate`` messages come evenly at that rate while it runs.
What is stored is read from Kafka's offsets. CPU is the user and system time of the bridge's processes between
the first tenth and the last record. The variants take turns, so that what else the machine does falls on all.
Mosquitto and Kafka are this program's own.

``--secure``: the same bridge at a broker with certificates, in place of the naive one and of several; each
with services of its own, in turns.

Run: python -m load_tests.bridge_rate [--sizes 0.2,1,4] [--processes 1,2] [--rate 1200] [--repeats 5]
     [--secure] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from infra.contract.topics import kafka_topic
from infra.settings.sections import Mqtt
from infra.stack.access import devices
from load_tests.mqtt_flood import Flood, sized_messages
from load_tests.rate_support import Ends, Services, cpu_s, rss_mb, services_in

ROOT = Mqtt().root
VEHICLES = 2000
PROBED = 64
DEADLINE_S = 120.0
PROBE_S = 1.0
POLL_S = 0.02
PACE_S = 0.002
FIRST = 10
"""The first tenth is not timed."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A bridge to measure, with an MQTT root or services of its own: none collects another's messages."""

    name: str
    processes: int
    alone: bool = False

    @property
    def root(self) -> str:
        """Its MQTT root."""
        return ROOT if self.alone else f"{self.name}{self.processes}/v1"

    @property
    def vehicles(self) -> int:
        """In whose names messages are sent: of one gateway where certificates are asked for."""
        return devices.GATEWAY_VEHICLES if self.alone else VEHICLES

    def commands(self, services: Services, topic: str) -> list[tuple[list[str], dict[str, str]]]:
        """What to start, with the environment."""
        if self.name == "naive":
            e = services.endpoints
            words = [e.mqtt_host, str(e.mqtt_port), e.kafka_bootstrap, self.root, topic]
            return [([sys.executable, "-m", "load_tests.naive_bridge", *words], {})]
        command = [sys.executable, "-m", "infra.cli", "bridge"]
        own = {"ODOGRAPH_MQTT_ROOT": self.root, "ODOGRAPH_PATHS_HOME": str(services.home)}
        if self.processes == 1:
            return [(command, own)]
        several = own | {"ODOGRAPH_BRIDGE_SHARDS": str(self.processes)}
        return [(command, several | {"ODOGRAPH_BRIDGE_SHARD": str(k + 1)}) for k in range(self.processes)]


@dataclass(frozen=True, slots=True)
class Run:
    """One drain, or one steady rate. CPU per message of the bridge's processes, and of the two services."""

    variant: str
    processes: int
    size_kb: float
    messages_per_s: float
    cpu_us: float
    peak_mb: float
    broker_us: float
    kafka_us: float
    load: float


@dataclass(frozen=True, slots=True)
class Running:
    """A bridge at work and the topic it fills."""

    children: list[subprocess.Popen[bytes]]
    ends: Ends
    home: Path

    def wait(self, wanted: int, deadline_s: float = DEADLINE_S) -> int:
        """Until the topic holds ``wanted`` records, or more; raises RuntimeError when that does not come."""
        end_s = time.monotonic() + deadline_s
        while (now := self.ends.total()) < wanted:
            ended = [child.args for child in self.children if child.poll() is not None]
            if ended or time.monotonic() > end_s:
                why = f"{ended} ended" if ended else f"not within {deadline_s:g} s"
                raise RuntimeError(f"{wanted - now} records are missing: {why}\n{_last_words(self.home)}")
            time.sleep(POLL_S)
        return now


def _last_words(home: Path) -> str:
    return "\n".join(f"{log.name}: {log.read_text()[-500:]}" for log in sorted(home.glob("*-?.log")))


@contextmanager
def running(variant: Variant, services: Services, ends: Ends) -> Iterator[Running]:
    """The bridge's processes, their logs in the home."""
    with ExitStack() as ending:
        children = []
        for number, (command, own) in enumerate(variant.commands(services, ends.topic)):
            log = ending.enter_context((services.home / f"{variant.name}-{number}.log").open("wb"))
            env = {**os.environ, **own, "PYTHONWARNINGS": "ignore"}
            child = subprocess.Popen(command, stdout=log, stderr=log, env=env)
            ending.callback(child.wait, 60)
            ending.callback(child.terminate)
            children.append(child)
        yield Running(children, ends, services.home)


def establish(variant: Variant, services: Services, ends: Ends) -> None:
    """Let the bridge make its sessions: it has them when a burst from many vehicles arrives whole."""
    deadline_s = time.monotonic() + DEADLINE_S
    with running(variant, services, ends) as bridge, services.flood() as flood:
        while True:
            before = ends.total()
            flood.publish(sized_messages(variant.root, PROBED, PROBED, 0.2))
            with suppress(RuntimeError):
                bridge.wait(before + PROBED, PROBE_S)
                return
            if time.monotonic() > deadline_s:
                raise RuntimeError(f"{variant}: no message crosses\n{_last_words(services.home)}")


def paced(flood: Flood, messages: Sequence[tuple[bytes, bytes]], rate: float) -> None:
    """Publish at ``rate`` messages/s, each when it is due."""
    begun_s, sent = time.monotonic(), 0
    while sent < len(messages):
        due = min(len(messages), round((time.monotonic() - begun_s) * rate))
        sent += flood.publish(messages[sent:due])
        time.sleep(PACE_S)


def measure(
    variant: Variant, services: Services, ends: Ends, size_kb: float, count: int, rate: float | None
) -> Run:
    """Carry ``count`` messages, read the figures; without a ``rate`` they fill the broker's queue before."""
    start, first = ends.total(), count // FIRST
    messages = sized_messages(variant.root, variant.vehicles, count, size_kb)
    with services.flood() as flood:
        if rate is None:
            flood.publish(messages)
        with running(variant, services, ends) as bridge:
            if rate is not None:
                paced(flood, messages[:first], rate)
            begun = bridge.wait(start + first)
            pids = [child.pid for child in bridge.children]
            watched = [*pids, services.broker_pid, services.kafka_pid]
            begun_s, before = time.monotonic(), [cpu_s(pid) for pid in watched]
            if rate is not None:
                paced(flood, messages[first:], rate)
            bridge.wait(start + count)
            seconds, timed = time.monotonic() - begun_s, start + count - begun
            *own, broker, kafka = [
                (cpu_s(pid) - was) / timed * 1e6 for pid, was in zip(watched, before, strict=True)
            ]
            peak = sum(rss_mb(pid) for pid in pids)
    rates = (timed / seconds, sum(own), peak, broker, kafka, os.getloadavg()[0])
    return Run(variant.name, variant.processes, size_kb, *(round(value, 2) for value in rates))


def medians(runs: list[Run]) -> list[Run]:
    """Of each kind of run, the one whose figures are the medians."""
    kinds = {(run.size_kb, run.variant, run.processes): None for run in runs}
    found = []
    for kind in kinds:
        rows = [asdict(run) for run in runs if (run.size_kb, run.variant, run.processes) == kind]
        middle = {
            key: rows[0][key]
            if isinstance(rows[0][key], str)
            else statistics.median(row[key] for row in rows)
            for key in rows[0]
        }
        found.append(Run(**middle))
    return found


TITLE = "bridge   processes  KB   messages/s   CPU us   peak MiB   broker us   kafka us    load"


def line(run: Run) -> str:
    """A row of the table."""
    return (
        f"{run.variant:<9}{run.processes:>9g} {run.size_kb:>3g} {run.messages_per_s:>12,.0f} "
        f"{run.cpu_us:>8.1f} {run.peak_mb:>10.0f} {run.broker_us:>11.1f} {run.kafka_us:>10.1f} "
        f"{run.load:>7.1f}"
    )


def main() -> None:
    """Each run on stderr, the table of medians on stdout."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", default="0.2,1,4", help="KB of a message")
    parser.add_argument("--processes", default="1,2", help="bridges, each a process; several share slots")
    parser.add_argument("--rate", type=float, help="messages/s, steady [a filled queue is drained]")
    parser.add_argument("--messages", type=int, default=60_000, help="messages a run; at 4 KB half of them")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each kind")
    parser.add_argument("--secure", action="store_true", help="without and with certificates")
    parser.add_argument("--json", action="store_true", help="medians and runs as JSON on stdout")
    options = parser.parse_args()
    variants = [Variant("product", int(n)) for n in options.processes.split(",")] + [Variant("naive", 1)]
    if options.secure:
        variants = [Variant("open", 1, alone=True), Variant("secure", 1, alone=True)]
    runs, places = [], {}
    print(TITLE, file=sys.stderr)
    with ExitStack() as ending:
        for secure in (False, True) if options.secure else (False,):
            folder = ending.enter_context(tempfile.TemporaryDirectory(prefix="odograph-rate-"))
            services = ending.enter_context(services_in(Path(folder), secure))
            topic = kafka_topic(services.prefix, "telemetry")
            places[secure] = services, ending.enter_context(Ends(services.endpoints.kafka_bootstrap, topic))
        for variant in variants:
            establish(variant, *places[variant.name == "secure"])
        for size_kb in map(float, options.sizes.split(",")):
            count = options.messages if size_kb < 2 else options.messages // 2
            for variant in variants * options.repeats:
                place = places[variant.name == "secure"]
                runs.append(measure(variant, *place, size_kb, count, options.rate))
                print(line(runs[-1]), file=sys.stderr, flush=True)
    table = medians(runs)
    if options.json:
        print(json.dumps({"medians": [asdict(r) for r in table], "runs": [asdict(r) for r in runs]}))
    else:
        print("\n".join([TITLE, *map(line, table)]))


if __name__ == "__main__":
    main()
