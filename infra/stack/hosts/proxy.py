"""One address for the dashboards of several hosts: each connection goes to the next one that lives.

A process that stands still takes connections all the same: the kernel does. So each is asked for ``/livez``
every second; of one that gives no answer, twice, the connections are cut, and browsers come back by another.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from infra.stack.service import HOST

CHUNK_BYTES = 1 << 16
CHECK_S = 1.0
ANSWER_S = 2.0
FALL = 2


@dataclass(eq=False, slots=True)
class _Target:
    """A dashboard: how often in a row it gave no answer, and both ends of each connection to it."""

    port: int
    silent: int = 0
    ends: set[asyncio.StreamWriter] = field(default_factory=set)

    @property
    def lives(self) -> bool:
        return self.silent < FALL


async def serve(port: int, targets: Sequence[int]) -> None:
    """Lead connections from ``port`` to the ports ``targets`` in turn, until cancelled; all on loopback.

    One that none of them takes is closed. Where none lives, all are tried.
    """
    turn = [*map(_Target, targets)]  # the one that was chosen last is the last one

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError), contextlib.closing(writer):
            for target in [target for target in turn if target.lives] or [*turn]:
                turn.remove(target)
                turn.append(target)
                try:
                    back, there = await asyncio.open_connection(HOST, target.port)
                except ConnectionError:
                    continue
                target.ends |= (both := {there, writer})
                try:
                    with contextlib.closing(there):
                        await asyncio.gather(_copy(reader, there), _copy(back, writer))
                finally:
                    target.ends -= both
                return

    # Closed, not waited for: from Python 3.12 on a server's block ends when the last browser goes.
    with contextlib.closing(await asyncio.start_server(carry, HOST, port)):
        async with asyncio.TaskGroup() as checks:
            for target in [*turn]:
                checks.create_task(_check(target, turn))


async def _check(target: _Target, all_of_them: Sequence[_Target]) -> None:
    while True:
        target.silent = 0 if await _answers(target.port) else target.silent + 1
        if not target.lives and any(other.lives for other in all_of_them):
            for end in [*target.ends]:
                end.transport.abort()
        await asyncio.sleep(CHECK_S)


async def _answers(port: int) -> bool:
    with contextlib.suppress(OSError):
        async with asyncio.timeout(ANSWER_S):
            reader, writer = await asyncio.open_connection(HOST, port)
            with contextlib.closing(writer):
                writer.write(b"GET /livez HTTP/1.0\r\nHost: localhost\r\n\r\n")
                return b" 200 " in await reader.readline()
    return False


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """To the end of what one says; the other one is then told so."""
    while data := await reader.read(CHUNK_BYTES):
        writer.write(data)
        await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()
