"""Names: MQTT topics and filters, Kafka topics with key, partitions, retention and clean-up policy.

A record's Kafka timestamp is the bridge's receive time (``CreateTime``): it is the clock that lateness and
clock faults are judged by, it survives mirroring and replay, and Spark reads it without parsing headers.
Device time never becomes a Kafka timestamp.
"""

import re
from dataclasses import dataclass
from typing import Final

from infra.contract.errors import ContractError

SLOTS: Final = 64  # for ever: devices have it in their firmware
_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_32: Final = 0xFFFFFFFF


def slot_of(vehicle_id: str) -> int:
    """The slot of a vehicle, from 0 to ``SLOTS`` - 1: in slots several bridges share the fleet.

    Where a topic's partitions divide the number of slots, a slot's vehicles are in one partition.
    """
    return partition_of(vehicle_id.encode(), SLOTS)


def partition_of(key: bytes, count: int) -> int:
    """The partition of ``count`` that Kafka's clients give a record with this key."""
    return (murmur2(key) & 0x7FFFFFFF) % count


def murmur2(key: bytes) -> int:
    """Austin Appleby's MurmurHash2, 32 bits, with the seed of Kafka's Java client; unsigned."""
    value = (_SEED ^ len(key)) & _32
    whole = len(key) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(key[at : at + 4], "little") * _M & _32
        word = (word ^ word >> 24) * _M & _32
        value = (value * _M & _32) ^ word
    if rest := key[whole:]:
        value = (value ^ int.from_bytes(rest, "little")) * _M & _32
    value = (value ^ value >> 13) * _M & _32
    return value ^ value >> 15


MAX_RECORD_BYTES = 1 << 20
"""Largest batch of records that any topic takes, as stored; a producer's batch is 1,000,000 bytes at most."""
DEAD_LETTER_BYTES = 1 << 30
DEAD_LETTER_SEGMENT_BYTES = 1 << 26
"""Kafka drops whole segments: the topic holds up to one more than its bytes."""

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS

VEHICLE_ID = re.compile(r"[A-HJ-NPR-Z0-9]{17}")  # by ISO 3779: 17 characters, without I, O and Q

UPLINK_CHANNELS = ("telemetry", "crash", "status")  # each flows into the Kafka topic of its name
DOWNLINK_CHANNELS = ("alert", "notice")
EVERYBODY = "all"  # in the place of a vehicle id: a notice to all vehicles. No VIN is so short

HEADER_MQTT_TOPIC = "mqtt_topic"
HEADER_RECEIVED_MS = "received_ms"
HEADER_SCHEMA = "schema"
HEADER_REASON = "reason"
HEADER_DETAIL = "detail"
HEADER_MESSAGES = "messages"  # of a dead letter without a message: how many were not kept; 0 of an event
HEADER_SINCE_MS = "since_ms"  # of the dead letter of a lost session: when it was last known to be there
HEADER_AUTHENTICATED_AS = "authenticated_as"  # of a dead letter: its sender by the broker, empty: none
HEADER_AGAIN = "again"  # of a record that was appended again, when another vehicle's were erased
HEADER_REINJECTED_FROM = "reinjected_from"  # offset of the dead letter that a record was made of
HEADER_FIRST_RECEIVED_MS = "first_received_ms"  # of a re-injected message: when it came over MQTT
HEADER_REGION = "region"  # of a status: whose bridge wrote it, where there are two

KEPT_BYTES = 900_000  # of a dead letter at most: Kafka's limit for a record with its headers is 1 MiB
DETAIL_CHARS = 500


def why_headers(reason: str, detail: str) -> list[tuple[str, bytes]]:
    """The headers that say why a letter is dead."""
    return [(HEADER_REASON, reason.encode()), (HEADER_DETAIL, detail.encode(errors="backslashreplace"))]


@dataclass(frozen=True, slots=True)
class KafkaTopic:
    """A Kafka topic; ``retention_ms`` -1 keeps for ever, ``retention_bytes`` -1 whatever its size."""

    name: str
    key: str
    partitions: int
    retention_ms: int
    cleanup: str
    why: str
    retention_bytes: int = -1

    def bounds(self) -> dict[str, str]:
        """How big a record, and the topic, may become: put right at each start, in old topics too."""
        limits = {"max.message.bytes": str(MAX_RECORD_BYTES)}
        if self.cleanup == "compact":
            limits["delete.retention.ms"] = str(HOUR_MS)
        if self.retention_bytes >= 0:
            limits["retention.bytes"] = str(self.retention_bytes)
            limits["segment.bytes"] = str(DEAD_LETTER_SEGMENT_BYTES)
        return limits

    def config(self) -> dict[str, str]:
        limits = {"cleanup.policy": self.cleanup, "retention.ms": str(self.retention_ms),
                  "message.timestamp.type": "CreateTime"}  # fmt: skip
        if self.cleanup == "compact":
            limits |= {"min.cleanable.dirty.ratio": "0.1", "max.compaction.lag.ms": str(HOUR_MS)}
        return limits | self.bounds()


