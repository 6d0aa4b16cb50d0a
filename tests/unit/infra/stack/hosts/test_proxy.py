"""The proxy before several dashboards: one that stands still gets no connection, and loses those it has."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator

import pytest

from infra.stack.hosts import proxy
from infra.stack.service import HOST, free_port


class Dashboard:
    """Says its name to whoever asks, unless it stands still; cuts who says ``cut``."""

    def __init__(self, name: str) -> None:
        self.name, self.still, self.port, self.taken = name, asyncio.Event(), 0, 0
        self.ended, self.checked = asyncio.Event(), asyncio.Event()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.taken += 1
        with contextlib.suppress(OSError), contextlib.closing(writer):
            while (line := await reader.readline()) and not self.still.is_set():
                if line == b"cut\n":
                    at_once = struct.pack("ii", 1, 0)  # with a reset
                    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
                    return
                if line.startswith(b"GET /livez"):
                    self.checked.set()
                    writer.write(b"HTTP/1.0 200 OK\r\n\r\n")
                    return
                writer.write(f"{self.name}\n".encode())
            await self.ended.wait()  # the kernel takes what comes

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        async with await asyncio.start_server(self.answer, HOST, 0) as server:
            self.port = server.sockets[0].getsockname()[1]
            try:
                yield
            finally:
                self.ended.set()


Asked = tuple[str, asyncio.StreamReader, asyncio.StreamWriter]


async def asked(port: int) -> Asked:
    async with asyncio.timeout(5):
        while True:
            with contextlib.suppress(ConnectionError):
                reader, writer = await asyncio.open_connection(HOST, port)
                writer.write(b"who\n")
                return (await reader.readline()).decode().strip(), reader, writer
            await asyncio.sleep(0.01)


async def one_stands_still() -> None:
    first, second, port = Dashboard("a"), Dashboard("b"), free_port()
    every: list[Asked] = []

    async def name() -> str:
        every.append(await asked(port))
        return every[-1][0]

    async with first.serving(), second.serving():
        serving = asyncio.create_task(proxy.serve(port, [first.port, second.port]))
        while {found for found, *_ in every} != {"a", "b"}:
            await name()
        cut, kept = (next(one for one in every if one[0] == which) for which in ("a", "b"))
        first.still.set()
        async with asyncio.timeout(5):
            with contextlib.suppress(ConnectionError):
                assert await cut[1].read() == b""
        assert [await name() for _ in range(4)] == ["b"] * 4
        kept[2].write(b"who\n")
        assert await kept[1].readline() == b"b\n"
        for _, _, writer in every:
            writer.close()
        await asyncio.sleep(0.1)
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
    await asyncio.sleep(0.3)


async def one_is_gone() -> None:
    gone, there = free_port(), Dashboard("b")
    port = free_port([gone])
    async with there.serving():
        serving = asyncio.create_task(proxy.serve(port, [gone, there.port]))
        await there.checked.wait()
        every = await asyncio.gather(*(asyncio.open_connection(HOST, port) for _ in range(8)))
        for _, writer in every:
            writer.write(b"who\n")
        said = await asyncio.gather(*(reader.readline() for reader, _ in every), return_exceptions=True)
        assert said == [b"b\n"] * 8
        for _, writer in every:
            writer.close()
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving


def test_of_connections_at_one_time_none_is_closed_while_a_dashboard_takes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before the look at the other one has told that it is gone."""
    monkeypatch.setattr(proxy, "CHECK_S", 60)
    asyncio.run(one_is_gone())


async def one_of_three_is_gone() -> None:
    first, second, gone = Dashboard("a"), Dashboard("b"), free_port()
    port = free_port([gone])
    async with first.serving(), second.serving():
        serving = asyncio.create_task(proxy.serve(port, [first.port, gone, second.port]))
        await asyncio.gather(first.checked.wait(), second.checked.wait())
        every = [await asked(port) for _ in range(6)]
        assert sorted(name for name, _, _ in every) == ["a", "a", "a", "b", "b", "b"]
        for _, _, writer in every:
            writer.close()
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving


def test_connections_go_to_the_dashboards_that_are_there_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "CHECK_S", 60)
    asyncio.run(one_of_three_is_gone())


async def one_resets_a_connection() -> None:
    first, second, port = Dashboard("a"), Dashboard("b"), free_port()
    async with first.serving(), second.serving():
        serving = asyncio.create_task(proxy.serve(port, [first.port, second.port]))
        _, reader, writer = await asked(port)
        await asyncio.gather(first.checked.wait(), second.checked.wait())
        writer.write(b"cut\n")
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        assert first.taken + second.taken == 3
        writer.close()
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving


def test_a_connection_that_its_dashboard_resets_is_led_to_no_other_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(proxy, "CHECK_S", 60)
    asyncio.run(one_resets_a_connection())


@pytest.mark.slow
def test_a_dashboard_that_stands_still_gets_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "CHECK_S", 0.05)
    monkeypatch.setattr(proxy, "ANSWER_S", 0.2)
    asyncio.run(one_stands_still())
