"""One MQTT connection of the bridge: persistent session, manual acks, never blocks.

paho speaks the protocol (connect, subscribe, ping); runs of PUBLISH packets are cut out of large reads by
``wire`` and PUBACKs leave in bulk. The owner calls ``poll`` in a loop; only the dialling has another thread,
so that a broker that does not answer holds up nobody.
"""

import select
import socket
import time
from collections import Counter
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any, Final

import structlog
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from bridge.uplink.translate import SessionLoss
from bridge.uplink.wire import PACKET_BYTES, BufferedSocket, Publish, WireError, pubacks
from infra.clients.mqtt_broker import MqttBroker

KEEPALIVE_S: Final = 30
CONNECT_S: Final = 2.0
NOTED_S: Final = 1.0
SESSION_EXPIRY_S: Final = 7 * 86_400  # the broker keeps the session of an absent bridge this long
BACKOFF_FIRST_S: Final = 0.1
BACKOFF_MAX_S: Final = 5.0
STEADY_S: Final = 10.0
"""A connection that lasted so long was a sound one: the next pause is short again. So two clients that take
the same session from each other do it seldom."""
MANY_BYTES: Final = 64 * 1024  # after a read of this much the next one is not delayed to gather more
TAKEN_OVER: Final = 0x8E  # reason code of a DISCONNECT: another client came with our id (MQTT 5, 3.14.2.1)
RETAINED_ON_NEW_SUBSCRIPTION: Final = 1  # once with the session, not at every reconnect (MQTT 5, 3.8.3.1)
RETAINED_NEVER: Final = 2  # without a session each subscription is new: they would come at each connection


@dataclass(frozen=True, slots=True)
class SourceConfig:
    """Where and as whom. ``receive_maximum``: the broker sends no more than this unacknowledged.

    ``session``: a file whose time says when our session was last known to be at the broker; without it there
    never was one, or it was ended on purpose. ``qos`` 0: no session, no acknowledgements.
    ``max_packet_bytes``: of a larger message only the first bytes are held. ``gather_s``: how long the first
    message waits for those after it. ``marker``: the session is to be emptied, and a message of this topic
    follows all that the broker holds. ``leased``: who holds the lease may take the session over.
    """

    broker: MqttBroker
    client_id: str
    filters: tuple[str, ...]
    receive_maximum: int
    session: Path
    qos: int = 1
    marker: str = ""
    max_packet_bytes: int = PACKET_BYTES
    identity_property: str = ""
    gather_s: float = 0.0
    leased: bool = False


class _Client(Client):
    def _create_socket(self) -> Any:
        sock: Any = super()._create_socket()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return BufferedSocket(sock)


def dial(config: SourceConfig, kind: type[Client] = _Client, refuse_large: bool = False) -> Client:
    """A client that connects and acknowledges nothing by itself; with QoS 0 without a session.

    ``refuse_large``: the broker drops too large packets. Raises OSError.
    """
    version, protocol = CallbackAPIVersion.VERSION2, MQTTProtocolVersion.MQTTv5
    client = kind(version, config.client_id, protocol=protocol, manual_ack=True)
    client.connect_timeout = CONNECT_S
    config.broker.log_in(client)
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    properties.SessionExpiryInterval = SESSION_EXPIRY_S if config.qos else 0
    properties.ReceiveMaximum = config.receive_maximum
    if refuse_large:
        properties.MaximumPacketSize = config.max_packet_bytes
    host, port = config.broker.host, config.broker.port
    try:
        client.connect(host, port, KEEPALIVE_S, clean_start=config.qos == 0, properties=properties)
        if client.socket() is None:  # paho closes it where CONNECT cannot be written, and raises nothing
            raise ConnectionError("the broker ended the connection at once")
    except OSError:
        if sock := client.socket():
            sock.close()
        raise
    return client


def end_session(config: SourceConfig) -> None:
    """Let the broker forget the session, and whatever it holds for it; so do we. Raises OSError."""
    client = dial(replace(config, qos=0), Client)
    deadline_s = time.monotonic() + CONNECT_S
    while not client.is_connected():
        if client.loop(0.1) != 0 or time.monotonic() > deadline_s:
            raise ConnectionError("the broker does not take the connection that ends the session")
    client.disconnect()
    config.session.unlink(missing_ok=True)


def _hang_up(dialling: Future[Client]) -> None:
    if not dialling.cancelled() and dialling.exception() is None and (sock := dialling.result().socket()):
        sock.close()


