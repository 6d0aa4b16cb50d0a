"""The bridge's uplink: its two lanes, their threads, the health page, statistics, the orderly end.

A change between one bridge and several: new sessions are made before the old ones are emptied and ended.
"""

import gc
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from itertools import product
from typing import Final
from urllib.parse import quote

import structlog
from prometheus_client import CollectorRegistry

from bridge.uplink import kafka_sink
from bridge.uplink.lane import WHOLE, AtMostOnceLane, BaseLane, Lane
from bridge.uplink.leases import SlotLeases
from bridge.uplink.metrics import BridgeCollector, BrokerCollector
from bridge.uplink.mqtt_source import MqttSource, SourceConfig, end_session
from bridge.uplink.silence import SilenceWatch
from bridge.uplink.translate import NamedTranslator, Translator, VehicleLimit
from bridge.uplink.wire import Publish
from infra.clients.health import Check, HealthServer, in_background, stopped_by_signals
from infra.contract import topics
from infra.contract.errors import ServiceError
from infra.contract.topics import SLOTS
from infra.settings.files import read_secret
from infra.settings.settings import Endpoints, Settings
from infra.stack.mosquitto import watched

LANES: Final = ("telemetry", "crash")
RECEIVE_MAXIMUM: Final = 65_535  # MQTT's own limit
TELEMETRY_LINGER_MS: Final = 5.0
TELEMETRY_GATHER_S: Final = 0.05  # at 1,200 messages/s a turn, and its four requests to Kafka, is for sixty
PRIORITY_IN_FLIGHT: Final = 1000
ROUTED: Final = (*topics.UPLINK_CHANNELS, topics.DEFERRED, "policy", "dead-letter")
LEAST_WINDOW: Final = 100  # messages the broker may send a slot's session unacknowledged, at least
DIALLERS: Final = 4

PREPARE_S: Final = 10.0
MARK_S: Final = 2.0
MARKER: Final = "odograph-retire"
STATISTICS_S: Final = 1.0
GC_ALLOCATIONS: Final = 50_000  # messages make no cycles: the collector's default of 700 costs 5 % of a core
SWITCH_S: Final = 0.0005
"""How long a thread may keep the interpreter while another one wants it. Python's 5 ms would hold a crash
record up several times while the telemetry lane is at work; telemetry pays nothing measurable."""


