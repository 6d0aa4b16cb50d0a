"""A load that flows while a fault is put in, and the moment at which all that can arrive has arrived."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import orjson
from confluent_kafka import Consumer

from infra.contract import topics
from infra.contract.errors import ServiceError
from infra.stack.mosquitto import broker_figures
from infra.stack.service import port_is_free
from load_tests.drills.evidence import tail
from load_tests.drills.site import POLL_S, Site, until
from load_tests.mqtt_flood import Flood, frame, vehicle_id

MARKER: Final = 999_999
MARK_AGAIN_S: Final = 10.0
DRAINED_S: Final = 120.0
QUIET_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Load:
    """Frames/s of the whole fleet, for how long, from which seed; half as many vehicles as frames/s.

    ``times`` is how often the fault is put in, where a drill repeats it.
    """

    rate: float
    duration_s: float
    seed: int = 1
    times: int = 1

    @property
    def vehicles(self) -> int:
        """How many report."""
        return max(10, round(self.rate / 2))

    def arguments(self, *more: str) -> tuple[str, ...]:
        """Options of ``odograph simulate``."""
        size = ("-c", f"{self.vehicles}", "--rate", f"{self.rate:g}", "--duration", f"{self.duration_s:g}s")
        return (*size, "--seed", f"{self.seed}", *more)


def flows(site: Site, run_id: str, acked: float, deadline_s: float) -> bool:
    """Wait until the broker has acknowledged so many frames of a run; False when the run ended before."""

    def reached() -> str:
        now = site.run_file(run_id)
        if now.get("acked", 0) >= acked:
            return "yes"
        return "ended" if now.get("ended_ms") else ""

    return until(reached, deadline_s, f"{acked:g} frames of {run_id} acknowledged") == "yes"


def finish(site: Site, run_id: str, deadline_s: float) -> None:
    """Wait for the simulator's end; raises ServiceError unless the broker has acknowledged all."""
    code = site.ended(run_id, deadline_s)
    if code != 0:
        raise ServiceError(f"drill: the simulator ended with {code}; log: {site.home}/logs/{run_id}.log")


def settle(site: Site, deadline_s: float) -> float:
    """Wait until the bridge has moved all that the broker holds; how long it took, s. Raises ServiceError.

    A marker published last comes last out of the broker's queue; when it is stored and nothing is in flight,
    what is missing stays missing.
    """
    begun = time.monotonic()
    numbers = itertools.count(time.time_ns() // 1000)
    last, marked_s = -1, -MARK_AGAIN_S
    consumer = tail(site.settings, site.endpoints)
    try:
        while time.monotonic() < begun + deadline_s:
            if time.monotonic() > marked_s + MARK_AGAIN_S:
                last, marked_s = next(numbers), time.monotonic()
                _mark(site, last)
            if _seen(consumer, last):
                until(
                    lambda: site.metrics().get("odograph_bridge_in_flight_messages") == 0,
                    deadline_s,
                    "nothing is in flight",
                )
                return round(time.monotonic() - begun, 2)
    finally:
        consumer.close()
    raise ServiceError(f"drill: the bridge does not drain the broker's queue within {deadline_s:g} s")


def drained(site: Site, bridges: Sequence[str]) -> None:
    """Wait until no broker that lives holds a message for the bridges, and they hold none.

    Not for ever: what a defect has left at a broker stays there, and is lost.
    """
    end_s = quiet_since_s = time.monotonic()
    end_s += DRAINED_S
    while time.monotonic() < end_s and time.monotonic() - quiet_since_s < QUIET_S:
        alive = [broker for broker in site.endpoints.brokers if not port_is_free(broker.port)]
        left = [site.metrics(name).get("odograph_bridge_in_flight_messages", 1.0) for name in bridges]
        if any(left) or broker_figures(*alive).queued:
            quiet_since_s = time.monotonic()
        time.sleep(POLL_S)


def _mark(site: Site, number: int) -> None:
    topic = topics.mqtt_topic(site.settings.mqtt.root, vehicle_id(MARKER), "telemetry").encode()
    now_ms = time.time_ns() // 1_000_000
    with Flood(site.endpoints.mqtt_host, site.endpoints.mqtt_port, f"drill-{number}") as flood:
        flood.publish([(topic, frame(MARKER, number, now_ms - 1000))])


def _seen(consumer: Consumer, number: int) -> bool:
    """Whether the marker has come, reading for a moment."""
    key = vehicle_id(MARKER).encode()
    for message in consumer.consume(2000, timeout=0.1):
        ours = message.error() is None and message.key() == key
        if ours and orjson.loads(message.value() or b"")["seq"] == number:
            return True
    return False
