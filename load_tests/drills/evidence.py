"""The two lists a drill compares: what the simulator wrote before publishing, and what lies in Kafka."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import orjson
from confluent_kafka import Consumer, Message, TopicPartition

from infra.clients import kafka
from infra.contract import topics
from infra.settings.settings import Endpoints, Settings
from load_tests.drills.checker import (
    DeadLetter,
    Findings,
    Identity,
    Poison,
    Stored,
    check,
    expected_reason,
    kept,
)

READ_S: Final = 60.0
MARKER_VIN: Final = "1HGCM82633A"
"""Markers of a drill come from vehicles whose id begins so: none of the simulator's does."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What a run wrote before publishing: identities of frames in order, and poison."""

    frames: list[Identity]
    flags: dict[Identity, str]
    """What befell a frame, where that was something."""
    poison: list[bytes]


def sent(home: Path, *run_ids: str) -> Sent:
    """Of the telemetry channel, from ``frames.jsonl`` of the runs one after the other."""
    frames: list[Identity] = []
    flags: dict[Identity, str] = {}
    poison: list[bytes] = []
    for run_id in run_ids:
        with (home / "runs" / run_id / "frames.jsonl").open("rb") as file:
            for text in file:
                line = orjson.loads(text)
                if line["flag"] == "poison":
                    poison.append(base64.b64decode(line["payload_b64"]))
                elif line["channel"] == "telemetry":
                    identity = _identity(line["payload"])
                    frames.append(identity)
                    if line["flag"] != "plain":
                        flags[identity] = line["flag"]
    return Sent(frames, flags, poison)


def _identity(frame: dict[str, Any]) -> Identity:
    return frame["vehicle_id"], frame["boot_id"], frame["seq"]


class Log:
    """Reads the topics of a site. Knows where each topic ended when ``begin_here`` was called."""

    def __init__(self, settings: Settings, endpoints: Endpoints) -> None:
        self._root = settings.mqtt.root
        self._open = partial(kafka.LogEnds, endpoints.kafka_bootstrap, settings.kafka.prefix, READ_S)
        self._begin: dict[str, dict[int, int]] = {}

    def begin_here(self, *names: str) -> None:
        """What these topics hold by now is not this drill's."""
        with self._open() as log:
            self._begin |= {name: log.ends(name) for name in names}

    def messages(self, name: str) -> Iterator[Message]:
        """All records that lie in a topic now, partition after partition; raises ServiceError."""
        begin = self._begin.get(name, {})
        with self._open() as log:
            for partition, end in log.ends(name).items():
                low = max(begin.get(partition, 0), log.bounds(log.topic(name), partition)[0])
                yield from log.messages(log.topic(name), partition, low, end)

    def ends(self, name: str) -> dict[int, int]:
        """The next offset of each partition of a topic."""
        with self._open() as log:
            return log.ends(name)

    def appended(self, name: str) -> int:
        """Records in a topic since ``begin_here``, by its offsets."""
        with self._open() as log:
            return log.appended(name) - sum(self._begin.get(name, {}).values())

    def stored(self) -> Iterator[Stored]:
        """The frames in the log, markers left out."""
        for message in self.messages("telemetry"):
            identity = _identity(orjson.loads(message.value() or b""))
            if not identity[0].startswith(MARKER_VIN):
                yield Stored(identity, message.partition() or 0, message.offset() or 0)

    def records(
        self, wanted: Callable[[str], bool], ends: Mapping[int, int] | None = None
    ) -> list[tuple[int, bytes]]:
        """Receive time [ms] and payload of the frames of wanted vehicles, in the log's order.

        ``ends`` are offsets by partition before which they lie; None: all.
        """
        return [
            (message.timestamp()[1], message.value() or b"")
            for message in self.messages("telemetry")
            if wanted((message.key() or b"").decode(errors="replace"))
            and (ends is None or (message.offset() or 0) < ends.get(message.partition() or 0, 0))
        ]

    def letters(self) -> Iterator[tuple[DeadLetter, bytes]]:
        """The dead letters, each with what it keeps."""
        for message in self.messages("dead-letter"):
            value = message.value() or b""
            headers: dict[str, bytes] = dict(message.headers() or [])  # type: ignore[arg-type]
            topic = headers.get(topics.HEADER_MQTT_TOPIC, b"").decode(errors="replace")
            *_, vehicle_id, _ = ("", *topic.removeprefix(f"{self._root}/").split("/"))
            reason = headers.get(topics.HEADER_REASON, b"").decode()
            yield DeadLetter(reason, vehicle_id, kept(value)), value

    def poison(self, payloads: list[bytes]) -> list[Poison]:
        """What was broken on purpose, each with the reason that its bytes and its topic call for.

        The topic is that of the dead letter found; without one the reason is that for any vehicle.
        """
        vehicles = {letter.digest: letter.vehicle_id for letter, _ in self.letters()}
        found = []
        for payload in payloads:
            digest = kept(payload)
            found.append(Poison(expected_reason(payload, vehicles.get(digest, "")) or "none", digest))
        return found


def tail(settings: Settings, endpoints: Endpoints) -> Consumer:
    """A reader of the frames from now on; the caller closes it."""
    consumer = kafka.consumer(endpoints.kafka_bootstrap, "odograph-drill-tail", {"fetch.wait.max.ms": 5})
    with kafka.LogEnds(endpoints.kafka_bootstrap, settings.kafka.prefix) as log:
        ends, topic = log.ends("telemetry"), log.topic("telemetry")
    consumer.assign([TopicPartition(topic, partition, end) for partition, end in ends.items()])
    return consumer


def compare(log: Log, written: Sent) -> Findings:
    """The checker's findings on telemetry."""
    return check(written.frames, log.stored())
