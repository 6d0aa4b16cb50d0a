"""Two clocks on the whole chain: event to its row in a view, crash at the edge to its alert in Kafka."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

import numpy as np
import orjson
from confluent_kafka import Consumer, TopicPartition
from paho.mqtt import client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from infra.clients import kafka
from infra.clients.db import session
from infra.contract import messages, topics
from infra.settings.settings import Endpoints, Settings
from infra.stack.access import devices

_REPORTING = (
    "SELECT vehicle_id FROM serving.fleet_latest "
    "WHERE event_time > (SELECT max(event_time) FROM serving.fleet_latest) - INTERVAL '10 seconds' "
    "ORDER BY md5(vehicle_id) LIMIT 50"
)
"""By the newest row and not by the clock: a pipeline that lags must not leave the statistics."""
_NEWEST = "SELECT vehicle_id, event_time FROM serving.fleet_latest WHERE vehicle_id = ANY(%s)"
CHOOSE_S = 10.0
"""How often the vehicles that are watched are chosen anew: those of an earlier run report no more."""


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Of one latency; ms."""

    count: int
    p50_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float

    @classmethod
    def of(cls, values_ms: list[float]) -> Percentiles:
        """Of ``values_ms``; all NaN where there is none."""
        if not values_ms:
            return cls(0, *(float("nan"),) * 4)
        p50, p95, p99 = np.percentile(values_ms, (50, 95, 99))
        return cls(len(values_ms), *(round(float(ms), 1) for ms in (p50, p95, p99, max(values_ms))))


class _Probe(threading.Thread):
    """A measuring thread that runs between ``with`` and its end; an error in it is raised at the end."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.done = threading.Event()
        self.values_ms: list[float] = []
        self._error: BaseException | None = None

    def measure(self) -> None:
        """Adds to ``values_ms`` until ``done`` is set."""
        raise NotImplementedError

    def run(self) -> None:
        try:
            self.measure()
        except BaseException as error:  # noqa: BLE001  carried to the thread that asked
            self._error = error

    def __enter__(self) -> _Probe:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.done.set()
        self.join(timeout=30)
        if self._error is not None and kind is None:
            raise self._error


class ViewProbe(_Probe):
    """Polls the fleet's view; a latency is the wall clock at which a newer sample was seen, less its time.

    Fifty vehicles are watched: all of a large fleet, ten times a second, would be a load of their own.

    It holds the frame's own second (a frame is sent when its last sample is taken), the bridge, the log, the
    micro-batch and the commit; and up to one polling interval.
    """

    def __init__(self, endpoints: Endpoints, interval_s: float = 0.1) -> None:
        super().__init__("view-probe")
        self._url = endpoints.db_dashboard_url
        self._interval_s = interval_s

    def measure(self) -> None:
        newest: dict[str, float] = {}
        chosen: list[str] = []
        choose_s = 0.0
        with session(self._url, autocommit=True) as connection:
            while not self.done.wait(self._interval_s):
                if time.monotonic() >= choose_s:
                    chosen = [row[0] for row in connection.execute(_REPORTING).fetchall()] or chosen
                    choose_s = time.monotonic() + CHOOSE_S
                rows = connection.execute(_NEWEST, (chosen,)).fetchall()
                seen_s = time.time()
                for vehicle_id, event_time in rows:
                    event_s = event_time.timestamp()
                    if newest.get(vehicle_id, event_s) < event_s:
                        self.values_ms.append((seen_s - event_s) * 1000)
                    newest[vehicle_id] = event_s


class CrashProbe(_Probe):
    """Publishes crash records of a vehicle of its own and reads the alerts topic as any consumer would.

    A latency is the wall clock when a record's first alert was read, less that before its publishing; of one
    without an alert 10 s after the last record, how long it has waited.
    """

    vehicle_id = "XDGPR0BE0CRASH001"

    def __init__(self, settings: Settings, endpoints: Endpoints, interval_s: float = 0.5) -> None:
        super().__init__("crash-probe")
        self._settings = settings
        self._endpoints = endpoints
        self._interval_s = interval_s
        self._sent_s: dict[int, float] = {}
        """Wall clock of publishing by sequence number, of those without an alert."""

    def measure(self) -> None:
        consumer = _at_end(
            self._endpoints.kafka_bootstrap, topics.kafka_topic(self._settings.kafka.prefix, "alerts")
        )
        own = devices.gateway(self._settings, self._endpoints, "crash-probe", [self.vehicle_id])
        broker = own[0] if own else self._endpoints.mqtt
        client = mqtt.Client(CallbackAPIVersion.VERSION2)
        broker.log_in(client)
        client.connect(broker.host, broker.port)
        client.loop_start()
        try:
            self._drive(client, consumer)
        finally:
            client.loop_stop()
            client.disconnect()
            consumer.close()

    def _drive(self, client: mqtt.Client, consumer: Consumer) -> None:
        topic = topics.mqtt_topic(self._settings.mqtt.root, self.vehicle_id, "crash")
        boot_id, seq, due_s = int(time.time()), 0, time.monotonic()
        while not self.done.is_set() or (self._sent_s and time.monotonic() < due_s + 10):
            if time.monotonic() >= due_s and not self.done.is_set():
                self._sent_s[seq] = time.time()
                client.publish(topic, crash_message(self.vehicle_id, boot_id, seq), qos=1)
                seq, due_s = seq + 1, due_s + self._interval_s
            self._collect(consumer, boot_id)
        self.values_ms += [(time.time() - sent_s) * 1000 for sent_s in self._sent_s.values()]

    def _collect(self, consumer: Consumer, boot_id: int) -> None:
        message = consumer.poll(0.01)
        value = message.value() if message is not None and not message.error() else None
        if value is None:
            return
        alert = orjson.loads(value)
        if alert["vehicle_id"] != self.vehicle_id or alert["boot_id"] != boot_id:
            return
        sent_s = self._sent_s.pop(alert["seq"], None)
        if sent_s is not None:
            self.values_ms.append((time.time() - sent_s) * 1000)


def crash_message(vehicle_id: str, boot_id: int, seq: int) -> bytes:
    """A small, valid crash record: 40 km/h of delta-V in 110 ms, air bag deployed."""
    now_ms = time.time_ns() // 1_000_000
    record = {
        "schema": 1, "vehicle_id": vehicle_id, "boot_id": boot_id, "seq": seq, "crash_id": f"{boot_id}-{seq}",
        "event_ms": now_ms, "sent_ms": now_ms, "profile": "us563_2024", "pre_crash_dt_ms": 100,
        "pre_crash": {"speed_kmh": [50.0] * 200}, "delta_v_dt_ms": 10,
        "delta_v_kmh": [round(-40 * min(1.0, i / 11), 1) for i in range(26)],
        "delta_v_lat_kmh": None, "delta_v_max_kmh": -40.0, "delta_v_max_ms": 110.0,
        "airbag_deployed": True, "airbag_ms": 20.0, "belt_on": True, "warning_lamp_on": False,
        "ignition_cycle": 1, "multi_event": 1, "complete": True,
        "lat_deg": 48.137, "lon_deg": 11.575,
    }  # fmt: skip
    return orjson.dumps(record | {"sha256": messages.crash_digest(record)})


def _at_end(bootstrap: str, topic: str) -> Consumer:
    consumer = kafka.consumer(bootstrap, "crash-probe")
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    ends = [consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=10)[1] for p in partitions]
    consumer.assign([TopicPartition(topic, p, end) for p, end in zip(partitions, ends, strict=True)])
    return consumer
