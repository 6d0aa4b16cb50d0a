"""The bytes of the MQTT 5 wire that are worth reading ourselves: runs of PUBLISH in, PUBACKs out.

A general client reads each header byte by a system call of its own and builds an object for each message; at
tens of thousands of messages a second that is most of the bridge's work. Here a run of PUBLISH packets is cut
out of one large read; every other packet is left for the client library.
Source: MQTT Version 5.0 (OASIS), 2.1 fixed header, 2.2.2 properties, 3.3 PUBLISH, 3.4 PUBACK.
"""

import ssl
import struct
import sys
from array import array
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

Publish = tuple[bytes, int, bytes]
"""Topic, packet id (0 at QoS 0) and payload. A plain tuple: one is made for every message."""

PUBLISH: Final = 0x30
PUBACK_HEAD: Final = 0x4002  # flags 0, two more bytes: reason "success" and no properties are left out
USUAL_HEAD: Final = 5  # bytes before the topic where the remaining length takes two: 128 to 16,383 bytes

PACKET_BYTES: Final = 1 << 20  # of a larger PUBLISH the first bytes are held, the others counted as they pass
READ_BYTES: Final = 256 * 1024

USER_PROPERTY: Final = 0x26
_NUMBER_PROPERTY: Final = 0x0B
_FIXED_PROPERTIES: Final = {0x01: 1, 0x02: 4, 0x23: 2}
_TEXT_PROPERTIES: Final = (0x03, 0x08, 0x09)

_usual_head = struct.Struct(">BBBH").unpack_from


class WireError(Exception):
    """The bytes are no MQTT 5 packet: the connection is to be closed."""


class CutPayload(bytes):
    """The first bytes of a payload of ``size`` bytes that was not held."""

    size = 0


