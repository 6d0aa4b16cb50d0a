"""Rows of the stage as arrivals for the sequencer: by column, a frame at a time costs thrice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stream_jobs.partials.frames import Floats
from stream_jobs.vehicles.beat import NOTHING_SAID, Beat, HarshRun, Said
from stream_jobs.vehicles.facts import CLASSES, FACTS, POWERTRAINS
from stream_jobs.vehicles.harsh_runs import KINDS, RUN
from stream_jobs.vehicles.said import said_of
from stream_jobs.vehicles.sequencer import Arrival

if TYPE_CHECKING:  # 40 MB, of which a process that repairs nothing needs none
    import pandas as pd

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


def by_vehicle(chunks: Iterable[pd.DataFrame]) -> dict[str, list[Placed]]:
    """Arrivals by vehicle; a group may come in several chunks."""
    found: dict[str, list[Placed]] = defaultdict(list)
    for chunk in chunks:
        if not len(chunk):
            continue
        plain = [chunk[name].tolist() for name in ("vehicle_id", "partition", "log_offset")]
        for vehicle_id, partition, offset, each in zip(*plain, _arrivals(chunk), strict=True):
            found[vehicle_id].append((partition, offset, each))
    return found


def _arrivals(chunk: pd.DataFrame) -> list[Arrival]:
    """The rows as arrivals, in their order; there is at least one."""
    facts = _matrix(chunk["facts"])
    of = {name: _column(name, facts[:, _PLACE[name]]) for name in _FIELDS}
    of["vehicle_id"] = chunk["vehicle_id"].tolist()
    of["harsh"] = [_harsh(run) for run in chunk["runs"].tolist()]
    of["said"] = _said(chunk)
    beats = map(Beat, *(of[name] for name in Beat.__struct_fields__))
    believed = (facts[:, _PLACE["believed"]] > 0).tolist()
    told = [beat if is_so else None for beat, is_so in zip(beats, believed, strict=True)]
    return [*map(Arrival, of["boot_id"], of["seq"], of["t0_ms"], of["received_ms"], told)]


def _said(chunk: pd.DataFrame) -> list[Said]:
    if "numbers" not in chunk:  # read without rules
        return [*repeat(NOTHING_SAID, len(chunk))]
    return said_of(_matrix(chunk["numbers"]), chunk["names"].tolist())


def _matrix(column: pd.Series) -> Floats:
    """Rows of doubles, all of one length."""
    rows = column.to_list()
    return np.concatenate(rows).reshape(len(rows), -1)


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
    if not len(runs):
        return ()
    each = np.asarray(runs).tolist()
    return tuple(
        HarshRun(KINDS[int(each[i])], int(each[i + 1]), int(each[i + 2]), each[i + 3], each[i + 4])
        for i in range(0, len(each), RUN)
    )
