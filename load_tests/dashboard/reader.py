"""A reader without a browser: speaks Streamlit's protocol, asks for each live part when it is due.

Twenty browsers would measure this machine's graphics in software; twenty of these measure the server.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qs, urlencode, urlsplit

import websockets
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from infra.contract.errors import ServiceError

ANSWER_S: Final = 60.0
"""A run that takes longer is given up."""
PAGE: Final = "whole page"
FINE: Final = (
    ForwardMsg.FINISHED_SUCCESSFULLY,
    ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY,
    ForwardMsg.FINISHED_EARLY_FOR_RERUN,
)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a page (``part`` PAGE) or of a live part: from the asking to the server's last word."""

    path: str
    part: str
    seconds: float
    bytes: int


@dataclass(slots=True)
class Notes:
    """What readers saw; ``wrong`` are exceptions that pages showed."""

    runs: list[Run] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


async def read(base: str, path: str, until_s: float, notes: Notes) -> None:
    """Open ``path`` and refresh its live parts until ``until_s`` of the monotonic clock."""
    address = base.replace("http://", "ws://") + "/_stcore/stream"
    protocols = [websockets.Subprotocol("streamlit")]
    async with websockets.connect(address, subprotocols=protocols, max_size=None, compression=None) as socket:
        reader = _Reader(socket, path, notes)
        await reader.run(PAGE)
        while (now_s := time.monotonic()) < until_s:
            part = min(reader.due_s, key=lambda name: reader.due_s[name], default=None)
            if part is None:
                await asyncio.sleep(max(0.0, until_s - now_s))
                return
            await asyncio.sleep(max(0.0, min(reader.due_s[part], until_s) - now_s))
            if time.monotonic() < until_s:
                await reader.run(part)


class _Reader:
    """One session: its connection, and when each live part is due."""

    def __init__(self, socket: websockets.ClientConnection, path: str, notes: Notes) -> None:
        self.due_s: dict[str, float] = {}
        self._every_s: dict[str, float] = {}
        self._page_hash = ""
        self._socket, self._path, self._notes = socket, path, notes

    async def run(self, part: str) -> None:
        """Ask for the page or a part, and take all that comes until the server has finished."""
        begun_s = time.monotonic()
        await self._socket.send(self._question(part).SerializeToString())
        size = 0
        while True:
            raw = await asyncio.wait_for(self._socket.recv(), ANSWER_S)
            size += len(raw)
            message = ForwardMsg.FromString(raw)
            if self._last(message):
                break
        now_s = time.monotonic()
        self._notes.runs.append(Run(self._path, part, now_s - begun_s, size))
        if part in self._every_s:
            self.due_s[part] = now_s + self._every_s[part]

    def _question(self, part: str) -> BackMsg:
        parts = urlsplit(self._path)
        asked = BackMsg()
        asked.rerun_script.query_string = urlencode(parse_qs(parts.query), doseq=True)
        asked.rerun_script.page_script_hash = self._page_hash
        asked.rerun_script.page_name = parts.path.strip("/")
        if part != PAGE:
            asked.rerun_script.fragment_id = part
            asked.rerun_script.is_auto_rerun = True
        return asked

    def _last(self, message: ForwardMsg) -> bool:
        """Take a message over; whether it says that the run has ended."""
        kind = message.WhichOneof("type")
        if kind == "new_session":
            self._page_hash = message.new_session.page_script_hash
        elif kind == "auto_rerun":
            timer = message.auto_rerun
            self._every_s[timer.fragment_id] = timer.interval
            self.due_s.setdefault(timer.fragment_id, time.monotonic() + timer.interval)
        elif kind == "delta" and message.delta.new_element.HasField("exception"):
            self._notes.wrong.append(f"{self._path}: {message.delta.new_element.exception.message}")
        elif kind == "script_finished":
            if message.script_finished not in FINE:
                raise ServiceError(f"{self._path}: the page did not run to its end")
            return message.script_finished != ForwardMsg.FINISHED_EARLY_FOR_RERUN
        return False


async def crowd(base: str, paths: list[str], readers: int, seconds: float) -> Notes:
    """So many readers at once, spread over the pages; what they saw."""
    notes, until_s = Notes(), time.monotonic() + seconds
    async with asyncio.TaskGroup() as group:
        for number in range(readers):
            group.create_task(read(base, paths[number % len(paths)], until_s, notes))
    return notes


def by_path(runs: list[Run], *, first: bool) -> Mapping[str, list[Run]]:
    """Runs of whole pages, or of live parts, by page."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        if (run.part == PAGE) == first:
            found.setdefault(run.path, []).append(run)
    return found
