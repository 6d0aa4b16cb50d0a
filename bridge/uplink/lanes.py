"""Which lanes a bridge has: what each subscribes, as whom, under which limits and with which guarantee."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote

from bridge.uplink.at_most_once import AtMostOnceLane
from bridge.uplink.kafka_sink import KafkaSink, SinkConfig
from bridge.uplink.lane import Lane, LaneLimits
from bridge.uplink.mqtt_source import MqttSource, SessionMemory, SourceConfig
from bridge.uplink.translate import NamedTranslator, Translator, VehicleLimit
from infra.contract import topics
from infra.contract.shard import Shard
from infra.settings.files import read_secret
from infra.settings.settings import Endpoints, Settings

RECEIVE_MAXIMUM: Final = 65_535  # MQTT's own limit

TELEMETRY_LINGER_MS: Final = 5.0
TELEMETRY_GATHER_S: Final = 0.05
"""At 1,200 messages/s a turn, and the four requests it makes to Kafka, is for sixty of them."""
PRIORITY_IN_FLIGHT: Final = 1000
AT_MOST_ONCE: Final = "at-most-once"

AnyLane = Lane | AtMostOnceLane
MakeSource = Callable[[SourceConfig], MqttSource]


@dataclass(frozen=True, slots=True)
class Plan:
    """A lane's MQTT filters, the channels in them that are another's, its limits and waits."""

    name: str
    filters: tuple[str, ...]
    skipped: frozenset[str]
    limits: LaneLimits
    linger_ms: float
    vehicle_limit: VehicleLimit
    gather_s: float = 0.0


def telemetry(settings: Settings) -> Plan:
    """All below the root by one filter, so that nothing comes twice; skips crash and downlink."""
    bridge = settings.bridge
    limits = LaneLimits(
        bridge.max_in_flight, bridge.max_in_flight_bytes, 0.002, bridge.dead_letters_per_minute
    )
    skipped = frozenset({"crash", *topics.DOWNLINK_CHANNELS})
    vehicle = VehicleLimit(bridge.vehicle_rate, bridge.vehicle_burst)
    filters = (f"{settings.mqtt.root}/#",)
    return Plan("telemetry", filters, skipped, limits, TELEMETRY_LINGER_MS, vehicle, TELEMETRY_GATHER_S)


def crash(settings: Settings) -> Plan:
    """Crash records alone: own connection, producer and thread, no waiting, a wide limit of their own."""
    bridge = settings.bridge
    in_flight = min(PRIORITY_IN_FLIGHT, bridge.max_in_flight)
    limits = LaneLimits(in_flight, bridge.max_in_flight_bytes, 0.0005, bridge.dead_letters_per_minute)
    vehicle = VehicleLimit(bridge.crash_rate, bridge.crash_burst)
    filters = (topics.mqtt_filter(settings.mqtt.root, "crash"),)
    return Plan("crash", filters, frozenset(), limits, 0.0, vehicle)


PLANS: Final = (telemetry, crash)


def lanes(settings: Settings, endpoints: Endpoints) -> list[AnyLane]:
    """The lanes of a bridge, with the guarantee in force."""
    make = at_most_once_lane if settings.bridge.guarantee == AT_MOST_ONCE else at_least_once_lane
    return [make(plan(settings), settings, endpoints) for plan in PLANS]


def at_least_once_lane(
    plan: Plan, settings: Settings, endpoints: Endpoints, make_source: MakeSource = MqttSource
) -> Lane:
    """At least once: a session that the broker keeps, acknowledged when Kafka has the message."""
    source, sink, translator = _parts(plan, settings, endpoints, plan.name, once=False)
    return Lane(plan.name, make_source(source), sink, translator, plan.limits)


def at_most_once_lane(plan: Plan, settings: Settings, endpoints: Endpoints) -> AtMostOnceLane:
    """At most once, under another client id: the session of the other guarantee stays untouched."""
    source, sink, translator = _parts(plan, settings, endpoints, f"{plan.name}-once", once=True)
    return AtMostOnceLane(plan.name, MqttSource(source), sink, translator, plan.limits)


def _parts(
    plan: Plan, settings: Settings, endpoints: Endpoints, name: str, once: bool
) -> tuple[SourceConfig, KafkaSink, Translator]:
    bridge, broker, limits = settings.bridge, endpoints.mqtt, plan.limits
    shard = Shard.parse(bridge.shard)
    client_id = shard.client_id(bridge.client_id, name)
    if bridge.user:
        secret = bridge.password_file
        password = "" if secret is None else read_secret(secret, "ODOGRAPH_BRIDGE_PASSWORD_FILE")
        broker = replace(broker, user=bridge.user, password=password)
    source = SourceConfig(
        broker,
        client_id,
        plan.filters,
        window(limits.in_flight),
        qos=0 if once else 1,
        max_packet_bytes=settings.mqtt.max_message_bytes,
        session=SessionMemory(settings.paths.home / "sessions" / quote(client_id, safe="")),
        identity_property=bridge.identity_property,
        gather_s=plan.gather_s,
    )
    # The producer's queue holds all that may be in flight, so that it is never the one that overflows.
    records, size = 2 * limits.in_flight, 2 * limits.in_flight_bytes
    sink = SinkConfig(endpoints.kafka_bootstrap, client_id, plan.linger_ms, records, size, once=once)
    kind = NamedTranslator if bridge.identity_property else Translator
    prefix = settings.kafka.prefix
    translator = kind(settings.mqtt.root, prefix, plan.skipped, shard, plan.vehicle_limit)
    return source, KafkaSink(sink), translator


def health_port(settings: Settings, endpoints: Endpoints) -> int:
    """The port of this shard's health page; 0, any free one, where the stack was not started for it."""
    return endpoints.http_ports.get(Shard.parse(settings.bridge.shard).process, 0)


def window(in_flight: int) -> int:
    """Messages the broker may send unacknowledged: half, the rest is for what a reconnect delivers again."""
    return max(1, min(RECEIVE_MAXIMUM, in_flight // 2))
