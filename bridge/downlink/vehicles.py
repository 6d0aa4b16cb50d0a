"""To the vehicles over MQTT: alerts, each committed after its PUBACK; and notices (``odograph notify``)."""

import os
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Self

import structlog
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from bridge.downlink import feed as alerts
from bridge.downlink.feed import Destination, Feed, Process, Skip
from bridge.downlink.incidents import Ask
from infra.clients.kafka import Record
from infra.clients.mqtt_broker import MqttBroker
from infra.clients.waiting import looks
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
POLL_S: Final = 0.01
REJOIN_S: Final = 30.0

KEEPALIVE_S: Final = 15
CONNECT_S: Final = 5.0
NO_SUBSCRIBER: Final = 0x10
REFUSED: Final = 0x80
EXPIRY_MOST_S: Final = 0xFFFF_FFFF  # MQTT has 32 bits for it
BUSY: Final = frozenset({0x88, 0x89, 0x93, 0x97})
"""Server unavailable, busy, receive maximum, quota: the message is to be offered again, not given up."""


class MqttOut:
    """A connection that publishes at QoS 1 and never reconnects; ``acks`` has (packet id, reason code)."""

    def __init__(self, broker: MqttBroker, client_id: str) -> None:
        self._broker = broker
        self._answered = threading.Event()
        self._trouble: str | None = "not connected yet"
        self.acks: deque[tuple[int, int]] = deque()
        version, protocol = CallbackAPIVersion.VERSION2, MQTTProtocolVersion.MQTTv5
        self._client = client = Client(version, client_id, protocol=protocol, reconnect_on_failure=False)
        client.connect_timeout = CONNECT_S
        broker.log_in(client)

        def ended(_client: Client, _data: Any, _flags: Any, code: Any, _properties: Any) -> None:
            self._trouble = str(code)
            self._answered.set()

        def answered(client: Client, _data: Any, _flags: Any, code: Any, _properties: Any) -> None:
            self._trouble = str(code) if code.is_failure else None
            if code.is_failure:
                client.on_disconnect = None  # it knows only that the connection ended
            self._answered.set()

        client.on_connect, client.on_disconnect = answered, ended
        client.on_publish = lambda _client, _data, mid, code, _props: self.acks.append((mid, int(code.value)))

    def __enter__(self) -> Self:
        """Connect; raises ServiceError where no broker takes us in."""
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

    def publish(self, topic: str, payload: bytes, valid_s: int, retain: bool = False) -> int:
        """Send; the packet id whose PUBACK is to come. The broker forgets it after ``valid_s``."""
        self.check()
        properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        properties.MessageExpiryInterval = min(max(1, valid_s), EXPIRY_MOST_S)
        info = self._client.publish(topic, payload, qos=1, retain=retain, properties=properties)
        if info.rc not in (MQTTErrorCode.MQTT_ERR_SUCCESS, MQTTErrorCode.MQTT_ERR_NO_CONN):
            raise ServiceError(f"the MQTT client refuses a message: {info.rc.name}")
        return info.mid

    def check(self) -> None:
        """Raises ServiceError when the connection has ended."""
        if self._trouble is not None:
            raise ServiceError(f"MQTT connection lost: {self._trouble}")

    def __exit__(self, *_: object) -> None:
        self._client.disconnect()
        self._client.loop_stop()


class AllBrokers:
    """Publishes at every broker that takes us in, for a vehicle may be at any, and as MqttOut does.

    ``acks`` has a message when all of them have answered. A connection that ends is everybody's end; a broker
    that was away is tried again every REJOIN_S, in a thread. Raises ServiceError where none takes us in.
    """

    def __init__(self, brokers: Sequence[MqttBroker], client_id: str) -> None:
        self._away = [(broker, client_id) for broker in brokers]
        self._outs: list[MqttOut] = []
        self._joined: deque[MqttOut] = deque()  # connected, and published at from the next ``check`` on
        self._joining = threading.Thread(target=self._join)
        self._codes: dict[int, list[int | None]] = {}  # of each message by its number, one a connection
        self._numbers: dict[tuple[int, int], int] = {}  # by connection and packet id
        self._number = 0
        self._rejoin_s = 0.0

    def __enter__(self) -> Self:
        self._join()
        return self

    def _join(self) -> None:
        self._rejoin_s = time.monotonic() + REJOIN_S
        missing = [*self._away]
        for place in missing:
            try:
                self._joined.append(MqttOut(*place).__enter__())
                self._away.remove(place)
            except ServiceError as error:
                if place is missing[-1] and not (self._outs or self._joined):
                    raise
                structlog.get_logger().warning("broker away", why=str(error))

    def publish(self, topic: str, payload: bytes, valid_s: int, retain: bool = False) -> int:
        """Send; the number under which ``acks`` has it. Brokers forget it after ``valid_s``."""
        self.check()
        self._number += 1
        for k, out in enumerate(self._outs):
            self._numbers[k, out.publish(topic, payload, valid_s, retain)] = self._number
        self._codes[self._number] = [None] * len(self._outs)
        return self._number

    def acks(self) -> Iterator[tuple[int, int]]:
        """Messages that all brokers have answered: number and reason code.

        One that is busy is to be asked again; else the best answer counts, for the vehicle is at one of them.
        """
        for k, out in enumerate(self._outs):
            while out.acks:
                packet_id, code = out.acks.popleft()
                number = self._numbers.pop((k, packet_id))
                self._codes[number][k] = code
                codes = [code for code in self._codes[number] if code is not None]
                if len(codes) == len(self._codes[number]):
                    del self._codes[number]
                    yield number, next((c for c in codes if c in BUSY), min(codes))

    def check(self) -> None:
        """Take in who has joined. Raises ServiceError when a connection has ended."""
        while self._joined:
            self._outs.append(self._joined.popleft())
        if self._away and time.monotonic() > self._rejoin_s and not self._joining.is_alive():
            self._joining = threading.Thread(target=self._join, name="rejoin", daemon=True)
            self._joining.start()
        for out in self._outs:
            out.check()

    def __exit__(self, *error: object) -> None:
        if self._joining.is_alive():
            self._joining.join()
        for out in (*self._outs, *self._joined):
            out.__exit__(*error)


