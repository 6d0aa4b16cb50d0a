"""Vehicles that said ``online`` and send nothing: the service says ``silent`` in their place. And vehicles of
which telemetry is put off while there is overload.

All that is known of them is the compacted topic ``status``, read from its beginning and followed. A state
follows from the vehicle's own last status and when it was last heard; where the log differs, it is corrected.
Whose telemetry is put off follows from its class there and from the topic ``policy``.
"""

import threading
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, Final

import orjson
import structlog
from confluent_kafka import Producer
from prometheus_client import CollectorRegistry, Counter, Gauge

from bridge.uplink.lane import BaseLane
from bridge.uplink.translate import SCHEMA_HEADER, receipt, region_header
from infra.clients import kafka
from infra.contract import topics
from infra.contract.errors import ContractError
from infra.contract.messages import STATUS_STATES, Deferral, decode_status
from infra.settings.settings import Endpoints, Settings

POLL_S: Final = 1.0
JUDGE_S: Final = 5.0
RETRY_S: Final = 2.0
ASK_S: Final = 5.0
BATCH: Final = 1000
WRITE_AT_ONCE: Final = 10_000  # records in one turn: the producer's queue (100,000) holds them

VEHICLES_KEPT: Final = 50_000
"""Vehicles that are watched over; with more the first one goes, and is never called silent."""
REWRITE_AFTER_MS: Final = 30_000  # a record of ours that is not back by then got lost, and is written again

Status = tuple[str, bytes]  # vehicle id and the record's value


@dataclass(slots=True)
class _Vehicle:
    """``own`` is the vehicle's last status, received at ``own_ms`` in ``region``; ``stands`` the log's state,
    empty where that is older; ``heard_ms`` by the receive clock.
    """

    own: dict[str, Any]
    own_ms: int
    region: str
    stands: str
    heard_ms: int
    since_ms: int = 0  # when it was last heard before the log's last record called it silent
    written_ms: int | None = None  # when we wrote something that was not read back yet


@dataclass(slots=True)
class Calm:
    """Since when messages could arrive without a break, by the receive clock; None while they cannot."""

    since_ms: int | None = None
    _epoch: int | None = None

    def look(self, now_ms: int, epoch: int | None) -> None:
        """``epoch`` as of BaseLane.listens: what broke and came back between two looks counts as a break."""
        if epoch != self._epoch:
            self._epoch, self.since_ms = epoch, None if epoch is None else now_ms


@dataclass(slots=True)
class Watch:
    """The vehicles of a bridge. ``silent_ms``: so long may an online vehicle send nothing."""

    silent_ms: int
    forgotten: int = 0  # vehicles that went because there were too many
    _vehicles: dict[str, _Vehicle] = field(default_factory=dict)

    def of_classes(self, classes: Collection[str]) -> frozenset[str]:
        found = (v for v, known in self._vehicles.items() if known.own.get("vehicle_class") in classes)
        return frozenset(found if classes else ())

    def hear(self, vehicle_id: str, at_ms: int) -> None:
        """A lane heard the vehicle, which may be none that is watched over."""
        if vehicle := self._vehicles.get(vehicle_id):
            vehicle.heard_ms = max(vehicle.heard_ms, at_ms)

    @property
    def silent(self) -> int:
        return sum(vehicle.stands == "silent" for vehicle in self._vehicles.values())

    def note(self, vehicle_id: str, value: bytes, at_ms: int, region: str = "") -> None:
        """A record of the log, in its order; ``at_ms`` its timestamp, not after now by our clock, and
        ``region`` whose bridge wrote it. What is no status is passed over.

        Times of two bridges' clocks say nothing of their order: within a region that of the log holds. From
        the other one's log an older word comes behind newer ones, after a failover: it changes nothing but
        what the log says, which is put right.
        """
        if not value:
            self._vehicles.pop(vehicle_id, None)
            return
        try:
            status = decode_status(value, STATUS_STATES)
        except ContractError:
            return  # the event store reads the same record and sends it to the dead letters
        state, known = status["state"], self._vehicles.get(vehicle_id)
        since_ms = min(at_ms, status.pop("since_ms", 0)) if state == "silent" else 0
        if known is None:
            if len(self._vehicles) >= VEHICLES_KEPT:
                del self._vehicles[next(iter(self._vehicles))]
                self.forgotten += 1
            # A silent one's own word may be gone by compaction: it was online.
            own, heard_ms = (status | {"state": "online"}, since_ms) if state == "silent" else (status, at_ms)
            self._vehicles[vehicle_id] = _Vehicle(own, heard_ms, region, state, heard_ms, since_ms)
            return
        if region != known.region and at_ms < known.own_ms:
            state = ""
        elif state == "silent":  # our record, or that of an earlier bridge
            known.since_ms = since_ms
        elif status != known.own:
            known.own, known.own_ms, known.region = status, at_ms, region
            known.heard_ms = max(known.heard_ms, at_ms)
        elif known.written_ms is None:  # else it may be our record
            known.own_ms, known.region = at_ms, region
        known.stands, known.written_ms = state, None

    def judge(self, now_ms: int, calm_since_ms: int | None) -> Iterator[Status]:
        """The records to write; none soon after a break of ours."""
        for vehicle_id, vehicle in self._vehicles.items():
            if vehicle.written_ms is not None and now_ms - vehicle.written_ms < REWRITE_AFTER_MS:
                continue
            state = self._right(vehicle, now_ms, calm_since_ms)
            if state != vehicle.stands:
                vehicle.written_ms = now_ms
                ours = {"state": "silent", "since_ms": vehicle.heard_ms} if state == "silent" else {}
                yield vehicle_id, orjson.dumps(vehicle.own | ours)

    def _right(self, vehicle: _Vehicle, now_ms: int, calm_since_ms: int | None) -> str:
        own = str(vehicle.own["state"])
        if own != "online":
            return own
        if vehicle.stands == "silent":
            return "online" if vehicle.heard_ms > vehicle.since_ms else "silent"
        if calm_since_ms is None or now_ms - max(vehicle.heard_ms, calm_since_ms) < self.silent_ms:
            return own
        return "silent"


