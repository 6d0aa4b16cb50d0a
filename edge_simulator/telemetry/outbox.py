"""Messages on their way to the broker, in the order of their sending."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter


@dataclass(slots=True, order=True)
class Outgoing:
    """A message on its way to the broker; sorts by time, then by order of making. Nobody changes one.

    Not frozen, because there are as many as frames: that would double the cost of making one.
    """

    due_ms: int
    order: int
    vehicle: int = field(compare=False)
    channel: str = field(compare=False)
    payload: bytes = field(compare=False)
    flag: str = field(compare=False, default="plain")
    copy: bool = field(compare=False, default=False)
    """A second sending of a frame that was sent before."""
    retain: bool = field(compare=False, default=False)


_place = attrgetter("due_ms", "order")


class Queue:
    """Messages in the order of their sending.

    Frames that leave at once come as runs, sorted already; only what is held back costs a heap.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Outgoing]] = []
        self._runs: list[Outgoing] = []

    def __len__(self) -> int:
        return len(self._heap) + len(self._runs)

    def __iter__(self) -> Iterator[Outgoing]:
        """All that waits, in no order."""
        yield from self._runs
        yield from (item for _, _, item in self._heap)

    def put(self, items: Iterable[Outgoing]) -> None:
        """Hold messages until they are due."""
        for item in items:
            heapq.heappush(self._heap, (item.due_ms, item.order, item))

    def put_run(self, items: Sequence[Outgoing]) -> None:
        """Hold messages that are in order among themselves and soon due."""
        mixed = bool(self._runs)
        self._runs.extend(items)
        if mixed:
            self._runs.sort(key=_place)

    def take(self, until_ms: int) -> list[Outgoing]:
        """Messages due before ``until_ms``, in order."""
        held = []
        while self._heap and self._heap[0][0] < until_ms:
            held.append(heapq.heappop(self._heap)[2])
        runs, self._runs = self._runs, []
        if runs and runs[-1].due_ms >= until_ms:
            self._runs = [item for item in runs if item.due_ms >= until_ms]
            runs = [item for item in runs if item.due_ms < until_ms]
        return sorted(runs + held, key=_place) if held else runs

    def flush(self) -> list[Outgoing]:
        """All that is left, in order."""
        rest = sorted([*self._runs, *(item for _, _, item in self._heap)], key=_place)
        self._heap.clear()
        self._runs.clear()
        return rest
