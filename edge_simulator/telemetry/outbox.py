"""Messages on their way to the broker, in the order of their sending."""

from __future__ import annotations

import heapq
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from infra.contract.seq_ranges import merged


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
    copy: bool = field(compare=False, default=False)  # a second sending of a frame that was sent before
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
        rest = sorted(self, key=_place)
        self._heap.clear()
        self._runs.clear()
        return rest


Device = tuple[str, int]  # vehicle id and boot id: what counts on its own
Spans = defaultdict[Device, list[list[int]]]  # sequence numbers

_HEAD = re.compile(rb'"vehicle_id":"([^"]+)","boot_id":(\d+),"seq":(\d+)')
HEAD_BYTES = 160  # a frame's head lies within so many bytes


def identity(payload: bytes) -> tuple[Device, int]:
    """Device and sequence number of a frame as it was encoded here."""
    found = _HEAD.search(payload, 0, HEAD_BYTES)
    assert found is not None, payload[:HEAD_BYTES]
    return (found[1].decode(), int(found[2])), int(found[3])


class Sequences:
    """Frames that never left: lost by the link, or pushed out of a store on board."""

    def __init__(self) -> None:
        self._lost: Spans = defaultdict(list)
        self._dropped: Spans = defaultdict(list)

    def lost(self, device: Device, seq: int) -> None:
        """The link lost a frame."""
        _extend(self._lost[device], seq)

    def dropped(self, payload: bytes) -> None:
        """The store on board pushed a frame out."""
        device, seq = identity(payload)
        _extend(self._dropped[device], seq)

    def rows(self, counted: Iterable[tuple[Device, int]], held: Iterable[bytes]) -> Iterator[dict[str, Any]]:
        """A row a device: ``counted`` says how far each got, ``held`` are the frames still on board."""
        kept: Spans = defaultdict(list)
        for payload in held:
            device, seq = identity(payload)
            _extend(kept[device], seq)
        for device, next_seq in counted:
            spans = {"lost": self._lost, "dropped": self._dropped, "on_board": kept}
            head = {"vehicle_id": device[0], "boot_id": device[1], "next_seq": next_seq}
            yield head | {name: merged(by_device.get(device, ())) for name, by_device in spans.items()}


def _extend(ranges: list[list[int]], seq: int) -> None:
    if ranges and ranges[-1][1] == seq - 1:
        ranges[-1][1] = seq
    else:
        ranges.append([seq, seq])
