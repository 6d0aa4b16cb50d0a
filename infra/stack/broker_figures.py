"""What Mosquitto says of itself under ``$SYS``: how much it holds for others, and what it dropped."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from types import TracebackType

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from infra.clients.mqtt_broker import MqttBroker
from infra.contract.errors import ServiceError

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

    A ``patient`` one goes on trying to connect instead, in the background.
    """

    def __init__(self, broker: MqttBroker, timeout_s: float = TIMEOUT_S, *, patient: bool = False) -> None:
        self._patient = patient
        self._broker, self._timeout_s = broker, timeout_s
        self._values: dict[str, int] = {}
        self._complete = threading.Event()
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2)
        broker.log_in(self._client)
        self._client.on_connect = lambda client, *_: client.subscribe([(_PREFIX + t, 0) for t in _TOPICS])
        self._client.on_message = lambda _client, _data, message: self._note(message)

    def __enter__(self) -> BrokerWatch:
        try:
            connect = self._client.connect_async if self._patient else self._client.connect
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
