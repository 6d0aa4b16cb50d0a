"""A TCP proxy to a service: cut, half-open or slow, for drills and tests."""

from __future__ import annotations

import contextlib
import select
import socket
import threading


class Link:
    """Forwards 127.0.0.1:``port`` to a target while the ``with`` block runs; to several in turn.

    ``refuse`` ends every connection and turns new ones away; ``stall`` leaves them standing, takes bytes and
    passes nothing on; ``heal`` forwards again.
    """

    def __init__(self, host: str, port: int, *others: tuple[str, int]) -> None:
        self._targets = [(host, port), *others]
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._refusing = threading.Event()
        self._flowing = threading.Event()
        self._flowing.set()
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._ends: list[socket.socket] = []
        self.heard: list[bytearray] = []
        """What clients have said, one entry a connection, passed on or not."""
        self.open: dict[socket.socket, tuple[int, bytearray]] = {}
        """Of the connections that stand: the port they lead to, and what the client has said."""
        self._accepting = threading.Thread(target=self._accept, name="link", daemon=True)

    def __enter__(self) -> Link:
        """Listen."""
        self._accepting.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Close all."""
        self._ended.set()
        self._accepting.join()
        self.refuse()
        self._flowing.set()
        self._listener.close()

    def refuse(self) -> None:
        """The service is away."""
        self._refusing.set()
        with self._lock:
            ends, self._ends = self._ends, []
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def stall(self) -> None:
        """The service is there and never answers."""
        self._flowing.clear()

    def heal(self) -> None:
        """The service is back."""
        self._refusing.clear()
        self._flowing.set()

    def _accept(self) -> None:
        while not self._ended.is_set():
            if not select.select([self._listener], [], [], 0.05)[0]:
                continue
            client, _ = self._listener.accept()
            if self._refusing.is_set():
                client.close()
                continue
            threading.Thread(target=self._carry, args=(client,), name="link-pair", daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError), self._reached() as server:
            other = {client: server, server: client}
            said = bytearray()
            with self._lock:
                if self._refusing.is_set():  # since the client was let in
                    return
                self._ends += [client, server]
                self.open[client] = (server.getpeername()[1], said)
            self.heard.append(said)
            try:
                self._forward(client, other, said)
            finally:
                del self.open[client]

    def _reached(self) -> socket.socket:
        """The next target that takes a connection; raises OSError where none does."""
        with self._lock:
            self._targets.append(self._targets.pop(0))
            *targets, last = self._targets
        for target in targets:
            with contextlib.suppress(OSError):
                return socket.create_connection(target)
        return socket.create_connection(last)

    def _forward(
        self, client: socket.socket, other: dict[socket.socket, socket.socket], said: bytearray
    ) -> None:
        while not self._ended.is_set():
            for source in select.select(list(other), [], [], 0.05)[0]:
                data = source.recv(1 << 16)
                if source is client:
                    said += data
                self._flowing.wait()
                if not data:
                    return
                other[source].sendall(data)
