"""Who the broker says has sent a message: an MQTT 5 user property that it adds to each PUBLISH. Pure.

Only a broker that sets the property itself, and takes away what a client put there under that name, makes it
worth anything. Source: MQTT Version 5.0 (OASIS), 2.2.2 properties, 3.3.2.3 those of PUBLISH.
"""

from __future__ import annotations

from typing import Final

from bridge.translate import Record, Rejection, Route, Translator
from bridge.wire import Publish, WireError, is_publish, packet_length, take_publishes
from infra.contract import topics

USER_PROPERTY: Final = 0x26
_FIXED_BYTES: Final = {0x01: 1, 0x02: 4, 0x23: 2}
_TEXTS: Final = (0x03, 0x08, 0x09)
_NUMBER: Final = 0x0B


class NamedTopic(bytes):
    """A topic as received, and its sender by the broker; None where it names nobody, or two."""

    name: bytes | None = None


def take_named(data: bytes, start: int, limit: int, wanted: bytes) -> tuple[list[Publish], int]:
    """As ``wire.take_publishes``, with each topic a NamedTopic by the user property ``wanted``."""
    found: list[Publish] = []
    while start < len(data) and len(found) < limit and is_publish(data, start):
        length = packet_length(data, start)
        if length == 0 or start + length > len(data):
            break
        (publish,), _ = take_publishes(data[start : start + length], 0, 1)
        topic = NamedTopic(publish[0])
        try:
            topic.name = _name(data[start : start + length], wanted)
        except IndexError as error:
            raise WireError("a property longer than its packet") from error
        found.append((topic, publish[1], publish[2]))
        start += length
    return found, start


def _name(packet: bytes, wanted: bytes) -> bytes | None:
    """The value of the one user property ``wanted`` of a PUBLISH; None for none and for several."""
    _, at = _varint(packet, 1)
    at += 2 + int.from_bytes(packet[at : at + 2], "big") + (2 if packet[0] & 0x06 else 0)
    length, at = _varint(packet, at)
    end, values = at + length, []
    while at < end:
        kind = packet[at]
        at += 1
        if kind == USER_PROPERTY:
            key, at = _text(packet, at)
            value, at = _text(packet, at)
            if key == wanted:
                values.append(value)
        elif kind in _TEXTS:
            _, at = _text(packet, at)
        elif kind == _NUMBER:
            _, at = _varint(packet, at)
        elif kind in _FIXED_BYTES:
            at += _FIXED_BYTES[kind]
        else:
            raise WireError(f"property {kind:#04x} has no place in a PUBLISH")
    return values[0] if len(values) == 1 else None


def _text(packet: bytes, at: int) -> tuple[bytes, int]:
    end = at + 2 + int.from_bytes(packet[at : at + 2], "big")
    if end > len(packet):
        raise WireError("a property longer than its packet")
    return packet[at + 2 : end], end


def _varint(packet: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in (0, 7, 14, 21):
        byte = packet[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise WireError("a number of more than four bytes")


class NamedTranslator(Translator):
    """Takes a message only where its sender, by the broker, is the vehicle in its topic."""

    def translate(self, topic: bytes, raw: bytes, received_ms: int) -> Record | Rejection | None:
        """As ever, after the name was looked at: a forger takes none of the vehicle's tokens."""
        plain, name = bytes(topic), _sender(topic)
        route = self._routes.get(plain) or self.route(plain)
        if isinstance(route, Route) and route.key != name:
            said = "names nobody, or two" if name is None else f"says {name!r}"
            detail = f"the broker {said}, the topic says {route.vehicle_id}"
            return Rejection("identity_mismatch", detail, route.key)
        return super().translate(plain, raw, received_ms)

    def dead_letter(self, rejection: Rejection, topic: bytes, raw: bytes, received_ms: int) -> Record:
        """With the sender's name, so that the letter can be judged by it again."""
        record = super().dead_letter(rejection, bytes(topic), raw, received_ms)
        record.headers.append((topics.HEADER_AUTHENTICATED_AS, _sender(topic) or b""))
        return record


def _sender(topic: bytes) -> bytes | None:
    return topic.name if isinstance(topic, NamedTopic) else None
