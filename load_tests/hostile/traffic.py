"""Hostile messages on their way: over MQTT on all topics, past MQTT into Kafka, and what no broker takes."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import KafkaException, Producer

from edge_simulator.sending import mqtt_packets
from infra.clients import kafka
from infra.contract.topics import kafka_topic
from infra.settings.settings import Endpoints
from load_tests.hostile.grammar import KINDS, VIN, Body, bodies
from load_tests.mqtt_flood import Flood, vehicle_id

KAFKA_SHARE: Final = 0.1
BODIES: Final = 2000
"""Of each kind; seed and number make the rest."""
LARGE_BYTES: Final = 4096
LARGE_KEPT: Final = 0.04
"""Of larger bodies so many are sent: a million messages are to be a few GB."""
VEHICLES: Final = 500
"""That are named again and again; besides them every hundredth message names one of its own."""
CHUNK: Final = 250

UPLINK: Final = {"telemetry": 62, "mismatch": 9, "crash": 5, "status": 7, "odd": 8}
ELSEWHERE: Final = {"downlink": 5, "foreign": 4}
"""Topics by weight. What goes elsewhere is no message to the service: to vehicles, or below another root."""
DIRECT: Final = {"telemetry": 50, "crash": 10, "status": 12, "alerts": 14, "dead-letter": 14}
KIND_OF: Final = {"mismatch": "telemetry", "alerts": "alert", "dead-letter": "telemetry"}
ODD: Final = (
    b"", b"/", b"/%s", b"//telemetry",
    b"/%s/telemetry/", b"/%s/telemetry/more", b"/%s/Telemetry", b"/%s/unknown",
    b"/%s/crash/1", b"/x/status", b"/all/telemetry", b"/%s /telemetry",
    b"/\xf0\x9f\x9a\x97/telemetry", b"/../%s/status",
    b"/%s/" + b"x" * 60_000, b"/" + b"y" * 9000 + b"/telemetry", b"/1HGCM82633A00000I/telemetry", b"/%s/%s",
)  # fmt: skip
"""Below the root, where ``%s`` is a vehicle."""
FOREIGN: Final = (
    b"x",
    b"odograph",
    b"/odograph/v1/%s/telemetry",
    b"odograph/v2/%s/telemetry",
    b"$hostile/%s",
    b"a/b/c",
)
KEYS: Final = (None, b"", b"\xff\xfe", b"x" * 3000, b"key")
STAMPS: Final = (*(0,) * 40, 1, 1, 946_684_800_000, 946_684_800_000, 253_402_300_800_000, 1 << 62)
"""Kafka timestamps, ms; 0 is now."""


@dataclass(slots=True)
class Sent:
    """What was sent, by destiny. ``refused``: by a broker, so that it is nobody's to account for."""

    uplink: Counter[str] = field(default_factory=Counter)
    elsewhere: Counter[str] = field(default_factory=Counter)
    direct: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    sound: int = 0
    sent_bytes: int = 0

    @property
    def mqtt(self) -> int:
        """Messages that the MQTT broker has taken."""
        return self.uplink.total() + self.elsewhere.total()

    @property
    def total(self) -> int:
        """All of them."""
        return self.mqtt + self.direct.total() + self.refused.total()

    def mix(self) -> dict[str, int]:
        """Messages by where they went."""
        groups = (
            ("mqtt", self.uplink),
            ("mqtt", self.elsewhere),
            ("kafka", self.direct),
            ("refused", self.refused),
        )
        return {f"{name} {key}": count for name, found in groups for key, count in sorted(found.items())}


