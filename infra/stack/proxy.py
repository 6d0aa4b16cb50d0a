"""One address for the dashboards of several hosts: each connection goes to the next one that takes it."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence

from infra.stack.service import HOST

CHUNK_BYTES = 1 << 16


async def serve(port: int, targets: Sequence[int]) -> None:
    """Lead connections from ``port`` to the ports ``targets`` in turn, until cancelled; all on loopback.

    One that none of them takes is closed.
    """
    turn = deque(targets)

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError), contextlib.closing(writer):
            for _ in targets:
                turn.rotate()
                with contextlib.suppress(ConnectionError):
                    back, there = await asyncio.open_connection(HOST, turn[0])
                    with contextlib.closing(there):
                        await asyncio.gather(_copy(reader, there), _copy(back, writer))
                    return

    async with await asyncio.start_server(carry, HOST, port) as server:
        await server.serve_forever()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """To the end of what one says; the other one is then told so."""
    while data := await reader.read(CHUNK_BYTES):
        writer.write(data)
        await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()
