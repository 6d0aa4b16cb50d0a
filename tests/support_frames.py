"""Frames by literal values and their way into a lane's Kafka, for tests of the jobs."""

from __future__ import annotations

import random
from typing import Any, Final

import orjson
from confluent_kafka import Producer

from infra.contract.signals import FAST, SLOW
from infra.contract.topics import kafka_topic
from tests.support import Lane

Record = tuple[int, bytes]
"""received_ms and payload."""

TOWN: Final = (
    (1, "arterial", 50.0, 4460.0, ((48.11, 11.50), (48.1105, 11.53), (48.11, 11.56))),
    (2, "arterial", 50.0, 4460.0, ((48.11, 11.56), (48.1105, 11.53), (48.11, 11.50))),
    (3, "arterial", 50.0, 4450.0, ((48.10, 11.52), (48.14, 11.5203))),
    (4, "arterial", 50.0, 4450.0, ((48.14, 11.5203), (48.10, 11.52))),
    (5, "local", 30.0, 4450.0, ((48.13, 11.50), (48.1302, 11.56))),
    (6, "local", 30.0, 4450.0, ((48.13011, 11.50), (48.13031, 11.56))),
    (7, "local", 30.0, 6000.0, ((48.10, 11.56), (48.14, 11.54))),
)
"""Streets where ``random_frame`` drives: id, class, limit, length, path. A bend, crossings, two one-way
streets 12 m apart, a diagonal one. None leads in a whole number of degrees: at the very limit of the angle
rounding would decide."""


def vin(number: int) -> str:
    """The VIN of a test vehicle."""
    return f"WDB1240001A{number:06d}"


def frame(
    vehicle: int, seq: int, t0_ms: int, *, dt_ms: int = 100, n: int = 10, boot_id: int = 1, **signals: Any
) -> dict[str, Any]:
    """A frame; a fast signal given as one number is that number in every sample."""
    fast = {s.name for s in FAST}
    values = {k: [v] * n if k in fast and not isinstance(v, list) else v for k, v in signals.items()}
    head = {
        "schema": 1,
        "vehicle_id": vin(vehicle),
        "boot_id": boot_id,
        "seq": seq,
        "t0_ms": t0_ms,
        "dt_ms": dt_ms,
        "n": n,
        "sent_ms": t0_ms + n * dt_ms,
    }
    return head | values


def random_frame(vehicle: int, seq: int, t0_ms: int, rng: random.Random, **head: int) -> dict[str, Any]:
    """A frame with every signal, some not available and some out of range."""

    def number(low: float, high: float) -> float | None:
        kind = rng.random()
        if kind < 0.05:
            return None
        return high * 1.5 + 1 if kind < 0.07 else round(rng.uniform(low, high), 7)

    n = head.get("n", 10)
    lat, lon = rng.uniform(48.10, 48.132), rng.uniform(11.50, 11.552)  # what is out of range is a jump too
    span = {"lat_deg": (lat, lat + 0.008), "lon_deg": (lon, lon + 0.008), "speed_kmh": (0, 60)}
    limits = {s.name: span.get(s.name, (s.minimum, s.maximum)) for s in (*FAST, *SLOW)}
    fast = {s.name: [number(*limits[s.name]) for _ in range(n)] for s in FAST if rng.random() > 0.05}
    slow: dict[str, Any] = {s.name: number(*limits[s.name]) for s in SLOW if s.kind == "number"}
    flags = {s.name: rng.choice([True, True, False, None]) for s in SLOW if s.kind == "flag"}
    codes = {s.name: ["P0128"] * rng.randrange(3) for s in SLOW if s.kind == "codes"}
    return frame(vehicle, seq, t0_ms, **head) | fast | slow | flags | codes


def send(lane: Lane, records: list[Record], topic: str = "telemetry") -> None:
    """Append the records to the lane's log, each stamped with its receive time, keyed by its vehicle."""
    producer = Producer(
        {
            "bootstrap.servers": lane.endpoints.kafka_bootstrap,
            "partitioner": "murmur2_random",
            "enable.idempotence": True,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    name = kafka_topic(lane.settings.kafka.prefix, topic)
    for received_ms, payload in records:
        producer.produce(name, value=payload, key=_key(payload), timestamp=received_ms)
        producer.poll(0)
    assert producer.flush(30) == 0


def _key(payload: bytes) -> bytes | None:
    try:
        return str(orjson.loads(payload)["vehicle_id"]).encode()
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
