"""Features of frames as arrivals for the sequencer: by column, a frame at a time costs thrice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from stream_jobs.frames.arrays import Floats
from stream_jobs.vehicles.beat import Beat, HarshRun
from stream_jobs.vehicles.facts import CLASSES, FACTS, POWERTRAINS
from stream_jobs.vehicles.harsh_runs import KINDS, RUN
from stream_jobs.vehicles.said import said_of
from stream_jobs.vehicles.sequencer import Arrival
from stream_jobs.vehicles.stage import Features

_PLACE: Final = {name: place for place, name in enumerate(FACTS)}
_WORDS: Final[dict[str, tuple[Any, ...]]] = {
    "ignition_on": (False, True),
    "vehicle_class": CLASSES,
    "powertrain": POWERTRAINS,
}
"""Facts that are places among words."""
_HEAD: Final = ("boot_id", "seq", "t0_ms", "end_ms", "received_ms")
_WHOLE: Final = ("moving_ms", "moving_from_ms", "moving_to_ms", "speeding_ms")
_FIELDS: Final = tuple(name for name in Beat.__struct_fields__ if name in _PLACE)


Placed = tuple[int, int, Arrival]
"""Partition, offset and what stands there."""


def by_vehicle(batches: Iterable[Features]) -> dict[str, list[Placed]]:
    """Arrivals by vehicle, in the order of the batches."""
    found: dict[str, list[Placed]] = defaultdict(list)
    for batch in batches:
        if not len(batch.vehicle_id):
            continue
        plain = batch.vehicle_id, batch.partition.tolist(), batch.log_offset.tolist()
        for vehicle_id, partition, offset, each in zip(*plain, _arrivals(batch), strict=True):
            found[vehicle_id].append((partition, offset, each))
    return found


def _arrivals(batch: Features) -> list[Arrival]:
    """The frames as arrivals, in their order; there is at least one."""
    of = {name: _column(name, batch.facts[:, _PLACE[name]]) for name in _FIELDS}
    of["vehicle_id"] = [*batch.vehicle_id]
    of["harsh"] = [_harsh(run) for run in batch.runs]
    of["said"] = said_of(batch.rules)
    beats = map(Beat, *(of[name] for name in Beat.__struct_fields__))
    believed = (batch.facts[:, _PLACE["believed"]] > 0).tolist()
    told = [beat if is_so else None for beat, is_so in zip(beats, believed, strict=True)]
    return [*map(Arrival, of["boot_id"], of["seq"], of["t0_ms"], of["received_ms"], told)]


def _column(name: str, numbers: Floats) -> list[Any]:
    """A fact by frame as what it is; None where not known."""
    if name in _HEAD:
        return [*numbers.astype(np.int64).tolist()]
    known = numbers == numbers  # noqa: PLR0124  NaN is not known
    words = _WORDS.get(name)
    plain: list[Any] = numbers.tolist()
    if words is not None:
        return [words[int(x)] if is_so else None for x, is_so in zip(plain, known.tolist(), strict=True)]
    if name in _WHOLE:
        plain = np.where(known, numbers, 0).astype(np.int64).tolist()
    if known.all():
        return plain
    return [x if is_so else None for x, is_so in zip(plain, known.tolist(), strict=True)]


def _harsh(runs: Sequence[float]) -> tuple[HarshRun, ...]:
    return tuple(
        HarshRun(KINDS[int(runs[i])], int(runs[i + 1]), int(runs[i + 2]), runs[i + 3], runs[i + 4])
        for i in range(0, len(runs), RUN)
    )
