"""A small TCP proxy that can cut a service off: for tests of what happens while it is away."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from types import TracebackType


class Proxy:
    """Forwards 127.0.0.1:``port`` to a target while the ``with`` block runs.

    ``cut`` resets every connection and refuses new ones; ``mend`` lets them through again, on the same port.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._open = threading.Event()
        self._open.set()
        self._running = True
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.1)
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._accept, name="proxy", daemon=True)

    def __enter__(self) -> Proxy:
        """Listen."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close all."""
        self._running = False
        self._thread.join()
        self._listener.close()
        self._reset()

    def cut(self) -> None:
        """The service is away."""
        self._open.clear()
        self._reset()

    def mend(self) -> None:
        """The service is back."""
        self._open.set()

    def _reset(self) -> None:
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while self._running:
            try:
                client, _ = self._listener.accept()
            except TimeoutError:
                continue
            if not self._open.is_set():
                client.close()
                continue
            pair = (client, socket.create_connection(self._target))
            with self._lock:
                self._pairs.append(pair)
            threading.Thread(target=_forward, args=pair, name="proxy-pair", daemon=True).start()


def _forward(client: socket.socket, server: socket.socket) -> None:
    """Bytes both ways until one side ends."""
    with client, server, selectors.DefaultSelector() as selector:
        selector.register(client, selectors.EVENT_READ, server)
        selector.register(server, selectors.EVENT_READ, client)
        while True:
            for key, _ in selector.select():
                source, target = key.fileobj, key.data
                assert isinstance(source, socket.socket)
                try:
                    data = source.recv(1 << 16)
                    target.sendall(data)
                except OSError:
                    return
                if not data:
                    return
