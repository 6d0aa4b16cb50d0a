"""What the simulator's runs say: their sums, how far each device counted, and which frames never left it.

``runs/*`` were to arrive. Devices of ``days/*`` count only where a frame of them has arrived: a generated day
lies where it is until somebody brings it in.
"""

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import orjson

from infra.contract.seq_ranges import Ranges, merged

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
    found = [json.loads(path.read_text()) for path in sorted(home.glob("runs/*/run.json"))]
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
    found: defaultdict[Device, list[EdgeDevice]] = defaultdict(list)
    for folder, sent in (("days", False), ("runs", True)):
        for path in sorted(home.glob(f"{folder}/*/sequences.jsonl")):
            run = orjson.loads((path.parent / "run.json").read_bytes())
            ended_ms = int(run.get("ended_ms") or 0) if run.get("finished", True) else None
            for row in map(orjson.loads, path.read_bytes().splitlines()):
                lost, dropped, on_board = (merged(row[key]) for key in ("lost", "dropped", "on_board"))
                from_ms = int(run.get("start_ms", row["boot_id"]))
                one = EdgeDevice(row["next_seq"], lost, dropped, on_board, from_ms, ended_ms, sent)
                found[row["vehicle_id"], row["boot_id"]].append(one)
    return {device: several[0] if len(several) == 1 else _sum(several) for device, several in found.items()}


def _sum(several: list[EdgeDevice]) -> EdgeDevice:
    ended = [one.ended_ms for one in several if one.ended_ms is not None]
    names = ("lost", "dropped", "on_board")
    lost, dropped, on_board = (
        merged(part for one in several for part in getattr(one, name)) for name in names
    )
    return EdgeDevice(
        max(one.next_seq for one in several), lost, dropped, on_board,
        min(one.from_ms for one in several), max(ended) if len(ended) == len(several) else None,
        any(one.sent for one in several),
    )  # fmt: skip
