"""To the vehicles over MQTT: alerts, each committed after its PUBACK; and notices (``odograph notify``)."""

import os
import threading
import time
import uuid
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Final, Self

import structlog
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from bridge.downlink import feed as alerts
from bridge.downlink.feed import Destination, Feed, Process, Skip
from infra.clients.kafka import Record
from infra.clients.mqtt_broker import MqttBroker
from infra.contract import downlink
from infra.contract.errors import ConfigError, ContractError, ServiceError
from infra.contract.frame import Frame
from infra.contract.topics import EVERYBODY, mqtt_topic
from infra.settings.settings import Endpoints, Settings

NAME: Final = "vehicles"
IN_FLIGHT: Final = 500
READ_S: Final = 0.05
PUBACK_S: Final = 30.0
DRAIN_S: Final = 5.0
NOTICE_S: Final = 10.0
REJOIN_S: Final = 30.0

KEEPALIVE_S: Final = 15
CONNECT_S: Final = 5.0
NO_SUBSCRIBER: Final = 0x10
REFUSED: Final = 0x80
EXPIRY_MOST_S: Final = 0xFFFF_FFFF  # MQTT has 32 bits for it
BUSY: Final = frozenset({0x88, 0x89, 0x93, 0x97})
"""Server unavailable, busy, receive maximum, quota: the message is to be offered again, not given up."""


@dataclass(slots=True)
class Sent:
    """A message on its way: to how many brokers, and the reason codes of the PUBACKs that came."""

    brokers: int
    codes: list[int] = field(default_factory=list)

    @property
    def code(self) -> int | None:
        """What all brokers answer, None until they have: busy if one is, else the best, for the vehicle is
        at one of them.
        """
        if len(self.codes) < self.brokers:
            return None
        return next((code for code in self.codes if code in BUSY), min(self.codes))


class MqttOut:
    """A connection that publishes at QoS 1 and never reconnects; its PUBACKs go into ``acks``.

    ``sent`` has the messages without a PUBACK by packet id; it belongs to the thread that publishes.
    """

    def __init__(
        self, broker: MqttBroker, client_id: str, acks: "SimpleQueue[tuple[MqttOut, int, int]]"
    ) -> None:
        self._broker = broker
        self._answered = threading.Event()
        self._trouble: str | None = "not connected yet"
        self.sent: dict[int, Sent] = {}
        version, protocol = CallbackAPIVersion.VERSION2, MQTTProtocolVersion.MQTTv5
        self._client = client = Client(version, client_id, protocol=protocol, reconnect_on_failure=False)
        client.connect_timeout = CONNECT_S
        broker.log_in(client)
        client.on_connect = lambda _c, _data, _flags, code, _p: self._told(code if code.is_failure else None)
        client.on_disconnect = lambda _client, _data, _flags, code, _props: self._told(code)
        client.on_publish = lambda _client, _data, mid, code, _props: acks.put((self, mid, int(code.value)))

    def _told(self, trouble: object) -> None:
        self._trouble = None if trouble is None else str(trouble)
        self._answered.set()

    def connect(self) -> Self:
        """Raises ServiceError where the broker does not take us in."""
        broker = self._broker
        try:
            self._client.connect(broker.host, broker.port, KEEPALIVE_S, clean_start=True)
        except OSError as error:
            raise ServiceError(f"MQTT broker: {broker.trouble(error)}") from error
        self._client.loop_start()
        if not self._answered.wait(CONNECT_S) or self._trouble is not None:
            self._client.loop_stop()
            raise ServiceError(f"MQTT broker {broker} does not take us in: {self._trouble}")
        return self

    def publish(self, sent: Sent, topic: str, payload: bytes, properties: Properties, retain: bool) -> None:
        info = self._client.publish(topic, payload, qos=1, retain=retain, properties=properties)
        if info.rc not in (MQTTErrorCode.MQTT_ERR_SUCCESS, MQTTErrorCode.MQTT_ERR_NO_CONN):
            raise ServiceError(f"the MQTT client refuses a message: {info.rc.name}")
        self.sent[info.mid] = sent

    def check(self) -> None:
        """Raises ServiceError when the connection has ended."""
        if self._trouble is not None:
            raise ServiceError(f"MQTT connection lost: {self._trouble}")

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


