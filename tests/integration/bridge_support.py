"""What the bridge's tests share: publish through the broker, read topics back, ask the health page."""

from __future__ import annotations

import contextlib
import json
import sys
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import orjson
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    ResourceType,
)

from infra.clients.kafka import LogEnds, LogReader
from infra.contract.topics import kafka_topic, mqtt_topic
from load_tests.drills import topic_admin
from load_tests.mqtt_flood import Flood, frame, vehicle_id
from tests.support import Lane, LaneProcess, eventually

T0_MS = 1_700_000_000_000
READY_S = 90.0
READ_S = 30.0


@dataclass(frozen=True, slots=True)
class Stored:
    """A record as it lies in Kafka."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes
    headers: dict[str, bytes]


def frames(lane: Lane, vehicles: int, count: int, first_seq: int = 0) -> list[tuple[bytes, bytes]]:
    """``count`` frames for each of ``vehicles`` vehicles, interleaved, ready to publish."""
    return [
        (topic_of(lane, vehicle), frame(vehicle, seq, T0_MS + 1000 * seq))
        for seq in range(first_seq, first_seq + count)
        for vehicle in range(vehicles)
    ]


def topic_of(lane: Lane, vehicle: int, channel: str = "telemetry") -> bytes:
    """The MQTT topic of a vehicle in this lane."""
    return mqtt_topic(lane.settings.mqtt.root, vehicle_id(vehicle), channel).encode()


def crash(vehicle: int, seq: int) -> bytes:
    """A small crash record."""
    head = {"schema": 1, "vehicle_id": vehicle_id(vehicle), "boot_id": 1, "seq": seq}
    body = {"crash_id": f"c{seq}", "event_ms": T0_MS, "sent_ms": T0_MS, "delta_v_kmh": [0.0, -20.0]}
    return orjson.dumps(head | body | {"pre_crash": {"speed_kmh": [50.0]}})


def publish(lane: Lane, messages: Iterable[tuple[bytes, bytes]]) -> int:
    """Publish at QoS 1; returns when the broker has acknowledged every one."""
    with Flood(lane.endpoints.mqtt_host, lane.endpoints.mqtt_port, f"{lane.name}-flood") as flood:
        return flood.publish(messages)


def read(lane: Lane, name: str) -> list[Stored]:
    """All records that lie in a topic now, partition after partition."""
    topic = kafka_topic(lane.settings.kafka.prefix, name)
    with LogReader(lane.endpoints.kafka_bootstrap, timeout_s=READ_S) as log:
        return [
            Stored(
                place,
                message.offset() or 0,
                message.timestamp()[1],
                message.key(),
                message.value() or b"",
                dict(message.headers() or []),  # type: ignore[arg-type]
            )
            for place, span in log.spans(topic).items()
            for message in log.messages(topic, place, *span)
        ]


def count(lane: Lane, name: str) -> int:
    """Records in a topic, by its offsets."""
    with LogEnds(lane.endpoints.kafka_bootstrap, lane.settings.kafka.prefix, READ_S) as log:
        return log.kept(name)


def sequences(records: Iterable[Stored]) -> dict[str, list[int]]:
    """Sequence numbers of each vehicle in stored order, each identity at its first place only."""
    seen: dict[str, dict[int, None]] = defaultdict(dict)
    for record in records:
        message = orjson.loads(record.value)
        seen[message["vehicle_id"]].setdefault(message["seq"])
    return {vehicle: list(numbers) for vehicle, numbers in seen.items()}


def all_in_order(vehicles: int, count: int) -> dict[str, list[int]]:
    """What ``sequences`` gives when nothing is lost and nothing is out of order."""
    return {vehicle_id(vehicle): list(range(count)) for vehicle in range(vehicles)}


def wait_stored(lane: Lane, name: str, distinct: int, deadline_s: float = 60.0) -> list[Stored]:
    """Until ``distinct`` different values lie in the topic; all its records."""

    def enough() -> list[Stored]:
        assert count(lane, name) >= distinct, f"{count(lane, name)} records"
        records = read(lane, name)
        assert len({(r.key, r.value) for r in records}) >= distinct, f"{len(records)} records"
        return records

    return eventually(enough, deadline_s, f"{distinct} distinct records in {name}")


def readiness(lane: Lane) -> tuple[int, dict[str, str]]:
    """Status and reasons of /readyz; (0, {}) while nobody listens."""
    url = f"http://127.0.0.1:{lane.endpoints.http_ports['bridge']}/readyz"
    try:
        with urllib.request.urlopen(url, timeout=5) as page:
            return page.status, json.load(page)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)
    except OSError:
        return 0, {}


def metric(lane: Lane, name: str) -> float:
    """The sum of a metric over its labels."""
    url = f"http://127.0.0.1:{lane.endpoints.http_ports['bridge']}/metrics"
    with urllib.request.urlopen(url, timeout=5) as page:
        lines = page.read().decode().splitlines()
    return sum(float(x.split()[-1]) for x in lines if x.startswith((f"{name}{{", f"{name} ")))


def wait_ready(lane: Lane) -> None:
    """Until the bridge says it is ready."""
    eventually(lambda: readiness(lane)[0] == 200, READY_S, "the bridge is ready")


@contextlib.contextmanager
def bridge(lane: Lane) -> Iterator[LaneProcess]:
    """A ready bridge."""
    with lane.process("bridge") as process:
        try:
            wait_ready(lane)
            yield process
        except AssertionError:
            sys.stderr.write(process.output())
            raise


def configure_topic(lane: Lane, name: str, key: str, value: str) -> None:
    """Change one setting of a topic while it is in use."""
    topic = kafka_topic(lane.settings.kafka.prefix, name)
    topic_admin.configure_topic(lane.endpoints.kafka_bootstrap, topic, key, value)


def topic_setting(lane: Lane, name: str, key: str) -> str:
    """One setting of a topic as it is in force."""
    topic = kafka_topic(lane.settings.kafka.prefix, name)
    admin = AdminClient({"bootstrap.servers": lane.endpoints.kafka_bootstrap})
    (future,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    return str(future.result(30)[key].value)


def delete_topic(lane: Lane, name: str) -> None:
    """Take a topic away."""
    topic_admin.delete_topic(lane.endpoints.kafka_bootstrap, kafka_topic(lane.settings.kafka.prefix, name))