class NamedTopic(bytes):
    """A topic as received, and its sender by the broker; None where it names nobody, or two."""

    name: bytes | None = None


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The variable byte integer at ``at``, and its end. Raises IndexError where it is cut, WireError."""
    value = 0
    for shift in (0, 7, 14, 21):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise WireError("a length of more than four bytes")


def packet_length(data: bytes, start: int) -> int:
    """Bytes of the packet that begins at ``start``; 0 when its header is not complete. Raises WireError."""
    try:
        remaining, at = varint(data, start + 1)
    except IndexError:
        return 0
    return at - start + remaining


def is_publish(data: bytes, start: int) -> bool:
    """Whether the packet at ``start`` is a PUBLISH."""
    return data[start] & 0xF0 == PUBLISH


def take_publishes(data: bytes, start: int, limit: int, wanted: bytes = b"") -> tuple[list[Publish], int]:
    """The run of whole PUBLISH packets from ``start``, at most ``limit``, and its end. Raises WireError.

    With the name of a user property ``wanted`` topics are NamedTopics, named by its value.
    """
    found: list[Publish] = []
    end = len(data)
    usual_end = -1 if wanted else end - USUAL_HEAD
    while start < end and len(found) < limit and data[start] & 0xF0 == PUBLISH:
        if start <= usual_end:
            first, low, high, topic_bytes = _usual_head(data, start)
            # QoS 1 and a remaining length of two bytes, as nearly all have
            if first & 0x06 and low >= 0x80 > high:
                stop = start + 3 + (low & 0x7F | high << 7)
                topic_end = start + USUAL_HEAD + topic_bytes
                if topic_end + 3 <= stop <= end and not data[topic_end + 2]:
                    packet_id = data[topic_end] << 8 | data[topic_end + 1]
                    found.append(
                        (data[start + USUAL_HEAD : topic_end], packet_id, data[topic_end + 3 : stop])
                    )
                    start = stop
                    continue
        length = packet_length(data, start)
        if length == 0 or start + length > end:
            break
        found.append(_publish(data[start : start + length], wanted))
        start += length
    return found, start


def _publish(packet: bytes, wanted: bytes) -> Publish:
    """The one PUBLISH in ``packet``; its properties are skipped but for the one ``wanted``."""
    topic, packet_id, at = _address(packet)
    name, body = _properties(packet, at, wanted)
    return _named(topic, name) if wanted else topic, packet_id, packet[body:]


def _named(topic: bytes, name: bytes | None) -> NamedTopic:
    named = NamedTopic(topic)
    named.name = name
    return named


def _address(packet: bytes) -> tuple[bytes, int, int]:
    """Topic and packet id of the PUBLISH that ``packet`` begins with, and where its properties begin."""
    _, at = varint(packet, 1)
    topic_end = at + 2 + int.from_bytes(packet[at : at + 2], "big")
    properties = topic_end + (2 if packet[0] & 0x06 else 0)
    if at + 2 > len(packet) or properties >= len(packet):
        raise WireError("a PUBLISH shorter than its topic")
    return packet[at + 2 : topic_end], int.from_bytes(packet[topic_end:properties], "big"), properties


def _properties(packet: bytes, at: int, wanted: bytes) -> tuple[bytes | None, int]:
    """The value of the property ``wanted`` of those that begin at ``at``, and where the payload begins."""
    try:
        length, at = varint(packet, at)
        name = _name(packet[at : at + length], wanted) if wanted else None
    except IndexError as error:
        raise WireError("a property longer than its packet") from error
    if at + length > len(packet):
        raise WireError("a PUBLISH shorter than its properties")
    return name, at + length


def _name(properties: bytes, wanted: bytes) -> bytes | None:
    """The value of the one user property ``wanted``; None for none and for several."""
    at, values = 0, []
    while at < len(properties):
        kind = properties[at]
        at += 1
        if kind == USER_PROPERTY:
            key, at = _text(properties, at)
            value, at = _text(properties, at)
            if key == wanted:
                values.append(value)
        elif kind in _TEXT_PROPERTIES:
            _, at = _text(properties, at)
        elif kind == _NUMBER_PROPERTY:
            _, at = varint(properties, at)
        elif kind in _FIXED_PROPERTIES:
            at += _FIXED_PROPERTIES[kind]
        else:
            raise WireError(f"property {kind:#04x} has no place in a PUBLISH")
    return values[0] if len(values) == 1 else None


def _text(properties: bytes, at: int) -> tuple[bytes, int]:
    end = at + 2 + int.from_bytes(properties[at : at + 2], "big")
    if end > len(properties):
        raise IndexError
    return properties[at + 2 : end], end


def pubacks(packet_ids: Sequence[int]) -> bytes:
    """One buffer that acknowledges all of ``packet_ids``, in their order."""
    words = array("H", [PUBACK_HEAD]) * (2 * len(packet_ids))
    words[1::2] = array("H", packet_ids)
    if sys.byteorder == "little":
        words.byteswap()
    return words.tobytes()


class PacketBuffer:
    """What was read from the connection and not consumed yet; a long packet's parts are joined once.

    Of a PUBLISH of more than ``limit`` bytes only so many are held; it is given out when the rest, of which
    ``passing`` bytes are to come, has passed.
    ``wanted``: the user property that names senders.
    """

    def __init__(self) -> None:
        self.limit = PACKET_BYTES
        self.wanted = b""
        self._data = b""
        self._at = 0
        self._parts: list[bytes] = []
        self._missing = 0
        self._large = 0
        self.passing = 0

    def __len__(self) -> int:
        return len(self._data) - self._at

    def feed(self, data: bytes) -> None:
        """Append what was just read. Raises WireError for a packet too large that is no PUBLISH."""
        if self.passing:
            passed = min(self.passing, len(data))
            self.passing -= passed
            data = data[passed:]
            if not data:
                return
        self._parts.append(data)
        self._missing -= len(data)
        if self._missing > 0:
            return
        self._data = b"".join([self._data[self._at :], *self._parts])
        self._at = 0
        self._parts = []
        length = 0 if self._large else packet_length(self._data, 0)
        self._missing = max(0, min(length, self.limit) - len(self._data))
        if length > self.limit:
            if not is_publish(self._data, 0):
                raise WireError(f"a packet of {length} bytes that is no PUBLISH")
            if not self._missing:  # hold the first bytes, let the others pass
                self._large, self.passing = length, max(0, length - len(self._data))
                self._data = self._data[: self.limit] + self._data[length:]

    def refused(self) -> list[Publish]:
        """The large PUBLISH at the head, whether or not all of it has passed; none where there is none.

        Properties beyond the bytes that are held count as payload, and name nobody.
        """
        if not self._large:
            return []
        head = self._data[: self.limit]
        topic, packet_id, body = _address(head)
        name = None
        with suppress(WireError):
            name, body = _properties(head, body, self.wanted)
        payload = CutPayload(head[body:])
        payload.size = self._large - body
        self._at, self._large = self.limit, 0
        return [(_named(topic, name) if self.wanted else topic, packet_id, payload)]

    def publishes(self, limit: int) -> list[Publish]:
        """The run of whole PUBLISH packets at the head, at most ``limit`` of them."""
        if self._large:
            return self.refused() if limit > 0 and not self.passing else []
        found, self._at = take_publishes(self._data, self._at, limit, self.wanted)
        return found

    def is_whole(self) -> bool:
        """Whether a whole packet is at the head, or a large one has passed."""
        if self._large:
            return not self.passing
        return self._at < len(self._data) and 0 < packet_length(self._data, self._at) <= len(self)

    def other_is_whole(self) -> bool:
        """Whether a whole packet of another kind is at the head: the client library's turn."""
        ours = self._large or self._at >= len(self._data) or is_publish(self._data, self._at)
        return not ours and self.is_whole()

    def read(self, count: int) -> bytes:
        """The next ``count`` bytes or fewer, empty when there are none."""
        data = self._data[self._at : self._at + count]
        self._at += len(data)
        return data


