"""Publishing to vehicles at QoS 1 (MQTT 5, for the expiry), every PUBACK counted; and ``odograph notify``."""

from __future__ import annotations

import os
import re
import threading
import time
import uuid
from collections import deque
from dataclasses import dataclass
from typing import Any, Final

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from infra.clients.mqtt_broker import MqttBroker
from infra.contract import downlink
from infra.contract.downlink import Signer
from infra.contract.errors import ConfigError, ContractError, ServiceError
from infra.contract.topics import EVERYBODY, mqtt_topic
from infra.settings.settings import Endpoints

KEEPALIVE_S: Final = 15
CONNECT_S: Final = 5.0
NO_SUBSCRIBER: Final = 0x10
REFUSED: Final = 0x80
EXPIRY_MOST_S: Final = 0xFFFF_FFFF  # MQTT has 32 bits for it
BUSY: Final = frozenset({0x88, 0x89, 0x93, 0x97})
"""Server unavailable, busy, receive maximum, quota: the message is to be offered again, not given up."""

PUBACK_S: Final = 10.0
POLL_S: Final = 0.01
_LENGTH: Final = re.compile(r"(\d+)(s|m|h)")
_UNIT_S: Final = {"s": 1, "m": 60, "h": 3600}


class MqttOut:
    """A connection that publishes, never reconnects; ``acks`` has (packet id, reason code)."""

    def __init__(self, broker: MqttBroker, client_id: str) -> None:
        self._broker = broker
        version, protocol = CallbackAPIVersion.VERSION2, MQTTProtocolVersion.MQTTv5
        self._client = Client(version, client_id, protocol=protocol, reconnect_on_failure=False)
        self._client.connect_timeout = CONNECT_S
        broker.log_in(self._client)
        self._client.on_connect = self._on_connect
        self._client.on_disconnect = self._on_disconnect
        self._client.on_publish = lambda _client, _data, mid, code, _properties: self.acks.append(
            (mid, int(code.value))
        )
        self._answered = threading.Event()
        self._trouble: str | None = "not connected yet"
        self.acks: deque[tuple[int, int]] = deque()

    def __enter__(self) -> MqttOut:
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

    def _on_connect(self, _client: Client, _data: Any, _flags: Any, code: Any, _props: Any) -> None:
        self._trouble = str(code) if code.is_failure else None
        self._answered.set()

    def _on_disconnect(self, _client: Client, _data: Any, _flags: Any, code: Any, _props: Any) -> None:
        self._trouble = str(code)
        self._answered.set()

    def __exit__(self, *_: object) -> None:
        self._client.disconnect()
        self._client.loop_stop()


@dataclass(frozen=True, slots=True)
class Notice:
    """What to say, to whom (nobody named: all), for how long; ``keep``: retained for that time."""

    text: str
    severity: str
    vehicles: tuple[str, ...]
    valid_s: int
    keep: bool


def length_s(text: str) -> int:
    """``90s``, ``15m`` or ``2h`` in seconds; raises ConfigError."""
    match = _LENGTH.fullmatch(text)
    if match is None or int(match[1]) == 0:
        raise ConfigError(f"--valid {text!r}: a duration such as 90s, 15m or 2h is wanted")
    return int(match[1]) * _UNIT_S[match[2]]


def send(notice: Notice, root: str, endpoints: Endpoints, signer: Signer) -> str:
    """Publish; the notice's id, once the broker has acknowledged all. Raises ConfigError, ServiceError."""
    notice_id, now_ms = uuid.uuid4().hex, time.time_ns() // 1_000_000
    terms = (notice.severity, notice.text, now_ms, now_ms + 1000 * notice.valid_s)
    try:
        messages = {
            mqtt_topic(root, to, "notice"): signer.sealed(
                "notice", downlink.encode_notice(notice_id, to, *terms)
            )
            for to in notice.vehicles or (EVERYBODY,)
        }
    except ContractError as error:
        raise ConfigError(f"the notice cannot be sent: {error.detail}") from error
    with MqttOut(endpoints.mqtt, f"odograph-notify-{os.getpid()}") as out:
        for topic, payload in messages.items():
            out.publish(topic, payload, notice.valid_s, retain=notice.keep)
        _await(out, len(messages))
    return notice_id


def _await(out: MqttOut, count: int) -> None:
    deadline_s = time.monotonic() + PUBACK_S
    while len(out.acks) < count:
        out.check()
        if time.monotonic() > deadline_s:
            raise ServiceError(f"the broker acknowledged {len(out.acks)} of {count} within {PUBACK_S:g} s")
        time.sleep(POLL_S)
    refused = [code for _, code in out.acks if code >= REFUSED and code != NO_SUBSCRIBER]
    if refused:
        raise ServiceError(f"the broker refuses {len(refused)} of {count} (PUBACK 0x{refused[0]:02x})")
