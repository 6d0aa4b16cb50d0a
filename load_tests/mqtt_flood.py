"""A publisher that costs next to nothing: prebuilt QoS 1 packets sent in batches, their PUBACKs counted."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import chain, islice

import orjson

from edge_simulator.sending import mqtt_packets
from infra.contract.topics import mqtt_topic

BATCH = 500
KEEPALIVE_S = 60
VIN_PREFIX = "1HGCM82633A"


class FloodError(Exception):
    """The broker refused, or did not acknowledge in time."""


def vehicle_id(number: int) -> str:
    """A VIN for vehicle ``number``."""
    return f"{VIN_PREFIX}{number:06d}"


def frame(vehicle: int, seq: int, t0_ms: int, samples: int = 10, signals: int | None = None) -> bytes:
    """A frame of fast signals and 3 slow ones: 11 x 10 samples, about 1 KB, where nothing else is asked.

    ``signals``: so many fast ones and no slow ones.
    """
    wave = [((seq + i) * 37 + vehicle) % 100 for i in range(samples)]
    head: dict[str, object] = {
        "schema": 1,
        "vehicle_id": vehicle_id(vehicle),
        "boot_id": 1,
        "seq": seq,
        "t0_ms": t0_ms,
        "dt_ms": 1000 // samples,
        "n": samples,
        "sent_ms": t0_ms + 1000,
    }
    fast: dict[str, object] = {
        "speed_kmh": [50.25 + w / 10 for w in wave],
        "lat_deg": [48.137154 + w / 1e6 for w in wave],
        "lon_deg": [11.576124 + w / 1e6 for w in wave],
        "heading_deg": [90.5 + w for w in wave],
        "accel_long_mps2": [0.25] * samples,
        "accel_lat_mps2": [0.13] * samples,
        "yaw_rate_dps": [1.5] * samples,
        "accelerator_pct": [22.5] * samples,
        "brake_pct": [0] * samples,
        "steering_deg": [-3.5] * samples,
        "engine_rpm": [1800 + w for w in wave],
    }
    slow: dict[str, object] = {"coolant_temp_c": 88.5, "odometer_m": 123456, "battery_voltage_v": 13.9}
    if signals is not None:
        fast, slow = dict(list(fast.items())[:signals]), {}
    return orjson.dumps(head | fast | slow)


SHAPES = {0.2: (4, 2), 1.0: (10, None), 4.0: (52, None)}
"""Samples and signals of a frame of about so many KB."""


class Flood:
    """A connection that publishes as fast as the broker acknowledges; a context manager."""

    def __init__(
        self, host: str, port: int, client_id: str, timeout_s: float = 30.0, sock: socket.socket | None = None
    ) -> None:
        self._sock = sock or socket.create_connection((host, port), timeout=timeout_s)
        self._packet_id = 0
        self._sock.sendall(mqtt_packets.connect(client_id, KEEPALIVE_S))
        if self._receive(4) != b"\x20\x02\x00\x00":
            raise FloodError("the broker refused the connection")

    def __enter__(self) -> Flood:
        return self

    def __exit__(self, *_: object) -> None:
        with self._sock, suppress(ConnectionError):  # the broker may have closed it
            self._sock.sendall(mqtt_packets.DISCONNECT)

    def publish(self, messages: Iterable[tuple[bytes, bytes]]) -> int:
        """Publish (topic, payload) pairs, every one acknowledged by the broker; how many."""
        rest, count = iter(messages), 0
        while batch := list(islice(rest, BATCH)):
            packets = (mqtt_packets.publish(mqtt_packets.text(t), self._next_id(), p) for t, p in batch)
            self._sock.sendall(b"".join(chain.from_iterable(packets)))
            self._receive(4 * len(batch))
            count += len(batch)
        return count

    def _next_id(self) -> int:
        self._packet_id = self._packet_id % mqtt_packets.PACKET_IDS + 1
        return self._packet_id

    def _receive(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self._sock.recv(count - len(data))
            if not piece:
                raise FloodError("the broker closed the connection")
            data += piece
        return data


def sized_messages(root: str, vehicles: int, count: int, size_kb: float) -> Sequence[tuple[bytes, bytes]]:
    """``count`` frames of now, of one of the sizes in SHAPES, vehicle after vehicle."""
    samples, signals = SHAPES[size_kb]
    t0_ms = time.time_ns() // 1_000_000
    found = []
    for at in range(count):
        vehicle, seq = at % vehicles, at // vehicles
        topic = mqtt_topic(root, vehicle_id(vehicle), "telemetry").encode()
        found.append((topic, frame(vehicle, seq, t0_ms + 1000 * seq, samples, signals)))
    return found