class AllBrokers:
    """Publishes at every broker that takes us in, for a vehicle may be at any.

    A connection that ends is everybody's end; a broker that was away is tried again every REJOIN_S. Raises
    ServiceError where none takes us in.
    """

    def __init__(self, brokers: Sequence[MqttBroker], client_id: str) -> None:
        self._away, self._client_id = list(brokers), client_id
        self._outs: list[MqttOut] = []
        self._acks: SimpleQueue[tuple[MqttOut, int, int]] = SimpleQueue()
        self._rejoin_s = 0.0

    def __enter__(self) -> Self:
        self._join()
        return self

    def _join(self) -> None:
        self._rejoin_s = time.monotonic() + REJOIN_S
        missing, self._away = self._away, []
        for broker in missing:
            try:
                self._outs.append(MqttOut(broker, self._client_id, self._acks).connect())
            except ServiceError as error:
                self._away.append(broker)
                if not self._outs and len(self._away) == len(missing):
                    raise
                structlog.get_logger().warning("broker away", why=str(error))

    def publish(self, topic: str, payload: bytes, valid_s: int, retain: bool = False) -> Sent:
        """Send; brokers forget it after ``valid_s``."""
        self.check()
        properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        properties.MessageExpiryInterval = min(max(1, valid_s), EXPIRY_MOST_S)
        sent = Sent(len(self._outs))
        for out in self._outs:
            out.publish(sent, topic, payload, properties, retain)
        return sent

    def hear(self, wait_s: float) -> bool:
        """Take in the PUBACKs that are there, waiting for the first one; whether there were any."""
        heard = False
        with suppress(Empty):
            while True:
                out, packet_id, code = self._acks.get(timeout=0 if heard else wait_s)
                out.sent.pop(packet_id).codes.append(code)
                heard = True
        return heard

    def check(self) -> None:
        """Raises ServiceError when a connection has ended."""
        if self._away and time.monotonic() > self._rejoin_s:
            self._join()
        for out in self._outs:
            out.check()

    def __exit__(self, *_: object) -> None:
        for out in self._outs:
            out.close()