KAFKA_TOPICS: tuple[KafkaTopic, ...] = (
    KafkaTopic("telemetry", "vehicle", 4, 7 * DAY_MS, "delete", "frames, in order per vehicle"),
    KafkaTopic("telemetry-deferred", "vehicle", 4, 7 * DAY_MS, "delete",
               "frames put off while there is overload: the archive alone reads them"),
    KafkaTopic("crash", "vehicle", 2, -1, "delete", "the priority lane: crash records, kept for ever"),
    KafkaTopic("status", "vehicle", 1, -1, "compact", "the last word on each vehicle: birth, death, model"),
    KafkaTopic("alerts", "vehicle", 2, 30 * DAY_MS, "delete", "what the jobs found"),
    KafkaTopic("incidents", "vehicle and cause", 1, -1, "compact",
               "which incident a vehicle's alerts of a cause are, and the table of causes"),
    KafkaTopic("policy", "what it is about", 1, -1, "compact", "what the service has decided for the fleet"),
    KafkaTopic("clock", "receipt", 1, -1, "compact",
               "up to when all was received and read, told while no vehicle sends"),
    KafkaTopic("dead-delivery", "vehicle", 1, 30 * DAY_MS, "delete", "alerts nobody took, and why"),
    KafkaTopic("dead-letter", "vehicle or none", 1, 30 * DAY_MS, "delete",
               "what could not be understood: raw bytes and the reason", DEAD_LETTER_BYTES),
)  # fmt: skip

BRIDGE_SLOTS = KafkaTopic("bridge-slots", "none", SLOTS + 1, HOUR_MS, "delete",
                          "empty: its partitions are the slots that several bridges share")  # fmt: skip
"""Made where there are several bridges. The last partition is ``UNSLOTTED``."""

MQTT_TOPICS: tuple[tuple[str, str, int, str], ...] = (
    ("`<root>/s/<slot>/<vehicle>/telemetry`", "up", 1, "frames"),
    ("`<root>/s/<slot>/<vehicle>/crash`", "up", 1, "crash records, large ones in parts"),
    ("`<root>/s/<slot>/<vehicle>/status`", "up", 1, "birth and last will, retained"),
    ("`<root>/<vehicle>/telemetry`, `crash`, `status`", "up", 1, "the same, of devices that know no slots"),
    ("`<root>/<vehicle>/alert`", "down", 1, "alerts of this vehicle, signed; expire after 15 min"),
    ("`<root>/<vehicle>/notice`, `<root>/all/notice`", "down", 1, "notices to one or all vehicles, signed"),
)
"""Topic, direction seen from the vehicle, QoS, content; the root is the setting ODOGRAPH_MQTT_ROOT.
``<slot>`` is murmur2 of the vehicle's id without its sign bit, modulo 64."""

DEFERRED = "telemetry-deferred"
LIVE = ("telemetry", DEFERRED)  # where frames lie
EVENT_TOPICS = ("alerts", "crash", "status", "dead-letter")  # what the event store reads
CLOCK = "clock"
COPIED = tuple(topic.name for topic in KAFKA_TOPICS if topic.name not in (CLOCK, "policy"))
"""Into the other region's log. Not the clock: what a region's jobs tell themselves of their own log. Nor what
a region decides: its maintenance tells that when it begins to act, and what the other one decided would come
behind it.
"""
SLOT_LEVEL = "s"  # before a slot, in the place of a vehicle id
UNSLOTTED = SLOTS  # stands for the topics of devices that know no slots, in the place of a slot


def mqtt_topic(root: str, vehicle_id: str, channel: str) -> str:
    """The MQTT topic of one vehicle's channel, as ``odograph/v1/s/<slot>/<vehicle>/telemetry``.

    Downlink channels have no slot, as ``odograph/v1/<vehicle>/alert``.
    """
    slot = f"{SLOT_LEVEL}/{slot_of(vehicle_id)}/" if channel in UPLINK_CHANNELS else ""
    return f"{root}/{slot}{vehicle_id}/{channel}"


def mqtt_filter(root: str, channel: str) -> str:
    """The MQTT filter that matches a channel of every vehicle, in topics without a slot."""
    return f"{root}/+/{channel}"


def uplink_filters(root: str, slot: int | None, crash: bool) -> tuple[str, ...]:
    """The filters of a slot, of ``UNSLOTTED``, or (None) of all: crash records, or whatever is sent there."""
    if slot is None:
        return (f"{root}/+/crash", f"{root}/{SLOT_LEVEL}/+/+/crash") if crash else (f"{root}/#",)
    if slot == UNSLOTTED:
        return (f"{root}/+/{'crash' if crash else '+'}",)
    return (f"{root}/{SLOT_LEVEL}/{slot}/{'+/crash' if crash else '#'}",)


def parse_mqtt_topic(root: str, topic: str) -> tuple[str, str]:
    """Vehicle id and channel of an uplink topic, with its slot or without one.

    Raises ContractError: ``unknown_topic`` for a channel that is not an uplink, ``bad_topic`` for another
    shape or another vehicle's slot, ``bad_identity`` for an id that is not a VIN.
    """
    parts = topic.removeprefix(root + "/").split("/") if topic.startswith(root + "/") else []
    slot = parts[1] if len(parts) == 4 and parts[0] == SLOT_LEVEL else None
    if slot is None and len(parts) != 2:
        raise ContractError("bad_topic", f"{topic!r} is not {root}/[{SLOT_LEVEL}/<slot>/]<vehicle>/<channel>")
    vehicle_id, channel = parts[-2:]
    if channel not in UPLINK_CHANNELS:
        raise ContractError("unknown_topic", f"channel {channel!r} is none of {', '.join(UPLINK_CHANNELS)}")
    if VEHICLE_ID.fullmatch(vehicle_id) is None:
        raise ContractError("bad_identity", f"{vehicle_id!r} is not a 17-character VIN")
    if slot is not None and slot != str(slot_of(vehicle_id)):
        raise ContractError("bad_topic", f"{vehicle_id} is of slot {slot_of(vehicle_id)}, not {slot}")
    return vehicle_id, channel


def kafka_topic(prefix: str, name: str) -> str:
    """The full name of a Kafka topic, as ``odograph.telemetry``."""
    return f"{prefix}{name}"
