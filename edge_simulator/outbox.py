"""Messages on their way to the broker, in the order of their sending."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, order=True)
class Outgoing:
    """A message on its way to the broker; sorts by time, then by order of making."""

    due_ms: int
    order: int
    vehicle: int = field(compare=False)
    channel: str = field(compare=False)
    payload: bytes = field(compare=False)
    flag: str = field(compare=False, default="plain")
    copy: bool = field(compare=False, default=False)
    """A second sending of a frame that was sent before."""
    retain: bool = field(compare=False, default=False)


class Queue:
    """Messages in the order of their sending."""

    def __init__(self) -> None:
        self._heap: list[Outgoing] = []

    def __len__(self) -> int:
        return len(self._heap)

    def put(self, items: Iterable[Outgoing]) -> None:
        """Hold messages until they are due."""
        for item in items:
            heapq.heappush(self._heap, item)

    def take(self, until_ms: int) -> list[Outgoing]:
        """Messages due before ``until_ms``, in order."""
        due = []
        while self._heap and self._heap[0].due_ms < until_ms:
            due.append(heapq.heappop(self._heap))
        return due

    def flush(self) -> list[Outgoing]:
        """All that is left, in order."""
        rest = sorted(self._heap)
        self._heap.clear()
        return rest
