"""The socket under the MQTT client: reads large pieces ahead, sends acknowledgements whole."""

from __future__ import annotations

import contextlib
import ssl
from typing import Any, Final

from bridge.wire import PacketBuffer

READ_BYTES: Final = 256 * 1024


class BufferedSocket:
    """Stands in for a non-blocking socket; ``buffer`` holds what was read ahead."""

    def __init__(self, sock: Any) -> None:
        self._sock = sock
        self._unsent = b""
        self.buffer = PacketBuffer()

    def fill(self) -> int:
        """Read once; how many bytes were there. Raises ConnectionError at the end of the stream."""
        try:
            data = self._sock.recv(READ_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError):
            return 0
        if not data:
            raise ConnectionError("the broker closed the connection")
        self.buffer.feed(data)
        return len(data)

    def recv(self, count: int) -> bytes:
        """What the client library reads: only from packets that were read ahead."""
        data = self.buffer.read(count)
        if not data:
            raise BlockingIOError
        return data

    def send(self, data: bytes) -> int:
        """What the client library writes: never into the middle of our own packets."""
        self.flush()
        if self._unsent:
            raise BlockingIOError
        return int(self._sock.send(data))

    def queue(self, data: bytes) -> None:
        """Send ``data`` in its turn; the caller sees to it that the library has no packet half sent."""
        self._unsent += data
        self.flush()

    def flush(self) -> None:
        """Send what was queued, as far as the kernel takes it."""
        with contextlib.suppress(BlockingIOError, ssl.SSLWantWriteError):
            while self._unsent:
                self._unsent = self._unsent[self._sock.send(self._unsent) :]

    @property
    def wants_write(self) -> bool:
        """Whether something queued was not sent yet."""
        return bool(self._unsent)

    def fileno(self) -> int:
        """For select."""
        return int(self._sock.fileno())

    def setblocking(self, flag: bool) -> None:
        """As the socket."""
        self._sock.setblocking(flag)

    def close(self) -> None:
        """As the socket."""
        self._sock.close()
