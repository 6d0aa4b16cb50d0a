"""The bridge one would write first, to compare with: callback, produce, acknowledge in the delivery report.

QoS 1 in, ``acks=all`` and idempotent out, a persistent session, manual acknowledgements: the same delivery
guarantee while nothing goes wrong. It checks nothing, keeps no order of acknowledgements, knows no epochs and
no back-pressure but the broker's window. Run: python -m load_tests.naive_bridge MQTT_HOST MQTT_PORT BOOTSTRAP
ROOT TOPIC
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from functools import partial
from typing import Any

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from infra.clients.kafka import producer

WINDOW = 10_000
SESSION_S = 86_400
LOOP_S = 0.005


class NaiveBridge:
    """One thread, as the product's lane has: two would fight for the interpreter at every message."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._producer = producer(
            bootstrap,
            {
                "message.timeout.ms": 0,
                "linger.ms": 5,
                "compression.type": "lz4",
                "queue.buffering.max.messages": 4 * WINDOW,
            },
        )

    def on_connect(self, client: Client, root: str, *_: Any) -> None:
        """Subscribe to telemetry."""
        client.subscribe(f"{root}/s/+/+/telemetry", 1)

    def on_message(self, client: Client, _root: str, message: MQTTMessage) -> None:
        """Hand it on; the report acknowledges it."""
        received_ms = time.time_ns() // 1_000_000
        self._producer.produce(
            self._topic,
            bytes(message.payload),
            message.topic.split("/")[-2],
            on_delivery=partial(self._reported, client, message),
            timestamp=received_ms,
            headers=[("mqtt_topic", message.topic), ("received_ms", str(received_ms)), ("schema", "1")],
        )
        self._producer.poll(0)

    def _reported(self, client: Client, message: MQTTMessage, error: Any, _record: Any) -> None:
        if error is None:
            client.ack(message.mid, message.qos)

    def serve(self, client: Client, stop: threading.Event) -> None:
        """Receive and run delivery reports until the end."""
        while not stop.is_set():
            client.loop(LOOP_S)
            self._producer.poll(0)


def main() -> None:
    """Serve until SIGTERM."""
    host, port, bootstrap, root, topic = sys.argv[1:]
    bridge = NaiveBridge(bootstrap, topic)
    client = Client(
        CallbackAPIVersion.VERSION2,
        "odograph-naive",
        userdata=root,
        protocol=MQTTProtocolVersion.MQTTv5,
        manual_ack=True,
    )
    client.on_connect, client.on_message = bridge.on_connect, bridge.on_message
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    properties.SessionExpiryInterval, properties.ReceiveMaximum = SESSION_S, WINDOW
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    client.connect(host, int(port), 60, clean_start=False, properties=properties)
    bridge.serve(client, stop)


if __name__ == "__main__":
    main()
