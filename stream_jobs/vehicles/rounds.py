"""The next frame of each of many vehicles at once: what everything that remembers works on; numpy, pure.

Frames of a vehicle come one after the other, vehicles do not meet: so round by round, a frame of every
vehicle that has one, each step is arithmetic on columns whose rows are vehicles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from stream_jobs.frames.arrays import Floats, Ints
from stream_jobs.vehicles.frame_features import FRAME_FEATURES

_PLACE: Final = {name: place for place, name in enumerate(FRAME_FEATURES)}


@dataclass(frozen=True, slots=True)
class Round:
    """Frames of k vehicles, one each.

    ``places``: [k], where each vehicle's memory is; no place twice. ``rows``: [k], which frame of the batch.
    ``frame_features``: [k, FRAME_FEATURES], doubles, NaN where not known. ``runs``: harsh runs of
    each frame (frame_features.RUN numbers each), [k]. ``vehicles``: the vehicles' ids by place.
    """

    places: Ints
    rows: Ints
    frame_features: Floats
    runs: Sequence[Sequence[float]]
    vehicles: Sequence[str]

    def __getitem__(self, name: str) -> Floats:
        """A fact by vehicle, [k]."""
        return self.frame_features[:, _PLACE[name]]

    def __len__(self) -> int:
        """Number of frames."""
        return len(self.places)

    def of(self, lanes: Ints) -> Round:
        """Those at ``lanes`` among the k."""
        if len(lanes) == len(self.places):
            return self
        runs = [self.runs[lane] for lane in lanes.tolist()] if self.runs else self.runs
        return Round(self.places[lanes], self.rows[lanes], self.frame_features[lanes], runs, self.vehicles)

    def vehicle(self, lane: int) -> str:
        """The id of one of the k vehicles."""
        return self.vehicles[int(self.places[lane])]
