"""What the simulator's runs say: their sums, how far each device counted, and which frames never left it.

``runs/*`` were to arrive. Devices of ``days/*`` count only where a frame of them has arrived: a generated day
lies where it is until somebody brings it in.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson

from infra.contract.seq_ranges import Range, Ranges, merged

Device = tuple[str, int]
"""Vehicle id and boot id: what counts on its own."""


def ranges_by_device(frames: Iterable[tuple[str, int, int]]) -> dict[Device, Ranges]:
    """Frames (vehicle id, boot id, seq) as ranges."""
    found: defaultdict[Device, list[Range]] = defaultdict(list)
    for vehicle_id, boot_id, seq in frames:
        found[vehicle_id, boot_id].append((seq, seq))
    return {device: merged(ranges) for device, ranges in found.items()}


def run_totals(home: Path) -> dict[str, int]:
    """Sums over ``<home>/runs/*/run.json``.

    ``generated``: distinct frames that were to reach the log: neither lost by the link nor pushed out of a
    full store on board. ``poison``: messages broken on purpose. ``sent``: published, copies included.
    ``acked``: whose PUBACK came.
    """
    found = [json.loads(path.read_text()) for path in sorted(home.glob("runs/*/run.json"))]
    parts = {name for run in found for name in run.get("parts", ())}  # their sums are in the whole run's file
    runs = [run for run in found if run.get("run_id") not in parts]
    never_sent = sum(run.get("lost_on_link", 0) + run.get("dropped_on_board", 0) for run in runs)
    return {
        "generated": sum(run["generated"] for run in runs) - never_sent,
        "poison": sum(run.get("poison", 0) for run in runs),
        "sent": sum(run["sent"] for run in runs),
        "acked": sum(run["acked"] for run in runs),
    }


@dataclass(frozen=True, slots=True)
class EdgeDevice:
    """A device as its run describes it; ranges are of frames that did not leave it."""

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
    """All devices of a home's runs and generated days; of one in several, the sum of what they say."""
    found: dict[Device, EdgeDevice] = {}
    for folder, sent in (("days", False), ("runs", True)):
        for path in sorted(home.glob(f"{folder}/*/sequences.jsonl")):
            for device, one in _of_run(path, sent):
                found[device] = _together(found[device], one) if device in found else one
    return found


def _of_run(path: Path, sent: bool) -> Iterator[tuple[Device, EdgeDevice]]:
    run = orjson.loads((path.parent / "run.json").read_bytes())
    ended_ms = int(run.get("ended_ms") or 0) if run.get("finished", True) else None
    with path.open("rb") as lines:
        for line in lines:
            row = orjson.loads(line)
            lost, dropped, on_board = (merged(row[key]) for key in ("lost", "dropped", "on_board"))
            from_ms = int(run.get("start_ms", row["boot_id"]))
            one = EdgeDevice(row["next_seq"], lost, dropped, on_board, from_ms, ended_ms, sent)
            yield (row["vehicle_id"], row["boot_id"]), one


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