class Hostile:
    """Makes messages by number: the same seed and number, the same message but for its times."""

    def __init__(self, root: str, seed: int, count: int = BODIES) -> None:
        self._root = root.encode()
        self._rng = random.Random(f"traffic {seed}")
        self._bodies = {kind: self._of_bearable_size(kind, seed, count) for kind in KINDS}
        self._vins = [vehicle_id(100_000 + k).encode() for k in range(VEHICLES)]

    def _of_bearable_size(self, kind: str, seed: int, count: int) -> list[Body]:
        rng = random.Random(seed)
        made = bodies(kind, count, seed)
        return [body for body in made if len(body.raw) <= LARGE_BYTES or rng.random() < LARGE_KEPT]

    def vin(self, number: int) -> bytes:
        """Whose a message says it is."""
        return b"2HGCM82633A%06d" % (number % 10**6) if number % 100 == 0 else self._rng.choice(self._vins)

    def body(self, kind: str, vin: bytes, number: int) -> bytes:
        """A message of a kind, whatever is wrong with it."""
        return self._rng.choice(self._bodies[kind]).filled(vin, number, time.time_ns() // 1_000_000)

    def mqtt(self, where: str, number: int) -> tuple[bytes, bytes]:
        """Topic and payload for one of UPLINK or ELSEWHERE."""
        vin = self.vin(number)
        payload = self.body(
            KIND_OF.get(where, where if where in KINDS else self._rng.choice(KINDS)), vin, number
        )
        if where == "odd":
            return self._root + self._rng.choice(ODD).replace(b"%s", vin), payload
        if where == "foreign":
            return self._rng.choice(FOREIGN).replace(b"%s", vin), payload
        channel = self._rng.choice((b"alert", b"notice")) if where == "downlink" else where.encode()
        if where == "mismatch":
            return b"/".join((self._root, VIN.encode(), b"telemetry")), payload
        return b"/".join((self._root, vin, channel)), payload

    def kafka(
        self, topic: str, number: int
    ) -> tuple[bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]:
        """Key, value, timestamp and headers of a record by a stranger's producer."""
        rng, vin = self._rng, self.vin(number)
        kind = KIND_OF.get(topic, topic)
        value = None if rng.random() < 0.02 else self.body(kind, vin, number)
        key = vin if rng.random() < 0.7 else rng.choice(KEYS)
        odd: tuple[bytes | None, ...] = (
            None,
            b"",
            b"\xff",
            b"-1",
            b"9" * 40,
            b"rate_limited",
            b"x/telemetry",
            b"y" * 2000,
        )
        names = (
            "mqtt_topic",
            "received_ms",
            "schema",
            "reason",
            "detail",
            "reinjected_from",
            "",
            "x" * 300,
            "messages",
        )
        headers = [(rng.choice(names), rng.choice(odd)) for _ in range(rng.choice((0, 0, 1, 2, 8)))]
        return key, value, rng.choice(STAMPS), headers


def chunks(count: int, share: float, seed: int) -> Iterator[tuple[list[str], list[str]]]:
    """Where the messages of each chunk go: over MQTT, and into Kafka (a share of all)."""
    rng = random.Random(f"where {seed}")
    over, into = UPLINK | ELSEWHERE, DIRECT
    for first in range(0, count, CHUNK):
        size = min(CHUNK, count - first)
        direct = round((first + size) * share) - round(first * share)
        yield (
            rng.choices(list(over), list(over.values()), k=size - direct),
            rng.choices(list(into), list(into.values()), k=direct),
        )


@dataclass(slots=True)
class Sender:
    """Sends messages and counts what became of them at the brokers."""

    endpoints: Endpoints
    root: str
    prefix: str
    seed: int
    sent: Sent = field(default_factory=Sent)

    def send(
        self, count: int, rate: float, tick: Callable[[Sent], None], kafka_share: float = KAFKA_SHARE
    ) -> Sent:
        """Send ``count`` messages; ``tick`` is called after each chunk."""
        hostile = Hostile(self.root, self.seed, min(BODIES, count // 40 + 100))
        number, begun = 0, time.monotonic()
        host, port = self.endpoints.mqtt_host, self.endpoints.mqtt_port
        producer = kafka.producer(self.endpoints.kafka_bootstrap, {"linger.ms": 50})
        with Flood(host, port, f"hostile-{self.seed}", timeout_s=120) as flood:
            for over, into in chunks(count, kafka_share, self.seed):
                flood.publish(
                    [self._noted(hostile.mqtt(where, number + k), where) for k, where in enumerate(over)]
                )
                number += len(over)
                for topic in into:
                    self._produce(producer, topic, hostile.kafka(topic, number))
                    number += 1
                producer.poll(0)
                tick(self.sent)
                ahead_s = number / rate - (time.monotonic() - begun) if rate else 0.0
                time.sleep(max(0.0, ahead_s))
        producer.flush(60)
        for packets in broken(self.root, max(20, count // 4000), self.seed):
            self.sent.refused[_outcome(host, port, packets)] += 1
        return self.sent

    def _noted(self, message: tuple[bytes, bytes], where: str) -> tuple[bytes, bytes]:
        counter = self.sent.uplink if where in UPLINK else self.sent.elsewhere
        counter[where] += 1
        self.sent.sent_bytes += len(message[1])
        return message

    def _produce(self, producer: Producer, topic: str, record: Any) -> None:
        key, value, stamp, headers = record

        def reported(error: Any, _message: Any) -> None:
            if error is None:
                self.sent.direct[topic] += 1
            else:
                self.sent.refused[f"by Kafka: {error.name()}"] += 1

        self.sent.sent_bytes += len(value or b"")
        try:
            producer.produce(
                kafka_topic(self.prefix, topic),
                value,
                key,
                timestamp=stamp,
                headers=headers,
                on_delivery=reported,
            )
        except (KafkaException, BufferError) as error:
            self.sent.refused[f"by the Kafka client: {type(error).__name__}"] += 1


def broken(root: str, count: int, seed: int) -> Iterator[bytes]:
    """What a connection sends that no broker takes: wrong packets, wrong topics, packets too large."""
    rng = random.Random(f"broken {seed}")
    hello = mqtt_packets.connect("hostile-broken", 60)
    large = b"x" * (2 << 20)

    def publish(topic: bytes, payload: bytes = b"{}") -> bytes:
        return hello + b"".join(mqtt_packets.publish(mqtt_packets.text(topic), 1, payload))

    made: Sequence[Callable[[], bytes]] = (
        lambda: publish(b"x\x00y"), lambda: publish(b"+/x"), lambda: publish(b"#"), lambda: publish(b""),
        lambda: publish(b"\xff\xfe"), lambda: publish(b"/".join([b"x"] * 300)), lambda: publish(b"\x01/\x7f"),
        lambda: publish(root.encode() + b"/" + VIN.encode() + b"/telemetry", large),
        lambda: publish(root.encode() + b"/" + VIN.encode() + b"/crash", large),
        lambda: hello + b"\x32\xff\xff\xff\xff\x7f", lambda: hello + b"\x36\x05\x00\x01x\x00\x01",
        lambda: hello + b"\x32" + mqtt_packets.remaining_length(260_000_000) + b"\x00\x01x\x00\x01yyy",
        lambda: mqtt_packets.connect("h" * 40_000, 60),
        lambda: rng.randbytes(500), lambda: b"GET / HTTP/1.1\r\n\r\n",
        lambda: b"\x10\x00", lambda: hello + hello, lambda: hello + b"\x82\x00",
        lambda: b"\x10" + struct.pack(">B", 12) + b"\x00\x04MQTT\x09\x02\x00\x3c\x00\x00",
    )  # fmt: skip
    for k in range(count):
        yield made[k % len(made)]()


def _outcome(host: str, port: int, packets: bytes) -> str:
    """What the broker did: whether the connection was closed, or the packet just not acknowledged."""
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1.0) as sock:
        sock.sendall(packets)
        answer = b""
        with contextlib.suppress(TimeoutError):
            while piece := sock.recv(4096):
                answer += piece
                if b"\x40\x02\x00\x01" in answer[4:]:
                    return "acknowledged by the MQTT broker"
            return "closed by the MQTT broker"
        return "ignored by the MQTT broker"
    return "closed by the MQTT broker"
