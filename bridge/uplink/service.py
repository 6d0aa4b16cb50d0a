"""The bridge's uplink: its two lanes, their threads, the health page, statistics, the orderly end.

A change of the number of shards: new sessions are made before the old ones are emptied and ended.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final
from urllib.parse import quote

import structlog
from prometheus_client import CollectorRegistry

from bridge.uplink import kafka_sink
from bridge.uplink.lane import AtMostOnceLane, BaseLane, Lane
from bridge.uplink.metrics import BridgeCollector, BrokerCollector
from bridge.uplink.mqtt_source import MqttSource, SourceConfig, end_session
from bridge.uplink.silence import SilenceWatch
from bridge.uplink.translate import NamedTranslator, Translator, VehicleLimit
from bridge.uplink.wire import Publish
from infra.clients.health import Check, HealthServer, Listen, in_background, stopped_by_signals
from infra.contract import topics
from infra.contract.errors import ServiceError
from infra.contract.shard import Shard
from infra.settings.files import read_secret
from infra.settings.settings import Endpoints, Settings
from infra.stack.mosquitto import BrokerWatch

LANES: Final = ("telemetry", "crash")
RECEIVE_MAXIMUM: Final = 65_535  # MQTT's own limit
TELEMETRY_LINGER_MS: Final = 5.0
TELEMETRY_GATHER_S: Final = 0.05
"""At 1,200 messages/s a turn, and the four requests it makes to Kafka, is for sixty of them."""
PRIORITY_IN_FLIGHT: Final = 1000

PREPARE_S: Final = 10.0
MARK_S: Final = 2.0
MARKER: Final = "odograph-retire"
STATISTICS_S: Final = 1.0
GC_ALLOCATIONS: Final = 50_000
"""Messages make no reference cycles: the collector's default of 700 costs 5 % of a core for nothing."""
SWITCH_S: Final = 0.0005
"""How long a thread may keep the interpreter while another one wants it. Python's 5 ms would hold a crash
record up several times while the telemetry lane is at work; telemetry pays nothing measurable."""


def lane_of(
    name: str,
    settings: Settings,
    endpoints: Endpoints,
    once: bool = False,
    make_source: Callable[[SourceConfig], MqttSource] = MqttSource,
) -> BaseLane:
    """The lane ``telemetry`` or ``crash``; ``once``: at most once, not acknowledged when Kafka has a message.

    Telemetry takes all below the root by one filter, so that nothing comes twice, and skips crash and
    downlink. Crash records have a connection, a producer, a thread and a wide limit of their own; none waits.
    At most once is another client id: the session of the other guarantee stays untouched.
    """
    bridge, root, broker = settings.bridge, settings.mqtt.root, endpoints.mqtt
    if name == "telemetry":
        filters, skipped = f"{root}/#", frozenset({"crash", *topics.DOWNLINK_CHANNELS})
        in_flight, busy_wait_s = bridge.max_in_flight, 0.002
        linger_ms, gather_s = TELEMETRY_LINGER_MS, TELEMETRY_GATHER_S
        vehicle_limit = VehicleLimit(bridge.vehicle_rate, bridge.vehicle_burst)
    else:
        filters, skipped = topics.mqtt_filter(root, "crash"), frozenset()
        in_flight, busy_wait_s = min(PRIORITY_IN_FLIGHT, bridge.max_in_flight), 0.0005
        linger_ms, gather_s = 0.0, 0.0
        vehicle_limit = VehicleLimit(bridge.crash_rate, bridge.crash_burst)
    shard = Shard.parse(bridge.shard)
    client_id = shard.client_id(bridge.client_id, f"{name}-once" if once else name)
    if bridge.user:
        secret = bridge.password_file
        password = "" if secret is None else read_secret(secret, "ODOGRAPH_BRIDGE_PASSWORD_FILE")
        broker = replace(broker, user=bridge.user, password=password)
    source = SourceConfig(
        broker,
        client_id,
        (filters,),
        window(in_flight),
        settings.paths.home / "sessions" / quote(client_id, safe=""),
        qos=0 if once else 1,
        max_packet_bytes=settings.mqtt.max_message_bytes,
        identity_property=bridge.identity_property,
        gather_s=gather_s,
    )
    producer = (kafka_sink.ONCE if once else kafka_sink.LASTING) | {
        "client.id": client_id,
        "linger.ms": linger_ms,
        # Its queue holds all that may be in flight, so that it is never the one that overflows.
        "queue.buffering.max.messages": 2 * in_flight,
        "queue.buffering.max.kbytes": max(1024, 2 * bridge.max_in_flight_bytes >> 10),
    }
    sink = kafka_sink.KafkaSink(endpoints.kafka_bootstrap, producer)
    kind = NamedTranslator if bridge.identity_property else Translator
    translator = kind(root, settings.kafka.prefix, skipped, shard, vehicle_limit)
    lane = AtMostOnceLane if once else Lane
    limits = (in_flight, bridge.max_in_flight_bytes, busy_wait_s, bridge.dead_letters_per_minute)
    return lane(name, make_source(source), sink, translator, *limits)


