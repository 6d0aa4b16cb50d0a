"""A dead letter as it lies in Kafka, and which of them are meant. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from infra.contract import topics

CUT: Final = re.compile(r"the first (\d+) of (\d+) bytes are kept")
"""How a letter's detail says that only a part of the message was kept; see bridge.translate."""

DUMP_WIDTH: Final = 16

Marked = set[tuple[int, str]]
"""Offset and digest of letters that were sent in and are stored."""


@dataclass(frozen=True, slots=True)
class Letter:
    """One record of the topic dead-letter; ``at_ms`` is when the message was received."""

    offset: int
    at_ms: int
    key: bytes | None
    value: bytes
    headers: Mapping[str, bytes]

    @property
    def reason(self) -> str:
        """Why it is dead."""
        return self._text(topics.HEADER_REASON) or "unknown"

    @property
    def detail(self) -> str:
        """Why, at length."""
        return self._text(topics.HEADER_DETAIL)

    @property
    def vehicle_id(self) -> str | None:
        """The vehicle, where the topic named one."""
        return None if self.key is None else self.key.decode(errors="replace")

    @property
    def mqtt_topic(self) -> bytes | None:
        """The MQTT topic as received; None for a letter that no vehicle sent."""
        return self.headers.get(topics.HEADER_MQTT_TOPIC)

    @property
    def digest(self) -> str:
        """SHA-256 of the raw bytes, hex: as in the table odograph.dead_letter."""
        return hashlib.sha256(self.value).hexdigest()

    @property
    def first_received_ms(self) -> int:
        """When the message came over MQTT the first time."""
        for name in (topics.HEADER_FIRST_RECEIVED_MS, topics.HEADER_RECEIVED_MS):
            text = self.headers.get(name, b"")
            if text.isdigit():
                return int(text)
        return self.at_ms

    @property
    def cut(self) -> tuple[int, int] | None:
        """Bytes kept and bytes sent, where only a part was kept."""
        found = CUT.search(self.detail)
        return (int(found[1]), int(found[2])) if found else None

    @property
    def messages(self) -> int:
        """How many messages it stands for: itself, or those that were counted and not kept."""
        text = self.headers.get(topics.HEADER_MESSAGES, b"")
        return int(text) if text.isdigit() and len(text) < 10 else 1

    def _text(self, header: str) -> str:
        return self.headers.get(header, b"").decode(errors="backslashreplace")

    def row(self) -> dict[str, Any]:
        """What lists show of it."""
        topic = self.mqtt_topic
        return {
            "offset": self.offset,
            "received": utc(self.at_ms),
            "reason": self.reason,
            "vehicle_id": self.vehicle_id,
            "mqtt_topic": None if topic is None else topic.decode(errors="backslashreplace"),
            "bytes": len(self.value),
            "detail": self.detail,
        }


@dataclass(frozen=True, slots=True)
class Selection:
    """Which letters are meant; None: whatever it is."""

    reason: str | None = None
    vehicle_id: str | None = None

    def takes(self, letter: Letter) -> bool:
        """Whether the letter is meant."""
        return self.reason in (None, letter.reason) and self.vehicle_id in (None, letter.vehicle_id)


def utc(ms: int) -> str:
    """A time in ms since 1970 as people and machines read it."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def dump(raw: bytes) -> str:
    """Raw bytes as lines of position, hexadecimal and text."""
    lines = []
    for start in range(0, len(raw), DUMP_WIDTH):
        row = raw[start : start + DUMP_WIDTH]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{start:08x}  {row.hex(' '):<{3 * DUMP_WIDTH - 1}}  {text}")
    return "\n".join(lines)
