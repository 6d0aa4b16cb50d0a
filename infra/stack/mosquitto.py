"""The embedded MQTT broker."""

from __future__ import annotations

import base64
import hashlib
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from infra.clients.mqtt_broker import MqttBroker
from infra.contract.errors import ServiceError
from infra.stack import probes, rootfs
from infra.stack.rootfs import CONFIG, DATA, inside
from infra.stack.service import HOST, Service

USER = "odograph-mosquitto"
CONFIG_FILE = "mosquitto.conf"

# Sized for an outage of the bridge: 1 GiB of queue is 80 s of 10,000 frames/s, hours of a small fleet. What
# does not fit is dropped and counted in $SYS/broker/publish/messages/dropped. Anonymous, on loopback only.
TEMPLATE = """\
listener {port} {host}
allow_anonymous true
persistence true
persistence_location {data}/
autosave_interval {autosave_s}
max_inflight_messages 20000
max_queued_messages {max_queued}
max_queued_bytes 1073741824
max_packet_size {max_packet}
sys_interval 1
set_tcp_nodelay true
connection_messages false
log_dest stderr
log_type error
log_type warning
log_type notice
"""


def mosquitto(
    root: Path,
    data: Path,
    config: Path,
    port: int,
    max_queued: int = 1_000_000,
    autosave_s: int = 30,
    max_packet: int = 1 << 20,
) -> Service:
    """Mosquitto on a loopback port with its data in ``data``, configured by ``config``.

    It holds ``max_queued`` messages for an absent client and writes what it holds every ``autosave_s``. A
    client that sends a packet of more than ``max_packet`` bytes is disconnected at the packet's header.
    """
    limits = {"max_queued": max_queued, "autosave_s": autosave_s, "max_packet": max_packet}
    text = TEMPLATE.format(port=port, host=HOST, data=DATA, **limits)
    return Service(
        name="mosquitto",
        command=inside(root, data, config, USER, "mosquitto", "-c", f"{CONFIG}/{CONFIG_FILE}"),
        port=port,
        port_setting="ODOGRAPH_MQTT_PORT",
        probe=partial(probes.mqtt_echo, MqttBroker(HOST, port)),
        prepare=partial(_prepare, data, config, text),
        ready_s=20.0,
    )


def _prepare(data: Path, config: Path, text: str) -> None:
    rootfs.give_folder(data, USER)
    rootfs.write_config(config, USER, {CONFIG_FILE: text})


ITERATIONS: Final = 101
"""What mosquitto_passwd itself uses; the passwords are long and random."""

NAMED_ONLY: Final = """\
allow_anonymous false
password_file {folder}/passwords
acl_file {folder}/acl
"""
"""In place of ``allow_anonymous true``."""

ACL: Final = """\
# A vehicle's user name is its id: it writes below its own topic and reads what is meant for it.
pattern write {root}/%u/telemetry
pattern write {root}/%u/crash
pattern write {root}/%u/status
pattern read {root}/%u/alert
pattern read {root}/all/notice

user {bridge}
topic read {root}/#
topic readwrite odograph-retire/#

user {downlink}
topic write {root}/+/alert
topic write {root}/all/notice
"""


def acl(root: str, bridge: str, downlink: str) -> str:
    """The access list; ``bridge`` and ``downlink`` are user names of the service."""
    return ACL.format(root=root, bridge=bridge, downlink=downlink)


def password_file(words: Mapping[str, str]) -> str:
    """The password file of Mosquitto 2 (PBKDF2 with SHA-512) for passwords by user name."""
    return "".join(f"{name}:{_hashed(word, secrets.token_bytes(12))}\n" for name, word in words.items())


def _hashed(word: str, salt: bytes) -> str:
    digest = hashlib.pbkdf2_hmac("sha512", word.encode(), salt, ITERATIONS)
    return f"$7${ITERATIONS}${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"


TIMEOUT_S = 3.0
_PREFIX = "$SYS/broker/"
_STORED = "store/messages/count"
_RETAINED = "retained messages/count"
_DROPPED = "publish/messages/dropped"
_RECEIVED = "publish/messages/received"
_SENT = "publish/messages/sent"
_CLIENTS = "clients/connected"
_TOPICS = (_STORED, _RETAINED, _DROPPED, _RECEIVED, _SENT, _CLIENTS)


@dataclass(frozen=True, slots=True)
class BrokerFigures:
    """The broker's own counts, at most a second old (``sys_interval``); since its start where they only grow.

    ``queued`` messages are acknowledged to their senders and not yet by all who are to get them. ``dropped``
    ones are lost: a queue was full.
    """

    queued: int
    dropped: int
    received: int
    sent: int
    clients: int


class BrokerWatch:
    """Keeps the newest figures while its ``with`` block runs; raises ServiceError where no broker answers.

    With ``reconnect`` it goes on trying to connect instead, in the background.
    """

    def __init__(self, broker: MqttBroker, timeout_s: float = TIMEOUT_S, *, reconnect: bool = False) -> None:
        self._reconnect = reconnect
        self._broker, self._timeout_s = broker, timeout_s
        self._values: dict[str, int] = {}
        self._complete = threading.Event()
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2)
        broker.log_in(self._client)
        self._client.on_connect = lambda client, *_: client.subscribe([(_PREFIX + t, 0) for t in _TOPICS])
        self._client.on_message = lambda _client, _data, message: self._note(message)

    def __enter__(self) -> BrokerWatch:
        try:
            connect = self._client.connect_async if self._reconnect else self._client.connect
            connect(self._broker.host, self._broker.port, keepalive=10)
        except OSError as error:
            raise ServiceError(f"MQTT: {self._broker.trouble(error)}") from error
        self._client.loop_start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def figures(self) -> BrokerFigures:
        """The newest; raises ServiceError where the broker says nothing of itself."""
        if not self._complete.wait(self._timeout_s):
            raise ServiceError(f"{self._broker}: nothing under {_PREFIX} within {self._timeout_s:g} s")
        return self._figures()

    def newest(self) -> BrokerFigures | None:
        """The newest, at once; None where the broker has said nothing yet or is away."""
        ready = self._complete.is_set() and self._client.is_connected()
        return self._figures() if ready else None

    def _figures(self) -> BrokerFigures:
        v = dict(self._values)
        return BrokerFigures(
            queued=max(0, v[_STORED] - v[_RETAINED]),
            dropped=v[_DROPPED],
            received=v[_RECEIVED],
            sent=v[_SENT],
            clients=v[_CLIENTS],
        )

    def _note(self, message: mqtt.MQTTMessage) -> None:
        if not message.payload.isdigit():
            return  # an outer broker may let anybody write there
        self._values[message.topic.removeprefix(_PREFIX)] = int(message.payload)
        if len(self._values) == len(_TOPICS):
            self._complete.set()


def broker_figures(broker: MqttBroker) -> BrokerFigures:
    """One reading, with a connection of its own; raises ServiceError."""
    with BrokerWatch(broker) as watch:
        return watch.figures()