class BufferedSocket:
    """Stands in for a non-blocking socket under the client library; ``buffer`` holds what was read ahead,
    ``unsent`` what is still to be written of ours.
    """

    def __init__(self, sock: Any) -> None:
        self._sock = sock
        self.unsent = b""
        self.buffer = PacketBuffer()
        self.fileno, self.setblocking, self.close = sock.fileno, sock.setblocking, sock.close

    def fill(self) -> int:
        """Read what is there, READ_BYTES or a little more; how many bytes. Raises ConnectionError at the end
        of the stream.

        TLS gives a record at a time, and the broker makes one of each packet.
        """
        found, count = list[bytes](), 0
        with suppress(BlockingIOError, ssl.SSLWantReadError):
            while count < READ_BYTES:
                found.append(self._sock.recv(READ_BYTES))
                count += len(found[-1])
                if not found[-1] or not isinstance(self._sock, ssl.SSLSocket):
                    break
        if found and not count:
            raise ConnectionError("the broker closed the connection")
        if count:
            self.buffer.feed(b"".join(found))
        return count

    def recv(self, count: int) -> bytes:
        """What the client library reads: only from packets that were read ahead."""
        data = self.buffer.read(count)
        if not data:
            raise BlockingIOError
        return data

    def send(self, data: bytes) -> int:
        """What the client library writes: never into the middle of our own packets."""
        self.flush()
        if self.unsent:
            raise BlockingIOError
        return int(self._sock.send(data))

    def queue(self, data: bytes) -> None:
        """Send ``data`` in its turn; the caller sees to it that the library has no packet half sent."""
        self.unsent += data
        self.flush()

    def flush(self) -> None:
        """Send what was queued, as far as the kernel takes it."""
        with suppress(BlockingIOError, ssl.SSLWantWriteError):
            while self.unsent:
                self.unsent = self.unsent[self._sock.send(self.unsent) :]
