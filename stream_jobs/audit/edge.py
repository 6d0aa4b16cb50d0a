"""What the simulator's runs say of their devices: how far each counted, and which frames never left it.

``runs/*/sequences.jsonl`` are runs that were to arrive. Those of ``days/*`` count only where a frame of the
device has arrived: a generated day lies where it is until somebody brings it in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from infra.contract.seq_ranges import Ranges, merged

Device = tuple[str, int]
"""Vehicle id and boot id: what counts on its own."""


@dataclass(frozen=True, slots=True)
class EdgeDevice:
    """A device as its run tells of it; ranges are of frames that did not leave it."""

    next_seq: int
    lost: Ranges
    dropped: Ranges
    on_board: Ranges
    from_ms: int
    ended_ms: int | None
    """When its run ended with all it sent acknowledged; None: it goes on, or was killed."""
    sent: bool
    """False: made into files, and not to arrive by itself."""


def devices(home: Path) -> dict[Device, EdgeDevice]:
    """All devices of a home's runs and generated days; of one told twice, the sum of what is told."""
    found: dict[Device, EdgeDevice] = {}
    for folder, sent in (("days", False), ("runs", True)):
        for path in sorted(home.glob(f"{folder}/*/sequences.jsonl")):
            for device, one in _of_run(path, sent):
                before = found.get(device)
                found[device] = one if before is None else _together(before, one)
    return found


def _of_run(path: Path, sent: bool) -> Iterator[tuple[Device, EdgeDevice]]:
    run: Mapping[str, Any] = orjson.loads((path.parent / "run.json").read_bytes())
    ended_ms = int(run.get("ended_ms") or 0) if run.get("finished", True) else None
    with path.open("rb") as lines:
        for line in lines:
            row = orjson.loads(line)
            device = (row["vehicle_id"], row["boot_id"])
            lost, dropped, on_board = (merged(row[key]) for key in ("lost", "dropped", "on_board"))
            from_ms = int(run.get("start_ms", row["boot_id"]))
            yield device, EdgeDevice(row["next_seq"], lost, dropped, on_board, from_ms, ended_ms, sent)


def _together(one: EdgeDevice, other: EdgeDevice) -> EdgeDevice:
    ended = [each.ended_ms for each in (one, other) if each.ended_ms is not None]
    return EdgeDevice(
        next_seq=max(one.next_seq, other.next_seq),
        lost=merged([*one.lost, *other.lost]),
        dropped=merged([*one.dropped, *other.dropped]),
        on_board=merged([*one.on_board, *other.on_board]),
        from_ms=min(one.from_ms, other.from_ms),
        ended_ms=max(ended) if len(ended) == 2 else None,
        sent=one.sent or other.sent,
    )