def lane_of(
    name: str, settings: Settings, endpoints: Endpoints, once: bool = False,
    wanted: frozenset[int | None] | None = None,
    make_source: Callable[[SourceConfig, Executor | None], MqttSource] = MqttSource,
) -> BaseLane:  # fmt: skip
    """The lane ``telemetry`` or ``crash``; ``once``: at most once, not acknowledged when Kafka has a message.

    ``wanted`` are the slots to begin with; None: all by one session for a bridge that is alone, else none.
    Telemetry takes all that is sent, so that nothing comes twice, and skips crash and downlink. Crash records
    have a connection, a producer, a thread and a wide limit of their own; none waits.
    """
    bridge, root = settings.bridge, settings.mqtt.root
    if wanted is None:
        wanted = frozenset() if bridge.leased else WHOLE
    if name == "telemetry":
        skipped = frozenset({"crash", *topics.DOWNLINK_CHANNELS})
        in_flight, busy_wait_s = bridge.max_in_flight, 0.002
        linger_ms, gather_s = TELEMETRY_LINGER_MS, TELEMETRY_GATHER_S
        vehicle_limit = VehicleLimit(bridge.vehicle_rate, bridge.vehicle_burst)
    else:
        skipped = frozenset()
        in_flight, busy_wait_s = min(PRIORITY_IN_FLIGHT, bridge.max_in_flight), 0.0005
        linger_ms, gather_s = 0.0, 0.0
        vehicle_limit = VehicleLimit(bridge.crash_rate, bridge.crash_burst)
    client_id = _client_id(bridge.client_id, None, name, once)
    producer = (kafka_sink.ONCE if once else kafka_sink.LASTING) | {
        "client.id": client_id,
        "linger.ms": linger_ms,
        # Its queue holds all that may be in flight, so that it is never the one that overflows.
        "queue.buffering.max.messages": 2 * in_flight,
        "queue.buffering.max.kbytes": max(1024, 2 * bridge.max_in_flight_bytes >> 10),
    }
    sink = kafka_sink.KafkaSink(endpoints.kafka_bootstrap, producer)
    kind = NamedTranslator if bridge.identity_property else Translator
    translator = kind(root, settings.kafka.prefix, skipped, vehicle_limit, settings.region.name)
    # By broker, so that one that does not answer holds up none of the others.
    dialling = [ThreadPoolExecutor(DIALLERS, "dial") for _ in endpoints.brokers]

    def opened(slot: int | None) -> list[MqttSource]:
        configs = source_configs(name, settings, endpoints, slot, once, window(in_flight), gather_s)
        return [make_source(config, pool) for config, pool in zip(configs, dialling, strict=True)]

    lane = AtMostOnceLane if once else Lane
    kept = bridge.dead_letters_per_minute
    kept = max(1, kept // SLOTS) if kept and bridge.leased else kept
    limits = (in_flight, bridge.max_in_flight_bytes, busy_wait_s, kept, gather_s)
    return lane(name, opened, wanted, sink, translator, *limits)


def source_configs(
    name: str, settings: Settings, endpoints: Endpoints, slot: int | None, once: bool = False,
    receive_maximum: int = 1, gather_s: float = 0.0,
) -> list[SourceConfig]:  # fmt: skip
    """A lane's session of a slot at each broker; all of them share ``receive_maximum``.

    The client id is of the slot, not of the bridge, so its next owner finds the session. At most once is
    another client id: the session of the other guarantee stays untouched.
    """
    bridge = settings.bridge
    client_id = _client_id(bridge.client_id, slot, name, once)
    brokers = endpoints.brokers
    if bridge.user:
        secret = bridge.password_file
        password = "" if secret is None else read_secret(secret, "ODOGRAPH_BRIDGE_PASSWORD_FILE")
        brokers = tuple(replace(broker, user=bridge.user, password=password) for broker in brokers)
    leased = slot is not None
    least, count = (LEAST_WINDOW, SLOTS * len(brokers)) if leased else (1, len(brokers))
    sessions = settings.paths.home / "sessions"
    return [
        SourceConfig(
            broker,
            client_id,
            topics.uplink_filters(settings.mqtt.root, slot, crash=name == "crash"),
            max(least, receive_maximum // count),
            sessions / quote(f"{client_id}@{broker}" if number else client_id, safe=""),
            qos=0 if once else 1,
            max_packet_bytes=settings.mqtt.max_message_bytes,
            identity_property=bridge.identity_property,
            gather_s=0.0 if leased or len(brokers) > 1 else gather_s,
            leased=leased,
        )
        for number, broker in enumerate(brokers)
    ]


def _client_id(stem: str, slot: int | None, name: str, once: bool) -> str:
    return f"{stem}{'' if slot is None else f'-s{slot}'}-{name}{'-once' if once else ''}"


def window(in_flight: int) -> int:
    """Messages the broker may send unacknowledged: half, the rest is for what a reconnect delivers again."""
    return max(1, min(RECEIVE_MAXIMUM, in_flight // 2))


def run(settings: Settings, endpoints: Endpoints) -> int:
    """Serve until SIGTERM or SIGINT (the same again: at once); 0 when all that was read is stored, else 1."""
    log = structlog.get_logger()
    gc.set_threshold(GC_ALLOCATIONS)
    sys.setswitchinterval(SWITCH_S)
    bridge, prefix = settings.bridge, settings.kafka.prefix
    ours = [lane_of(name, settings, endpoints, bridge.guarantee == "at-most-once") for name in LANES]
    wanted = [topics.kafka_topic(prefix, n) for n in ROUTED]
    with (
        kafka_sink.kafka_probe(endpoints.kafka_bootstrap, wanted) as kafka,
        watched(endpoints.brokers) as newest,
        stopped_by_signals(second_ends=True) as stop,
    ):

        def serve(lane: BaseLane) -> int:
            try:
                return lane.run(stop.is_set, bridge.drain_s)
            except BaseException:
                stop.set()  # an error ends all lanes
                raise

        registry = CollectorRegistry()
        registry.register(BrokerCollector(newest))
        registry.register(BridgeCollector(ours, prefix, kafka))
        silence = SilenceWatch(settings, endpoints, ours, registry)
        checks = {"kafka": kafka} | {f"mqtt-{lane.name}": lane.reason for lane in ours}
        leases = SlotLeases(settings, endpoints, ours) if bridge.leased else None
        checks |= {"slots": lambda: leases.trouble} if leases else {}
        with (
            HealthServer(endpoints.health(bridge.process), checks, registry) as health,
            in_background("silence", silence.run),
            in_background("leases", leases.run) if leases else nullcontext(),
            ThreadPoolExecutor(len(ours), "lane") as pool,
        ):
            log.info("bridge started", health_port=health.port, root=settings.mqtt.root,
                     bridges=bridge.shards, guarantee=bridge.guarantee)  # fmt: skip
            served = {lane.name: pool.submit(serve, lane) for lane in ours}
            _log_rates(ours, stop)
    left = {name: count for name, lane in served.items() if (count := lane.result())}
    log.info("bridge stopped", not_stored=left or 0)
    return 1 if left else 0


def _log_rates(ours: list[BaseLane], stop: threading.Event) -> None:
    """A line of statistics a second for each lane at work, until the end is asked for."""
    log = structlog.get_logger()
    last = {lane.name: (0, 0, 0) for lane in ours}
    last_s = time.monotonic()
    while not stop.wait(STATISTICS_S):
        now_s = time.monotonic()
        for lane in ours:
            stats, figures = lane.stats, lane.figures()
            counts = (stats.received.total() + stats.skipped, stats.produced, stats.acked)
            received, stored, acked = (
                round((new - old) / (now_s - last_s))
                for new, old in zip(counts, last[lane.name], strict=True)
            )
            last[lane.name] = counts
            if received or stored or acked or figures["in_flight_messages"]:
                log.info(
                    "rates", lane=lane.name, received_per_s=received, stored_per_s=stored, acked_per_s=acked,
                    rejected=stats.rejected.total(), lost=stats.lost.total(),
                    in_flight=figures["in_flight_messages"], in_flight_bytes=figures["in_flight_bytes"],
                )  # fmt: skip
        last_s = now_s


class EmptiedSource(MqttSource):
    """A session to be emptied; ``emptied`` when all that the broker held has come.

    The subscription is over, so behind the marker, which the broker queues like any message, nothing comes.
    """

    def __init__(self, config: SourceConfig, dialler: Executor | None) -> None:
        self.config = replace(config, marker=f"{MARKER}/{config.client_id}")
        super().__init__(self.config, dialler)
        self._emptied_epoch = -1
        self._mark_s = time.monotonic() + MARK_S

    @property
    def emptied(self) -> bool:
        """After a reconnect what was not acknowledged lies at the broker again."""
        return self._emptied_epoch == self.epoch

    def poll(self, limit: int, wait_s: float) -> list[Publish]:
        found = super().poll(limit, wait_s)
        marker = self.config.marker.encode()
        if any(publish[0] == marker for publish in found):
            self._emptied_epoch = self.epoch
        elif time.monotonic() > self._mark_s:
            self._mark_s = time.monotonic() + MARK_S
            self.mark()
        return [publish for publish in found if publish[0] != marker]


def slots_of(settings: Settings) -> frozenset[int | None]:
    """All slots that these settings make sessions of."""
    return frozenset((*range(SLOTS), topics.UNSLOTTED)) if settings.bridge.leased else WHOLE


def prepare(settings: Settings, endpoints: Endpoints) -> int:
    """Make the sessions and leave: the brokers keep their messages from now on. Raises ServiceError."""
    with ThreadPoolExecutor(DIALLERS, "dial") as pool:
        for name, slot in product(LANES, slots_of(settings)):
            for config in source_configs(name, settings, endpoints, slot):
                source = MqttSource(config, pool)
                deadline_s = time.monotonic() + PREPARE_S
                while not source.subscribed:
                    source.poll(1, 0.1)  # what comes is not acknowledged: it comes again
                    if time.monotonic() > deadline_s:
                        where = f"no session {config.client_id} at {config.broker}"
                        raise ServiceError(f"bridge: {where}: {source.reason()}")
                source.close()
    structlog.get_logger().info("sessions made", slots=len(slots_of(settings)))
    return 0


def retire(settings: Settings, endpoints: Endpoints) -> int:
    """Carry over what the brokers hold for stopped bridges and end the sessions; 1: not all, run it again."""
    checks: dict[str, Check] = {"sessions": lambda: "they are being emptied and ended"}
    with (
        stopped_by_signals() as ended,
        HealthServer(endpoints.health(settings.bridge.process), checks, CollectorRegistry()),
    ):
        # crash records first; a list, so that the second lane is emptied whatever became of the first
        return max([_empty(settings, endpoints, name, ended) for name in reversed(LANES)])


def _empty(settings: Settings, endpoints: Endpoints, name: str, ended: threading.Event) -> int:
    lane = lane_of(name, settings, endpoints, wanted=slots_of(settings), make_source=EmptiedSource)
    sources = [inlet.source for inlet in lane.inlets if isinstance(inlet.source, EmptiedSource)]
    log = structlog.get_logger().bind(lane=name)

    def over() -> bool:
        return ended.is_set() or all(source.emptied for source in sources)

    left = lane.run(over, settings.bridge.drain_s)
    full = [source.config.client_id for source in sources if left or not source.emptied]
    emptied = deque(source.config for source in sources if source.config.client_id not in full)
    try:
        while emptied:
            end_session(emptied[0])
            emptied.popleft()
    except OSError as error:
        log.warning("session not ended", why=emptied[0].broker.trouble(error))
        full += [config.client_id for config in emptied]
    if full:
        log.error("sessions stay", sessions=full, not_stored=left, next_step="run it again")
        return 1
    log.info("sessions ended", stored=lane.stats.produced, skipped=lane.stats.skipped)
    return 0
