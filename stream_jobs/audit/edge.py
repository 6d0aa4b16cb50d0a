"""What the simulator's runs say: their sums, how far each device counted, and which frames never left it.

``runs/*`` were to arrive. Devices of ``days/*`` count only where a frame of them has arrived: a generated day
lies where it is until somebody brings it in.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import orjson

from infra.contract.seq_ranges import Ranges, merged
from infra.settings.files import read_json

Device = tuple[str, int]  # vehicle id and boot id: what counts on its own


def ranges_by_device(frames: Iterable[tuple[str, int, int]]) -> dict[Device, Ranges]:
    """Frames (vehicle id, boot id, seq) as ranges."""
    found: defaultdict[Device, Ranges] = defaultdict(list)
    for vehicle_id, boot_id, seq in frames:
        found[vehicle_id, boot_id].append((seq, seq))
    return {device: merged(ranges) for device, ranges in found.items()}


def run_totals(home: Path) -> dict[str, int]:
    """Sums over ``<home>/runs/*/run.json``.

    ``generated``: distinct frames that were to reach the log: neither lost by the link nor pushed out of a
    full store on board. ``poison``: messages broken on purpose. ``sent``: published, copies included.
    ``acked``: whose PUBACK came.
    """
    found = [read_json(path) for path in sorted(home.glob("runs/*/run.json"))]
    parts = {name for run in found for name in run.get("parts", ())}  # their sums are in the whole run's file
    runs = [run for run in found if run.get("run_id") not in parts]
    names = ("generated", "poison", "sent", "acked", "lost_on_link", "dropped_on_board")
    sums = {name: sum(run.get(name, 0) for run in runs) for name in names}
    sums["generated"] -= sums.pop("lost_on_link") + sums.pop("dropped_on_board")
    return sums


@dataclass(frozen=True, slots=True)
class EdgeDevice:
    """A device as its run describes it; ranges are of frames that did not leave it."""

    next_seq: int
    lost: Ranges
    dropped: Ranges
    on_board: Ranges
    from_ms: int
    ended_ms: int | None  # when its run ended with all it sent acknowledged; None: it goes on, or was killed
    sent: bool  # false: made into files, and not to arrive by itself


def devices(home: Path) -> dict[Device, EdgeDevice]:
    """All devices of a home's runs and generated days; of one in several, the sum of what they say."""
    found: defaultdict[Device, list[dict[str, Any]]] = defaultdict(list)
    for folder, sent in (("days", False), ("runs", True)):
        for path in sorted(home.glob(f"{folder}/*/sequences.jsonl")):
            if not (run := read_json(path.with_name("run.json"))):
                continue  # a day that is being made, or a run's first moment
            ended_ms = int(run.get("ended_ms") or 0) if run.get("finished", True) else None
            for row in map(orjson.loads, path.read_bytes().splitlines()):
                from_ms = int(run.get("start_ms", row["boot_id"]))
                row |= {"from_ms": from_ms, "ended_ms": ended_ms, "sent": sent}
                found[row["vehicle_id"], row["boot_id"]].append(row)
    return {device: _sum(several) for device, several in found.items()}


def _sum(several: list[dict[str, Any]]) -> EdgeDevice:
    names = ("next_seq", "lost", "dropped", "on_board", "from_ms", "ended_ms", "sent")
    next_seqs, *ranges, begun_ms, ended_ms, sent = ([row[name] for row in several] for name in names)
    lost, dropped, on_board = (merged(chain.from_iterable(each)) for each in ranges)
    end_ms = None if None in ended_ms else max(ended_ms)
    return EdgeDevice(max(next_seqs), lost, dropped, on_board, min(begun_ms), end_ms, any(sent))