class MqttSource:
    """The connection and its successors. ``epoch`` counts them; ``connected`` is True after CONNACK.

    ``session_epoch`` is the connection that began the session: the broker sends again what was received since
    then and not acknowledged. ``losses`` are sessions that went; their reader takes them away. ``line`` is
    what to select on; None while there is no connection. ``window``: messages that may wait unacknowledged.
    """

    def __init__(self, config: SourceConfig, dialler: Executor | None = None) -> None:
        self._config, self.window = config, config.receive_maximum
        self._dialler = dialler or ThreadPoolExecutor(1, "dial")
        self._dialling: Future[Client] | None = None
        self._log = structlog.get_logger().bind(client_id=config.client_id, broker=str(config.broker))
        self.connected = self.subscribed = False
        self.trouble = "not connected yet"
        self.epoch, self.session_epoch = 0, 1
        self.counts = Counter(reconnects=0, sessions_lost=0, taken_over=0)
        self.losses: list[SessionLoss] = []
        self._client: Client | None = None
        self.line: BufferedSocket | None = None
        self._acks = b""
        self._quiet = True
        self._noted_s = -inf
        self._backoff_s, self._next_dial_s, self._subscribed_s = BACKOFF_FIRST_S, 0.0, inf
        self._refuse_large = self._thief = False

    def poll(self, limit: int, wait_s: float) -> list[Publish]:
        """Messages that came, at most ``limit``, after waiting ``wait_s`` at most. Reconnects by itself.

        The first one waits ``gather_s`` for others where the last read took all and that was little: at a low
        rate many share a turn's cost, a full queue never waits. ``limit`` 0 is back-pressure: messages stay
        with broker and kernel. When ``epoch`` has changed, all earlier packet ids are void.
        """
        if self.line is None and not self._dial(wait_s):
            return []
        try:
            return self._turn(limit, wait_s)
        except (OSError, WireError) as error:
            unfinished: list[Publish] = []
            if self.line is not None and self.line.buffer.passing:
                # The next connection would meet the large message again: from now on the broker discards it.
                self._refuse_large = True
                unfinished = [(topic, 0, payload) for topic, _, payload in self.line.buffer.refused()]
            self.drop(f"{type(error).__name__}: {error}")
            return unfinished

    def _turn(self, limit: int, wait_s: float) -> list[Publish]:
        client, sock = self._parts()
        reads = limit > 0 or not self.connected
        ready = reads and sock.buffer.is_whole()
        writes = [sock] if client.want_write() or sock.unsent else []
        readable, writable, _ = select.select([sock] if reads else [], writes, [], 0 if ready else wait_s)
        if writable:
            self._write()
        found = self._take(limit)
        if readable and not found:
            if self._quiet and self._config.gather_s:
                time.sleep(self._config.gather_s)
            self._quiet = sock.fill() < MANY_BYTES and not select.select([sock], [], [], 0)[0]
            found = self._take(limit)
        if not reads:
            client._ping_t = 0.0  # pings go on, but no answer is owed: none would be read
        if client.loop_misc() != 0:
            raise ConnectionError("the broker answers no ping")
        if self.subscribed and self._config.qos and time.monotonic() - self._noted_s >= NOTED_S:
            self._noted_s = time.monotonic()
            self._config.session.parent.mkdir(parents=True, exist_ok=True)
            self._config.session.touch()
        return found

    def _take(self, limit: int) -> list[Publish]:
        """Messages at the head of the buffer; packets of other kinds between them go to paho."""
        client, sock = self._parts()
        found = sock.buffer.publishes(limit) if self.connected else []
        while sock.buffer.other_is_whole():
            client.loop_read()
            if client.socket() is None:
                raise ConnectionError(self.trouble)
            if self.connected:
                found += sock.buffer.publishes(limit - len(found))
        return found

    def ack(self, packet_ids: list[int]) -> None:
        """Acknowledge messages of this epoch in their order, in one piece, now or when the line is free."""
        if self.line is None:
            return
        self._acks += pubacks([packet_id for packet_id in packet_ids if packet_id])
        try:
            self._write()
        except OSError as error:
            self.drop(f"{type(error).__name__}: {error}")

    def _write(self) -> None:
        """paho's packets and ours, never one inside the other."""
        client, sock = self._parts()
        client.loop_write()
        if client.socket() is None:
            raise ConnectionError(self.trouble)
        if not client.want_write():
            sock.queue(self._acks)
            self._acks = b""

    def drop(self, why: str) -> None:
        """Close the connection; poll dials again after a pause, and the broker sends anew what is unacked."""
        self._log.warning("mqtt connection lost", why=why)
        self._forget(why)

    def _forget(self, why: str) -> None:
        self.trouble = why
        self.connected = self.subscribed = False
        if self.line is not None:
            self.line.close()
        self._client = self.line = None
        self._acks = b""
        if time.monotonic() - self._subscribed_s > STEADY_S:
            self._backoff_s = BACKOFF_FIRST_S
        self._subscribed_s = inf
        # who was put out by another holder of the lease does not put it out before it knows better
        pause_s = BACKOFF_MAX_S if self._thief and self._config.leased else self._backoff_s
        self._next_dial_s = time.monotonic() + pause_s
        self._backoff_s = min(BACKOFF_MAX_S, self._backoff_s * 2)

    @property
    def has_work(self) -> bool:
        """Whether a poll finds something to do though nothing new has come."""
        return self.acks_waiting or (self.line is not None and self.line.buffer.is_whole())

    @property
    def acks_waiting(self) -> bool:
        """Whether acknowledgements were not handed to the kernel yet."""
        return bool(self._acks) or (self.line is not None and bool(self.line.unsent))

    def close(self) -> None:
        """Say goodbye; the broker keeps the session."""
        if self._dialling is not None:
            self._dialling.add_done_callback(_hang_up)
            self._dialling = None
        if self._client is not None and self.connected:
            self._client.disconnect()
        self._forget("closed")

    def mark(self) -> None:
        """Send the marker once more: a full queue may have dropped the first one."""
        if self._client is not None and self.connected:
            self._client.publish(self._config.marker, b"", qos=1)

    def _parts(self) -> tuple[Client, BufferedSocket]:
        if self._client is None or self.line is None:
            raise ConnectionError(self.trouble)
        return self._client, self.line

    def _dial(self, wait_s: float) -> bool:
        """Open a new connection when the pause is over, with a new client: nothing old remains."""
        if self._dialling is None:
            pause_s = self._next_dial_s - time.monotonic()
            if pause_s > 0:
                time.sleep(min(pause_s, wait_s))
                return False
            self._dialling = self._dialler.submit(dial, self._config, refuse_large=self._refuse_large)
        if not wait([self._dialling], wait_s).done:
            return False
        dialling, self._dialling = self._dialling, None
        try:
            client = dialling.result()
        except OSError as error:
            why = self._config.broker.trouble(error)
            self._log.warning("mqtt broker away", why=why)
            self._forget(why)
            return False
        # The broker's answers are read by our own turns: none has come yet.
        client.on_connect, client.on_subscribe = self._on_connect, self._on_subscribe
        client.on_disconnect = self._on_disconnect
        sock: Any = client.socket()
        self._client, self.line = client, sock
        sock.buffer.limit = self._config.max_packet_bytes
        sock.buffer.wanted = self._config.identity_property.encode()
        self.counts["reconnects"] = self.epoch
        self.epoch += 1
        return True

    def _on_connect(self, client: Client, _data: Any, flags: Any, code: Any, _properties: Any) -> None:
        if code.is_failure:
            self.trouble = f"the broker refuses the connection: {code}"
            client.on_disconnect = None  # it knows only that the connection ended
            self._log.error("mqtt connection refused", reason=str(code))
            return
        if self._config.qos:
            self._judge_session(flags.session_present)
        self.connected = True
        self._log.info("mqtt connected", epoch=self.epoch, session_present=flags.session_present)
        retained = RETAINED_ON_NEW_SUBSCRIPTION if self._config.qos else RETAINED_NEVER
        options = SubscribeOptions(qos=self._config.qos, retainHandling=retained)
        if self._config.marker:
            client.unsubscribe(list(self._config.filters))
            client.subscribe(self._config.marker, options=options)
            self.mark()
        else:
            client.subscribe([(name, options) for name in self._config.filters])

    def _judge_session(self, present: bool) -> None:
        """Note a loss unless the broker has our session; one that another client took over may be empty."""
        thief, self._thief = self._thief and not self._config.leased, False
        if present and not thief:
            return
        self.session_epoch = self.epoch
        try:
            known_ms = self._config.session.stat().st_mtime_ns // 1_000_000
        except FileNotFoundError:
            return
        why = "another client came with our client id" if thief else "the broker does not know it any more"
        now_ms = time.time_ns() // 1_000_000
        self.counts["sessions_lost"] += 1
        self.losses.append(SessionLoss(self._config.client_id, why, known_ms, now_ms))
        self._log.error("mqtt session lost", why=why, next_step="odograph audit names what went with it")

    def _on_subscribe(self, _client: Client, _data: Any, _mid: int, codes: list[Any], _props: Any) -> None:
        refused = [str(code) for code in codes if code.is_failure]
        if refused:
            self.trouble = f"the broker refuses the subscription: {', '.join(refused)}"
            self._log.error("mqtt subscription refused", filters=self._config.filters, reasons=refused)
            return
        self.subscribed = True
        self._subscribed_s = time.monotonic()

    def _on_disconnect(self, _client: Client, _data: Any, _flags: Any, code: Any, _props: Any) -> None:
        self.trouble = f"disconnected: {code}"
        if getattr(code, "value", None) == TAKEN_OVER:
            self._thief = True
            self.counts["taken_over"] += 1

    def reason(self) -> str | None:
        return None if self.connected and self.subscribed else self.trouble
