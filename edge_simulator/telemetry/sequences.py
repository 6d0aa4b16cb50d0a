"""What a run says of its sequence numbers: how far each device counted, and which frames never left it.

The ledger's witness at the edge. It is kept as ranges, so it grows with losses and not with frames.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from infra.contract.seq_ranges import merged

Device = tuple[str, int]
"""Vehicle id and boot id: what counts on its own."""

_HEAD = re.compile(rb'"vehicle_id":"([^"]+)","boot_id":(\d+),"seq":(\d+)')
HEAD_BYTES = 160
"""A frame's head lies within so many bytes."""


def identity(payload: bytes) -> tuple[Device, int]:
    """Device and sequence number of a frame as it was encoded here."""
    found = _HEAD.search(payload, 0, HEAD_BYTES)
    assert found is not None, payload[:HEAD_BYTES]
    return (found[1].decode(), int(found[2])), int(found[3])


class Sequences:
    """Frames that never left: lost by the link, or pushed out of a store on board."""

    def __init__(self) -> None:
        self._lost: defaultdict[Device, list[list[int]]] = defaultdict(list)
        self._dropped: defaultdict[Device, list[list[int]]] = defaultdict(list)

    def lost(self, device: Device, seq: int) -> None:
        """The link lost a frame."""
        _extend(self._lost[device], seq)

    def dropped(self, payload: bytes) -> None:
        """The store on board pushed a frame out."""
        device, seq = identity(payload)
        _extend(self._dropped[device], seq)

    def rows(self, counted: Iterable[tuple[Device, int]], held: Iterable[bytes]) -> Iterator[dict[str, Any]]:
        """A row a device: ``counted`` says how far each got, ``held`` are the frames still on board."""
        kept: defaultdict[Device, list[list[int]]] = defaultdict(list)
        for payload in held:
            device, seq = identity(payload)
            kept[device].append([seq, seq])
        for device, next_seq in counted:
            yield {
                "vehicle_id": device[0],
                "boot_id": device[1],
                "next_seq": next_seq,
                "lost": merged(self._lost.get(device, ())),
                "dropped": merged(self._dropped.get(device, ())),
                "on_board": merged(kept.get(device, ())),
            }


def _extend(ranges: list[list[int]], seq: int) -> None:
    if ranges and ranges[-1][1] == seq - 1:
        ranges[-1][1] = seq
    else:
        ranges.append([seq, seq])