class Vehicles(Destination):
    """One connection and one order for all vehicles: whatever fails, it begins again at the last commit."""

    def __init__(self, process: Process) -> None:
        super().__init__(NAME, process)
        settings = process.settings
        self._brokers, self._root = process.endpoints.brokers, settings.mqtt.root
        self._client_id = f"{settings.bridge.client_id}-downlink"
        self._signer = downlink.signer(settings)
        self._flight: deque[tuple[Record, Sent | None]] = deque()
        self._heard_s = 0.0

    def serve(self) -> None:
        """Deliver until trouble (KafkaException, ServiceError) or ``stop``."""
        flight, out_by = self._flight, AllBrokers(self._brokers, self._client_id)
        flight.clear()
        with self.feed(NAME, whole=self.regions) as feed, self.incidents() as known, out_by as out:
            self.ready()
            while not self.stop.is_set():
                room = IN_FLIGHT - len(flight)
                for record, alert in self.read(feed, known, room, READ_S) if room else ():
                    flight.append((record, self._publish(out, record, alert) if alert else None))
                self._settle(feed, out, 0 if room else READ_S)
                self.metrics.lag.labels(NAME).set(feed.lag())
            deadline_s = time.monotonic() + DRAIN_S
            while flight and time.monotonic() < deadline_s:
                self._settle(feed, out, READ_S)

    def _settle(self, feed: Feed, out: AllBrokers, wait_s: float) -> None:
        """Take from the head of what is in flight what needs no answer or has it, and commit it."""
        if out.hear(wait_s) or not self._flight:
            self._heard_s = time.monotonic()
        moved: dict[int, int] = {}
        try:
            while self._flight:
                record, sent = self._flight[0]
                if sent is not None:
                    if (code := sent.code) is None:
                        break
                    self._answered(record, code)
                self._flight.popleft()
                moved[record.partition] = record.offset + 1
        finally:
            feed.commit(moved)
        out.check()
        if self._flight and time.monotonic() - self._heard_s > PUBACK_S:
            raise ServiceError(f"no PUBACK for {PUBACK_S:g} s")

    def _publish(self, out: AllBrokers, found: Record, alert: Frame) -> Sent | None:
        """Publish the alert; None where it was skipped or given up."""
        now_ms = time.time_ns() // 1_000_000
        valid_s = alerts.valid_s(alert, now_ms)
        reason: Skip | None = alerts.suppressed(alert, self.silences, now_ms)
        if reason is None and (alerts.late(alert) or valid_s <= 0):
            reason = "late" if alerts.late(alert) else "stale"
        if reason is not None:
            self.skip(reason)
            return None
        message = downlink.encode_alert(alert, now_ms, now_ms + 1000 * valid_s)
        topic = mqtt_topic(self._root, alert["vehicle_id"], "alert")
        self.stop.require()
        try:
            return out.publish(topic, self._signer.sealed("alert", message), valid_s)
        except ValueError as error:  # the MQTT client cannot carry the message
            self.give_up(found, f"{type(error).__name__}: {error}")
            return None

    def _answered(self, found: Record, code: int) -> None:
        """Delivered, or given up; raises ServiceError where a broker is busy."""
        if code in BUSY:
            raise ServiceError(f"the broker takes no more for now (PUBACK 0x{code:02x})")
        if code >= REFUSED:
            self.give_up(found, f"the broker refuses it (PUBACK 0x{code:02x})")
        else:
            self.metrics.nobody.inc(code == NO_SUBSCRIBER)
            self.delivered(found)


def notify(
    settings: Settings, endpoints: Endpoints, text: str, severity: str, vehicles: Sequence[str], valid_s: int,
    keep: bool,
) -> str:  # fmt: skip
    """Publish a notice to vehicles (none named: to all); its id, once the brokers have acknowledged it.

    The broker holds it for ``valid_s``; ``keep``: retained for that time. Raises ConfigError, ServiceError.
    """
    notice_id, now_ms, signer = uuid.uuid4().hex, time.time_ns() // 1_000_000, downlink.signer(settings)
    terms = (severity, text, now_ms, now_ms + 1000 * valid_s)
    try:
        messages = {to: downlink.encode_notice(notice_id, to, *terms) for to in vehicles or (EVERYBODY,)}
    except ContractError as error:
        raise ConfigError(f"the notice cannot be sent: {error.detail}") from error
    with AllBrokers(endpoints.brokers, f"odograph-notify-{os.getpid()}") as out:
        sent = [
            out.publish(
                mqtt_topic(settings.mqtt.root, to, "notice"), signer.sealed("notice", message), valid_s, keep
            )
            for to, message in messages.items()
        ]
        deadline_s = time.monotonic() + NOTICE_S
        for each in sent:
            while each.code is None and time.monotonic() < deadline_s:
                out.hear(READ_S)
                out.check()
        codes = [code for each in sent if (code := each.code) is not None]
        if len(codes) < len(sent):
            raise ServiceError(f"the broker acknowledged {len(codes)} of {len(sent)} within {NOTICE_S:g} s")
        refused = [code for code in codes if code >= REFUSED]
        if refused:
            raise ServiceError(
                f"the broker refuses {len(refused)} of {len(sent)} (PUBACK 0x{refused[0]:02x})"
            )
    return notice_id
