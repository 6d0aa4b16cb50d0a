"""What a vehicle keeps while it has no link, and how it sends it once the link is back.

The store is bounded by frames, bytes and age; what goes is counted. Stored frames leave beside the live ones
at a bounded rate. ``sent_ms`` is written into a frame when it leaves. Messages of other channels (crash
records) are few and precious: they are kept without a bound and leave first, as they are.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from edge_simulator.geo import Bools
from edge_simulator.telemetry.outbox import Outgoing
from edge_simulator.wireless.link_settings import LinkShares

Restamp = Callable[[Outgoing, int], int]
"""The time that a frame's device reads when the frame leaves at a moment (ms)."""

_SENT_KEY = b'"sent_ms":'


@dataclass(slots=True)
class _Hold:
    """What one vehicle keeps; frames oldest first."""

    frames: deque[Outgoing] = field(default_factory=deque)
    urgent: deque[Outgoing] = field(default_factory=deque)
    size: int = 0
    uploading: bool = False

    def push(self, item: Outgoing) -> None:
        self.frames.append(item)
        self.size += len(item.payload)

    def pop(self, newest: bool) -> Outgoing:
        item = self.frames.pop() if newest else self.frames.popleft()
        self.size -= len(item.payload)
        return item


class Store:
    """The on-board stores of a fleet; only vehicles that keep something cost anything."""

    def __init__(
        self, settings: LinkShares, restamp: Restamp, gone: Callable[[Outgoing], None] = lambda _: None
    ) -> None:
        self._set = settings
        self._restamp = restamp
        self._gone = gone
        self._holds: dict[int, _Hold] = {}
        self._turns: list[tuple[float, int]] = []
        """Whose next stored frame leaves when: a heap of (ms, vehicle)."""
        self.stored = 0
        self.dropped = 0

    def __len__(self) -> int:
        return sum(len(hold.frames) + len(hold.urgent) for hold in self._holds.values())

    def put(self, item: Outgoing) -> None:
        """Keep a message of a vehicle without a link."""
        hold = self._holds.setdefault(item.vehicle, _Hold())
        if item.channel != "telemetry":
            hold.urgent.append(item)
            return
        self.stored += 1
        self._age(hold, item.due_ms)
        if self._set.store_full == "newest" and self._over(hold, item):
            self._drop(item)
            return
        while hold.frames and self._over(hold, item):
            self._drop(hold.pop(newest=False))
        hold.push(item)

    def _drop(self, item: Outgoing) -> None:
        """``item`` is lost for good."""
        self.dropped += 1
        self._gone(item)

    def frames(self) -> Iterator[Outgoing]:
        """The frames kept now."""
        for hold in self._holds.values():
            yield from hold.frames

    def _over(self, hold: _Hold, item: Outgoing) -> bool:
        """Whether one more would be too much."""
        bytes_over = self._set.store_bytes and hold.size + len(item.payload) > self._set.store_bytes
        return len(hold.frames) >= self._set.store_frames or bool(bytes_over)

    def _age(self, hold: _Hold, now_ms: int) -> None:
        oldest_ms = now_ms - 1000 * self._set.store_age_s
        while hold.frames and hold.frames[0].due_ms < oldest_ms:
            self._drop(hold.pop(newest=False))

    def link_back(self, vehicles: Iterable[int], now_ms: int) -> None:
        """Begin to upload what these vehicles keep."""
        for vehicle in vehicles:
            hold = self._holds.get(vehicle)
            if hold is not None and not hold.uploading:
                hold.uploading = True
                heapq.heappush(self._turns, (float(now_ms), vehicle))

    def release(self, until_ms: int, offline: Bools) -> Iterator[Outgoing]:
        """Messages that leave before ``until_ms``, each with its time."""
        while self._turns and self._turns[0][0] < until_ms:
            at, vehicle = heapq.heappop(self._turns)
            hold = self._holds[vehicle]
            if offline[vehicle]:
                hold.uploading = False
                continue
            now_ms = math.floor(at)
            yield from (replace(item, due_ms=now_ms) for item in hold.urgent)
            hold.urgent.clear()
            self._age(hold, now_ms)
            if hold.frames:
                yield self._leaving(hold.pop(self._set.upload_order == "newest"), now_ms)
            if hold.frames:
                heapq.heappush(self._turns, (at + 1000 / self._set.upload_rate, vehicle))
            else:
                del self._holds[vehicle]

    def flush(self, now_ms: int) -> list[Outgoing]:
        """All that is left, leaving at once: the end of a run."""
        self._turns.clear()
        rest: list[Outgoing] = []
        for hold in self._holds.values():
            rest += [replace(item, due_ms=now_ms) for item in hold.urgent]
            self._age(hold, now_ms)
            while hold.frames:
                rest.append(self._leaving(hold.pop(self._set.upload_order == "newest"), now_ms))
        self._holds.clear()
        return rest

    def _leaving(self, item: Outgoing, now_ms: int) -> Outgoing:
        payload = stamped(item.payload, self._restamp(item, now_ms))
        flag = item.flag if item.flag.startswith("clock") else "stored"
        return replace(item, due_ms=now_ms, payload=payload, flag=flag)


def stamped(payload: bytes, sent_ms: int) -> bytes:
    """The frame with another ``sent_ms``; all other bytes stay."""
    begin = payload.index(_SENT_KEY) + len(_SENT_KEY)
    end = begin
    while payload[end] in b"-0123456789":
        end += 1
    return b"%b%d%b" % (payload[:begin], sent_ms, payload[end:])
