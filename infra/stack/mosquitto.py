"""The embedded MQTT broker."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path
from typing import Final, Self

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from infra.clients.locks import locked
from infra.clients.mqtt_broker import MqttBroker
from infra.clients.waiting import looks
from infra.contract.errors import ServiceError
from infra.settings.sections import Mqtt
from infra.stack import probes
from infra.stack.downloads import rootfs
from infra.stack.downloads.rootfs import CONFIG, DATA, inside
from infra.stack.service import HOST, Service

USER = "odograph-mosquitto"
CONFIG_FILE = "mosquitto.conf"

TEMPLATE: Final = Path(__file__).with_name("mosquitto.conf")
OPEN: Final = "allow_anonymous true"
TELL_REFUSED: Final = "log_type debug"
"""At no other level does Mosquitto 2.0 tell of a refused publish, and at this one it tells all."""
MQTT: Final = Mqtt()
CERTIFICATES: Final = Path(__file__).with_name("mosquitto-secure.conf")


@dataclass(frozen=True, slots=True)
class Secure:
    """Identity at the broker: the vehicles' listener, the files that it reads, and us as the operator."""

    address: str
    port: int
    files: Mapping[str, str]
    us: MqttBroker


def mosquitto(
    root: Path, data: Path, config: Path, port: int, settings: Mqtt = MQTT, secure: Secure | None = None
) -> Service:
    """Mosquitto on a loopback port with its data in ``data``, configured by ``config``.

    It holds ``max_queued_messages`` for an absent client and writes what it holds every ``autosave_s``. A
    client that sends a packet of more than ``max_message_bytes`` is disconnected at the packet's header.
    """
    terms: dict[str, object] = settings.model_dump() | {"access": OPEN, "connections": "false"}
    files: Mapping[str, str] = {}
    us = MqttBroker(HOST, port)
    if secure is not None:
        access = CERTIFICATES.read_text().format(folder=CONFIG, port=secure.port, address=secure.address)
        access += f"{TELL_REFUSED}\n" if settings.log_refused else ""
        terms |= {"access": access, "connections": "true"}
        files, us = secure.files, secure.us
    text = TEMPLATE.read_text().format(**terms | {"port": port, "host": HOST, "data": DATA})
    return Service(
        name="mosquitto",
        command=inside(root, data, config, USER, "mosquitto", "-c", f"{CONFIG}/{CONFIG_FILE}"),
        port=port,
        port_setting="ODOGRAPH_MQTT_PORT",
        probe=partial(probes.mqtt_echo, us),
        prepare=partial(rootfs.furnish, data, config, USER, {**files, CONFIG_FILE: text}),
        ready_s=20.0,
    )


def tells_refused(config: Path) -> bool:
    """Whether the broker of this configuration tells refused publishes."""
    return TELL_REFUSED in (config / CONFIG_FILE).read_text().splitlines()


REREAD: Final = b": Reloading config.\n"
REREAD_S: Final = 10.0


def mosquitto_reread(pid: int, log: Path) -> None:
    """Let the broker read its files anew: certificates, revocations, access list; raises ServiceError.

    Once it says so, whoever connects, or publishes, is judged by the new ones.
    """
    with locked(log, shared=True):  # it is not put aside meanwhile
        before = log.stat().st_size
        os.kill(pid, signal.SIGHUP)
        for _ in looks(REREAD_S, 0.02):
            with log.open("rb") as file:
                file.seek(before)
                if REREAD in file.read():
                    return
    raise ServiceError(f"mosquitto has not read its files anew after {REREAD_S:g} s; its log: {log}")


TIMEOUT_S = 3.0
PREFIX: Final = "$SYS/broker/"
STORED: Final = "store/messages/count"
RETAINED: Final = "retained messages/count"
FIGURES: Final = {
    "dropped": "publish/messages/dropped",
    "received": "publish/messages/received",
    "sent": "publish/messages/sent",
    "clients": "clients/connected",
}
TOPICS: Final = (STORED, RETAINED, *FIGURES.values())


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

    def __init__(self, broker: MqttBroker, *, reconnect: bool = False) -> None:
        self._broker = broker
        self._values: dict[str, int] = {}
        self._complete = threading.Event()
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2)
        broker.log_in(self._client)
        self._client.on_connect = lambda client, *_: client.subscribe([(PREFIX + t, 0) for t in TOPICS])
        self._client.on_message = lambda _client, _data, message: self._note(message)
        self._connect = self._client.connect_async if reconnect else self._client.connect

    def __enter__(self) -> Self:
        try:
            self._connect(self._broker.host, self._broker.port, keepalive=10)
        except OSError as error:
            raise ServiceError(f"MQTT: {self._broker.trouble(error)}") from error
        self._client.loop_start()
        return self

    def __exit__(self, *_: object) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def figures(self) -> BrokerFigures:
        """The newest; raises ServiceError where the broker says nothing of itself."""
        if not self._complete.wait(TIMEOUT_S):
            raise ServiceError(f"{self._broker}: nothing under {PREFIX} within {TIMEOUT_S:g} s")
        v = dict(self._values)
        counts = {name: v[topic] for name, topic in FIGURES.items()}
        return BrokerFigures(queued=max(0, v[STORED] - v[RETAINED]), **counts)

    def newest(self) -> BrokerFigures | None:
        """The newest, at once; None where the broker has said nothing yet or is away."""
        return self.figures() if self._complete.is_set() and self._client.is_connected() else None

    def _note(self, message: mqtt.MQTTMessage) -> None:
        if message.payload.isdigit():  # an outer broker may let anybody write there
            self._values[message.topic.removeprefix(PREFIX)] = int(message.payload)
        if len(self._values) == len(TOPICS):
            self._complete.set()


@contextmanager
def watched(brokers: Sequence[MqttBroker]) -> Iterator[Callable[[], BrokerFigures | None]]:
    """The newest figures of all brokers that say something, summed; None where none does."""
    with ExitStack() as ending:
        watches = [ending.enter_context(BrokerWatch(broker, reconnect=True)) for broker in brokers]
        yield lambda: _total([figures for watch in watches if (figures := watch.newest())])


def broker_figures(*brokers: MqttBroker) -> BrokerFigures:
    """One reading, with connections of its own, summed over the brokers; raises ServiceError."""
    with ExitStack() as ending:
        found = _total([ending.enter_context(BrokerWatch(broker)).figures() for broker in brokers])
    assert found is not None
    return found


def _total(figures: Sequence[BrokerFigures]) -> BrokerFigures | None:
    return BrokerFigures(*map(sum, zip(*map(astuple, figures), strict=True))) if figures else None
