"""One POST with a deadline for all of it. The standard library's client: no redirects, no proxies."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Final
from urllib.parse import SplitResult

from bridge.downlink.retry import Answer

ANSWER_BYTES: Final = 64 * 1024
TROUBLE_CHARS: Final = 200
"""A status line of 64 KB goes neither into a log nor into a record."""


def post(url: SplitResult, headers: Mapping[str, str], body: bytes, timeout_s: float) -> Answer:
    """The answer; where there is none within ``timeout_s``, status 0 with what went wrong. Never raises."""
    kind = HTTPSConnection if url.scheme == "https" else HTTPConnection
    connection = kind(url.hostname or "", url.port, timeout=timeout_s)
    late = threading.Event()
    watch = threading.Timer(timeout_s, _cut, (connection, late))
    watch.daemon = True
    try:
        watch.start()
        connection.connect()
        if late.is_set():  # a name of many addresses: each has the whole time
            raise TimeoutError
        target = (url.path or "/") + (f"?{url.query}" if url.query else "")
        connection.request("POST", target, body, dict(headers))
        reply = connection.getresponse()
        reply.read(ANSWER_BYTES)
        if late.is_set():  # what was cut off can look like a whole answer
            raise TimeoutError
        return Answer(reply.status, reply.getheader("Retry-After"))
    except (OSError, HTTPException, ValueError) as error:
        why = f"no answer within {timeout_s:g} s" if late.is_set() else f"{type(error).__name__}: {error}"
        return Answer(0, trouble=why[:TROUBLE_CHARS])
    finally:
        watch.cancel()
        connection.close()


def _cut(connection: HTTPConnection, late: threading.Event) -> None:
    """A server that drips a byte now and then keeps every single read within its time-out."""
    late.set()
    sock = connection.sock
    if isinstance(sock, socket.socket):
        with suppress(OSError):
            socket.socket.shutdown(
                sock, socket.SHUT_RDWR
            )  # an SSLSocket's own would pull TLS from under a read
