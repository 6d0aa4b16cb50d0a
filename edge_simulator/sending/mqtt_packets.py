"""The few MQTT 3.1.1 packets that a vehicle at QoS 1 needs: bytes in, bytes out, no connection.

Source: OASIS MQTT 3.1.1, chapters 2 and 3.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

PACKET_IDS = 65_535  # packet identifiers run from 1 to this
PINGREQ = b"\xc0\x00"
DISCONNECT = b"\xe0\x00"

_FIRST = ((b"\x32", b"\x33"), (b"\x3a", b"\x3b"))  # a PUBLISH's first byte at QoS 1, by DUP and RETAIN
_CLEAN_SESSION, _WILL_QOS1, _WILL_RETAIN = 0x02, 0x0C, 0x20
_USER, _PASSWORD = 0x80, 0x40
_CONNACK, _PUBLISH, _PUBACK, _SUBACK, _PINGRESP = 0x20, 0x30, 0x40, 0x90, 0xD0
_PUBACK_HEAD = 0x4002
_LENGTHS = {_CONNACK: 2, _PUBACK: 2, _PINGRESP: 0}  # of the body
_SUBSCRIPTION_FAILED = 0x80
_MOST_LENGTH_BYTES = 4

REFUSALS = {
    1: "unacceptable protocol version", 2: "client identifier rejected", 3: "server unavailable",
    4: "bad user name or password", 5: "not authorized",
}  # fmt: skip


class ProtocolError(Exception):
    """The other side sent what MQTT 3.1.1 does not allow here."""


class Incoming(NamedTuple):
    """A message for us, which may come twice; ``packet_id`` is owed a PUBACK, 0 at QoS 0."""

    topic: str
    payload: bytes
    packet_id: int = 0


@dataclass(slots=True)
class Received:
    """What a broker sent."""

    acks: list[int] = field(default_factory=list)  # packet identifiers of PUBACKs in order of arrival
    connack: int | None = None  # return code; 0 is accepted
    session: bool = False
    """The broker had kept the session: subscriptions are in force, nothing that was sent to it is lost."""
    pong: bool = False
    subscribed: bool = False
    publishes: list[Incoming] = field(default_factory=list)


@lru_cache(maxsize=16_384)
def remaining_length(count: int) -> bytes:
    """A packet's length without its first bytes, seven bits a byte, lowest first."""
    found = bytearray()
    while True:
        count, low = count >> 7, count & 0x7F
        found.append(low | (0x80 if count else 0))
        if not count:
            return bytes(found)


def text(value: bytes) -> bytes:
    """A length-prefixed string or binary field; raises ValueError beyond 65535 bytes."""
    if len(value) > 0xFFFF:
        raise ValueError(f"an MQTT field holds at most 65535 bytes, not {len(value)}")
    return len(value).to_bytes(2, "big") + value


def connect(
    client_id: str, keepalive_s: int, will: tuple[str, bytes] | None = None, clean: bool = True,
    login: tuple[str, str] = ("", ""),
) -> bytes:  # fmt: skip
    """CONNECT; ``will`` is topic and payload of a retained last will at QoS 1; ``login`` user and password.

    Not ``clean``: the broker keeps subscriptions, and what comes for them, while the connection is away.
    """
    user, password = login
    flags, fields = clean * _CLEAN_SESSION, [client_id.encode()]
    if will is not None:
        flags |= _WILL_QOS1 | _WILL_RETAIN
        fields += [will[0].encode(), will[1]]
    if user:
        flags |= _USER | _PASSWORD * bool(password)
        fields += [user.encode(), password.encode()] if password else [user.encode()]
    payload = b"".join(map(text, fields))
    body = b"\x00\x04MQTT\x04" + bytes([flags]) + keepalive_s.to_bytes(2, "big") + payload
    return b"\x10" + remaining_length(len(body)) + body


def publish(
    topic: bytes, packet_id: int, payload: bytes, retain: bool = False, dup: bool = False
) -> tuple[bytes, ...]:
    """The pieces of a PUBLISH at QoS 1, to be joined; ``topic`` as made by :func:`text`."""
    length = remaining_length(len(topic) + 2 + len(payload))
    return (_FIRST[dup][retain], length, topic, packet_id.to_bytes(2, "big"), payload)


def subscribe(packet_id: int, filters: Sequence[str]) -> bytes:
    """SUBSCRIBE at QoS 1; one filter at least."""
    body = packet_id.to_bytes(2, "big") + b"".join(text(name.encode()) + b"\x01" for name in filters)
    return b"\x82" + remaining_length(len(body)) + body


def puback(packet_id: int) -> bytes:
    """PUBACK."""
    return b"\x40\x02" + packet_id.to_bytes(2, "big")


def received(data: bytes) -> tuple[Received, bytes]:
    """What is whole in ``data``, and the rest; raises ProtocolError."""
    whole = len(data) & ~3
    words = struct.unpack(f">{whole // 2}H", data[:whole])
    if whole and words[::2].count(_PUBACK_HEAD) == whole // 4:  # nearly always: nothing but PUBACKs
        return Received(acks=list(words[1::2])), data[whole:]
    found, at = Received(), 0
    while (limits := _limits(data, at)) is not None:
        body, end = limits
        _note(data[at], data[body:end], found)
        at = end
    return found, data[at:]


def _limits(data: bytes, at: int) -> tuple[int, int] | None:
    """Where the body of the packet at ``at`` begins and ends; None when it is not whole yet."""
    size = 0
    for k, byte in enumerate(data[at + 1 : at + 1 + _MOST_LENGTH_BYTES]):
        size |= (byte & 0x7F) << 7 * k
        if byte < 0x80:
            body = at + 2 + k
            return (body, body + size) if body + size <= len(data) else None
    if len(data) > at + _MOST_LENGTH_BYTES:
        raise ProtocolError("a packet's length takes more than four bytes")
    return None


def _note(kind: int, body: bytes, found: Received) -> None:
    if kind & 0xF0 == _PUBLISH:
        found.publishes.append(_incoming(kind, body))
    elif kind == _SUBACK and len(body) > 2:
        if max(body[2:]) >= _SUBSCRIPTION_FAILED:
            raise ProtocolError("the broker refuses a subscription (its ACL?); --no-react does without")
        found.subscribed = True
    elif _LENGTHS.get(kind) != len(body):
        raise ProtocolError(f"unexpected packet {kind:02x}{body[:7].hex()}")
    elif kind == _PUBACK:
        found.acks.append(int.from_bytes(body, "big"))
    elif kind == _CONNACK:
        found.session, found.connack = body[0] & 1 == 1, body[1]
    else:
        found.pong = True


def _incoming(kind: int, body: bytes) -> Incoming:
    end = 2 + int.from_bytes(body[:2], "big")
    qos = kind >> 1 & 3
    rest = end + 2 * (qos > 0)
    if qos > 1 or rest > len(body):
        raise ProtocolError(f"a PUBLISH that was not asked for or is cut short: {body[:8].hex()}")
    try:
        return Incoming(body[2:end].decode(), body[rest:], int.from_bytes(body[end:rest], "big"))
    except UnicodeDecodeError as error:
        raise ProtocolError("a topic that is not UTF-8") from error
