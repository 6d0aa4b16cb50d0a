"""Which lanes a bridge has: what each subscribes, as whom, under which limits and with which guarantee."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote

from bridge.fleeting import FleetingLane
from bridge.kafka_sink import KafkaSink, SinkConfig
from bridge.lane import Lane, LaneLimits
from bridge.mqtt_session import SessionMemory, SourceConfig
from bridge.mqtt_source import MqttSource
from bridge.names import NamedTranslator
from bridge.rate_limit import VehicleLimit
from bridge.translate import Translator
from infra.clients.mqtt_broker import MqttBroker
from infra.contract import topics
from infra.contract.shard import Shard
from infra.settings.files import read_secret
from infra.settings.settings import Endpoints, Settings

RECEIVE_MAXIMUM: Final = 65_535
"""MQTT's own limit."""

TELEMETRY_LINGER_MS: Final = 5.0
TELEMETRY_GATHER_S: Final = 0.05
"""At 1,200 messages/s a turn, and the four requests it makes to Kafka, is for sixty of them."""
PRIORITY_IN_FLIGHT: Final = 1000
AT_MOST_ONCE: Final = "at-most-once"

AnyLane = Lane | FleetingLane
MakeSource = Callable[[SourceConfig], MqttSource]


@dataclass(frozen=True, slots=True)
class Plan:
    """What makes a lane: its MQTT filters, the channels in them that are another's, its limits and waits."""

    name: str
    filters: tuple[str, ...]
    skipped: frozenset[str]
    limits: LaneLimits
    linger_ms: float
    vehicle_limit: VehicleLimit
    gather_s: float = 0.0


def telemetry(settings: Settings) -> Plan:
    """Everything below the root; crash records and downlink topics are acknowledged and left to their owners.

    One filter, so that the broker sends nothing twice, and whatever has an unknown name is seen.
    """
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
    make = fleeting_lane if settings.bridge.guarantee == AT_MOST_ONCE else lasting_lane
    return [make(plan(settings), settings, endpoints) for plan in PLANS]


def lasting_lane(
    plan: Plan, settings: Settings, endpoints: Endpoints, make_source: MakeSource = MqttSource
) -> Lane:
    """At least once: a session that the broker keeps, acknowledged when Kafka has the message."""
    client_id = Shard.parse(settings.bridge.shard).client_id(settings.bridge.client_id, plan.name)
    source = _source(plan, settings, endpoints, client_id, qos=1)
    sink = KafkaSink(_sink(plan, endpoints, client_id))
    return Lane(plan.name, make_source(source), sink, _translator(plan, settings), plan.limits)


def fleeting_lane(plan: Plan, settings: Settings, endpoints: Endpoints) -> FleetingLane:
    """At most once: nothing is kept for us, nothing is acknowledged, nothing is sent twice.

    Another client id: the session of the other guarantee, and what lies in it, stays untouched.
    """
    lane = f"{plan.name}-once"
    client_id = Shard.parse(settings.bridge.shard).client_id(settings.bridge.client_id, lane)
    source = MqttSource(_source(plan, settings, endpoints, client_id, qos=0))
    sink = KafkaSink(_sink(plan, endpoints, client_id, once=True))
    return FleetingLane(plan.name, source, sink, _translator(plan, settings), plan.limits)


def _source(plan: Plan, settings: Settings, endpoints: Endpoints, client_id: str, qos: int) -> SourceConfig:
    return SourceConfig(
        _broker(settings, endpoints),
        client_id,
        plan.filters,
        window(plan.limits.in_flight),
        qos,
        max_packet_bytes=settings.mqtt.max_message_bytes,
        session=SessionMemory(settings.paths.home / "sessions" / quote(client_id, safe="")),
        identity_property=settings.bridge.identity_property,
        gather_s=plan.gather_s,
    )


def _broker(settings: Settings, endpoints: Endpoints) -> MqttBroker:
    """The broker, under the bridge's own name where it has one."""
    secret, user = settings.bridge.password_file, settings.bridge.user
    if not user:
        return endpoints.mqtt
    word = "" if secret is None else read_secret(secret, "ODOGRAPH_BRIDGE_PASSWORD_FILE")
    return replace(endpoints.mqtt, user=user, password=word)


def _sink(plan: Plan, endpoints: Endpoints, client_id: str, once: bool = False) -> SinkConfig:
    """The producer's queue holds all that may be in flight, so that it is never the one that overflows."""
    records, size = 2 * plan.limits.in_flight, 2 * plan.limits.in_flight_bytes
    return SinkConfig(endpoints.kafka_bootstrap, client_id, plan.linger_ms, records, size, once=once)


def _translator(plan: Plan, settings: Settings) -> Translator:
    shard = Shard.parse(settings.bridge.shard)
    kind = NamedTranslator if settings.bridge.identity_property else Translator
    return kind(settings.mqtt.root, settings.kafka.prefix, plan.skipped, shard, plan.vehicle_limit)


def window(in_flight: int) -> int:
    """Messages the broker may send unacknowledged: half of what may be in flight.

    The other half is room for what a reconnect delivers again while the first copies still wait for Kafka.
    """
    return max(1, min(RECEIVE_MAXIMUM, in_flight // 2))