def window(in_flight: int) -> int:
    """Messages the broker may send unacknowledged: half, the rest is for what a reconnect delivers again."""
    return max(1, min(RECEIVE_MAXIMUM, in_flight // 2))


def health_page(settings: Settings, endpoints: Endpoints) -> Listen:
    """Where this shard's health page listens; on any free port where none was chosen for it."""
    return endpoints.health(Shard.parse(settings.bridge.shard).process)


def run(settings: Settings, endpoints: Endpoints) -> int:
    """Serve until SIGTERM or SIGINT (a second ends at once); 0 when all that was read is stored, else 1."""
    log = structlog.get_logger()
    gc.set_threshold(GC_ALLOCATIONS)
    sys.setswitchinterval(SWITCH_S)
    bridge, prefix = settings.bridge, settings.kafka.prefix
    ours = [lane_of(name, settings, endpoints, bridge.guarantee == "at-most-once") for name in LANES]
    wanted = [topics.kafka_topic(prefix, n) for n in (*topics.KAFKA_TOPIC_OF.values(), "dead-letter")]
    with (
        kafka_sink.kafka_probe(endpoints.kafka_bootstrap, wanted) as kafka,
        BrokerWatch(endpoints.mqtt, reconnect=True) as broker,
        stopped_by_signals(second_ends=True) as stop,
    ):

        def serve(lane: BaseLane) -> int:
            try:
                return lane.run(stop, bridge.drain_s)
            except BaseException:
                stop.set()  # an error ends all lanes
                raise

        registry = CollectorRegistry()
        registry.register(BrokerCollector(broker.newest))
        registry.register(BridgeCollector(ours, prefix, kafka))
        silence = SilenceWatch(settings, endpoints, ours, registry)
        checks = {"kafka": kafka} | {f"mqtt-{lane.name}": lane.source.reason for lane in ours}
        with (
            HealthServer(health_page(settings, endpoints), checks, registry) as health,
            in_background("silence", silence.run),
            ThreadPoolExecutor(len(ours), "lane") as pool,
        ):
            log.info("bridge started", health_port=health.port, root=settings.mqtt.root, shard=bridge.shard,
                     guarantee=bridge.guarantee)  # fmt: skip
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
    """A session to be emptied: ``stop`` is set when all that the broker held has come, or with ``ended``.

    The subscription is over, so behind the marker, which the broker queues like any message, nothing comes.
    """

    def __init__(self, config: SourceConfig, stop: threading.Event, ended: threading.Event) -> None:
        self.config = replace(config, marker=f"{MARKER}/{config.client_id}")
        super().__init__(self.config)
        self.emptied_epoch = -1
        self._stop, self._ended = stop, ended
        self._mark_s = time.monotonic() + MARK_S

    def poll(self, limit: int, wait_s: float) -> list[Publish]:
        """What came, the marker excepted."""
        found = super().poll(limit, wait_s)
        if self._ended.is_set():
            self._stop.set()
        marker = self.config.marker.encode()
        if any(publish[0] == marker for publish in found):
            self.emptied_epoch = self.epoch
            self._stop.set()
        elif time.monotonic() > self._mark_s:
            self._mark_s = time.monotonic() + MARK_S
            self.mark()
        return [publish for publish in found if publish[0] != marker]


def prepare(settings: Settings, endpoints: Endpoints) -> int:
    """Make a shard's sessions and leave: the broker keeps its messages from now on. Raises ServiceError."""
    for name in LANES:
        source = lane_of(name, settings, endpoints).source
        deadline_s = time.monotonic() + PREPARE_S
        while not source.subscribed:
            source.poll(1, 0.1)  # what comes is not acknowledged: it comes again
            if time.monotonic() > deadline_s:
                raise ServiceError(f"bridge: no session for {name}: {source.reason()}")
        source.close()
    structlog.get_logger().info("sessions made", shard=settings.bridge.shard)
    return 0


def retire(settings: Settings, endpoints: Endpoints) -> int:
    """Carry over what the broker holds for a stopped shard and end its sessions; 1: not all, run it again."""
    checks: dict[str, Check] = {"sessions": lambda: "they are being emptied and ended"}
    with (
        stopped_by_signals() as ended,
        HealthServer(health_page(settings, endpoints), checks, CollectorRegistry()),
    ):
        # crash records first; a list, so that the second session is emptied whatever became of the first
        return max([_empty(settings, endpoints, name, ended) for name in reversed(LANES)])


def _empty(settings: Settings, endpoints: Endpoints, name: str, ended: threading.Event) -> int:
    stop, sources = threading.Event(), list[EmptiedSource]()

    def make(config: SourceConfig) -> EmptiedSource:
        sources.append(EmptiedSource(config, stop, ended))
        return sources[0]

    lane = lane_of(name, settings, endpoints, make_source=make)
    log = structlog.get_logger().bind(lane=name, shard=settings.bridge.shard)
    left = lane.run(stop, settings.bridge.drain_s)
    # After a reconnect what was not acknowledged lies at the broker again.
    if left or sources[0].emptied_epoch != sources[0].epoch:
        log.error("session not emptied, it stays", not_stored=left, next_step="run it again")
        return 1
    end_session(sources[0].config)
    log.info("session ended", stored=lane.stats.produced, skipped=lane.stats.skipped)
    return 0