def committable(taken: Mapping[int, int], in_flight: Iterable[Record]) -> dict[int, int]:
    """The offset to go on from, by partition: of its first record in flight, else after the last one taken.

    ``in_flight`` are records in the order in which they were taken.
    """
    return {**taken, **{record.partition: record.offset for record in reversed([*in_flight])}}


class Vehicles(Destination):
    """One connection and one order for all vehicles: whatever fails, it begins again at the last commit."""

    def __init__(self, process: Process) -> None:
        super().__init__(NAME, process)
        settings = process.settings
        self._brokers, self._root = process.endpoints.brokers, settings.mqtt.root
        self._client_id = f"{settings.bridge.client_id}-downlink"
        self._signer = downlink.signer(settings)
        self._taken: dict[int, int] = {}  # offset after the last record read, by partition
        self._in_flight: dict[int, Record] = {}
        self._heard_s = 0.0

    def serve(self) -> None:
        """Deliver until trouble (KafkaException, ServiceError) or ``stop``."""
        self._taken, self._in_flight = {}, {}
        out_by = AllBrokers(self._brokers, self._client_id)
        with self.feed(NAME, whole=self.regions) as feed, self.incidents() as known, out_by as out:
            self.ready()
            while not self.stop.is_set():
                self._turn(feed, known, out)
            deadline_s = time.monotonic() + DRAIN_S
            while self._in_flight and time.monotonic() < deadline_s:
                time.sleep(READ_S)
                self._settle(out)
            feed.commit(committable(self._taken, self._in_flight.values()))

    def _turn(self, feed: Feed, known: Ask, out: AllBrokers) -> None:
        room = IN_FLIGHT - len(self._in_flight)
        for found, alert in self.read(feed, known, room, READ_S) if room > 0 else ():
            self._taken[found.partition] = found.offset + 1
            if alert:
                self._publish(out, found, alert)
        if room <= 0:
            time.sleep(READ_S)
        self._settle(out)
        feed.commit(committable(self._taken, self._in_flight.values()))
        self.metrics.lag.labels(NAME).set(feed.lag())
        out.check()
        if self._in_flight and time.monotonic() - self._heard_s > PUBACK_S:
            raise ServiceError(f"no PUBACK for {PUBACK_S:g} s")

    def _publish(self, out: AllBrokers, found: Record, alert: Frame) -> None:
        """Publish the alert, skip it, or give it up."""
        now_ms = time.time_ns() // 1_000_000
        valid_s = alerts.valid_s(alert, now_ms)
        reason: Skip | None = alerts.suppressed(alert, self.silences, now_ms)
        if reason is None and (alerts.late(alert) or valid_s <= 0):
            reason = "late" if alerts.late(alert) else "stale"
        if reason is not None:
            self.skip(reason)
            return
        if not self._in_flight:
            self._heard_s = time.monotonic()
        message = downlink.encode_alert(alert, now_ms, now_ms + 1000 * valid_s)
        topic = mqtt_topic(self._root, alert["vehicle_id"], "alert")
        self.stop.require()
        try:
            number = out.publish(topic, self._signer.sealed("alert", message), valid_s)
        except ValueError as error:  # the MQTT client cannot carry the message
            self.give_up(found, f"{type(error).__name__}: {error}")
        else:
            self._in_flight[number] = found

    def _settle(self, out: AllBrokers) -> None:
        for number, code in out.acks():
            found = self._in_flight.pop(number)
            self._heard_s = time.monotonic()
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
        for to, message in messages.items():
            topic = mqtt_topic(settings.mqtt.root, to, "notice")
            out.publish(topic, signer.sealed("notice", message), valid_s, retain=keep)
        count, codes = len(messages), list[int]()
        for last in looks(NOTICE_S, POLL_S):
            codes += [code for _, code in out.acks()]
            if len(codes) == count:
                break
            out.check()
            if last:
                raise ServiceError(f"the broker acknowledged {len(codes)} of {count} within {NOTICE_S:g} s")
        refused = [code for code in codes if code >= REFUSED and code != NO_SUBSCRIBER]
        if refused:
            raise ServiceError(f"the broker refuses {len(refused)} of {count} (PUBACK 0x{refused[0]:02x})")
    return notice_id