class SilenceWatch:
    """Watches the log in a thread of its own over our slots' vehicles; ``lanes[0]`` must listen."""

    def __init__(
        self, settings: Settings, endpoints: Endpoints, lanes: Sequence[BaseLane], registry: CollectorRegistry
    ) -> None:
        self._bootstrap = endpoints.kafka_bootstrap
        prefix = settings.kafka.prefix
        self._topic, self._policy = (topics.kafka_topic(prefix, name) for name in ("status", "policy"))
        self._silent_s, self._root = settings.bridge.silent_s, settings.mqtt.root
        self._region = region_header(settings.region.name)
        self._unslotted: dict[str, str] = {}
        self._lanes = lanes
        self._calm = Calm()

        def gauge(name: str, meaning: str) -> Gauge:
            return Gauge(f"odograph_bridge_{name}", meaning, registry=registry)

        self._silent = gauge("silent_vehicles", "Online, and silent.")
        self._forgotten = gauge("silence_forgotten", "Vehicles not watched over: too many.")
        meaning = "Status records in the service's name."
        self._words = Counter("odograph_bridge_status_words", meaning, registry=registry)

    def run(self, stop: threading.Event) -> None:
        """Watch until ``stop``; begin anew when Kafka was lost, or with other slots."""
        log = structlog.get_logger()
        while not stop.is_set():
            try:
                self._follow(stop)
            except kafka.LOST as error:
                log.info("no watch over silent vehicles", why=str(error))
            except Exception:  # the bridge carries messages, watch or no watch
                log.error("defect in the watch over silent vehicles", exc_info=True)
            stop.wait(RETRY_S)

    def _follow(self, stop: threading.Event) -> None:
        watch, deferral = Watch(round(1000 * self._silent_s)), Deferral()
        every_s, lane = min(JUDGE_S, self._silent_s / 4), self._lanes[0]
        judge_s, ours = 0.0, lane.wanted

        def take(record: kafka.Record) -> None:
            nonlocal deferral
            key, topic = record.key or "", record.headers.get(topics.HEADER_MQTT_TOPIC, "")
            if record.topic == self._policy:
                with suppress(ContractError):  # of a later version: what is known stands
                    deferral = Deferral.decode(record.value)
            elif self._slot(key, topic) in ours or None in ours:
                at_ms = min(record.received_ms, time.time_ns() // 1_000_000)
                watch.note(key, record.value, at_ms, record.headers.get(topics.HEADER_REGION, ""))
            else:
                watch.note(key, b"", 0)  # it may have been ours, by its other form of topic

        producer = kafka.producer(self._bootstrap, {"message.timeout.ms": 10_000})
        both = (self._topic, self._policy)
        with kafka.following(self._bootstrap, "odograph-bridge-silence", both, take) as more:
            while not stop.is_set() and lane.wanted == ours:
                more(BATCH, min(POLL_S, every_s))
                now_ms = time.time_ns() // 1_000_000
                self._calm.look(now_ms, lane.listens())
                if time.monotonic() >= judge_s:
                    judge_s = time.monotonic() + every_s
                    for route in chain.from_iterable(each.translator.routes() for each in self._lanes):
                        watch.hear(route.vehicle_id, route.seen_ms)
                    self._forgotten.set(watch.forgotten)
                    self._write(producer, watch.judge(now_ms, self._calm.since_ms))
                    self._silent.set(watch.silent)
                    lane.translator.show_every_ms = round(1000 * deferral.show_every_s)
                    lane.translator.deferred = watch.of_classes(deferral.classes)
            producer.flush(ASK_S)

    def _write(self, producer: Producer, records: Iterable[Status]) -> None:
        """Write records in the service's name, as many as a turn may; the rest is for the next one."""
        now_ms = time.time_ns() // 1_000_000
        for vehicle_id, value in islice(records, WRITE_AT_ONCE):
            headers: list[tuple[str, str | bytes | None]] = [receipt(now_ms), SCHEMA_HEADER, *self._region]
            if vehicle_id in self._unslotted:  # the record must say in which topic the vehicle speaks
                headers.append((topics.HEADER_MQTT_TOPIC, self._unslotted[vehicle_id].encode()))
            producer.produce(self._topic, value, vehicle_id.encode(), timestamp=now_ms, headers=headers)
            self._words.inc()
        producer.poll(0)

    def _slot(self, vehicle_id: str, topic: str) -> int:
        """The slot that a vehicle's messages come in; of our own words as well, which name its topic."""
        if topic.startswith(f"{self._root}/{topics.SLOT_LEVEL}/"):
            self._unslotted.pop(vehicle_id, None)
        elif topic:
            self._unslotted[vehicle_id] = topic
        return topics.UNSLOTTED if vehicle_id in self._unslotted else topics.slot_of(vehicle_id)
