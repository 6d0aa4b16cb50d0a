"""Messages on their way to the broker, in the order of their sending."""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import inf
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


def take_due(queue: list[Outgoing], until_ms: float = inf) -> list[Outgoing]:
    """Take from a queue the messages due before ``until_ms``, or all, in the order of their sending."""
    queue.sort(key=attrgetter("due_ms", "order"))
    due = bisect_left(queue, until_ms, key=attrgetter("due_ms"))
    taken = queue[:due]
    del queue[:due]
    return taken


Device = tuple[str, int]  # vehicle id and boot id: what counts on its own

_HEAD = re.compile(rb'"vehicle_id":"([^"]+)","boot_id":(\d+),"seq":(\d+)')
HEAD_BYTES = 160  # a frame's head lies within so many bytes


def identity(payload: bytes) -> tuple[Device, int]:
    """Device and sequence number of a frame as it was encoded here."""
    found = _HEAD.search(payload, 0, HEAD_BYTES)
    assert found is not None, payload[:HEAD_BYTES]
    return (found[1].decode(), int(found[2])), int(found[3])


class Spans(defaultdict[Device, list[list[int]]]):
    """Sequence numbers of devices as ranges, both ends included, in the order in which they came."""

    def __init__(self, payloads: Iterable[bytes] = ()) -> None:
        super().__init__(list)
        for payload in payloads:
            self.add(*identity(payload))

    def add(self, device: Device, seq: int) -> None:
        ranges = self[device]
        if ranges and ranges[-1][1] == seq - 1:
            ranges[-1][1] = seq
        else:
            ranges.append([seq, seq])


def sequences(counted: Iterable[tuple[Device, int]], **gone: Spans) -> Iterator[dict[str, Any]]:
    """A row a device: ``counted`` says how far each got, ``gone`` which frames did not leave, and why."""
    for device, next_seq in counted:
        head = {"vehicle_id": device[0], "boot_id": device[1], "next_seq": next_seq}
        yield head | {why: merged(spans.get(device, ())) for why, spans in gone.items()}
