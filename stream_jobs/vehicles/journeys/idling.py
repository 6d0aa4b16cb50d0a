"""Idling: standing (below 1 km/h) with the ignition on for ``idle_ms`` and more, with what it burns; pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from infra.settings.sections import Journeys
from stream_jobs.frames.arrays import Flags, Floats, Ints
from stream_jobs.vehicles.features import Round
from stream_jobs.vehicles.journeys.motion import SEEN_MS, Positions, indices, or_zero
from stream_jobs.vehicles.rows import FINAL, MS_PER_S, OPEN, PROVISIONAL, IdleRow, degrees

FIELDS: Final[list[Any]] = [
    ("idle_from_ms", "f8"), ("idle_to_ms", "f8"), ("idle_where", "c16"), ("idle_fuel_l", "f8"),
    ("idle_energy_kwh", "f8"), ("idle_open", "?"),
]  # fmt: skip
"""An episode so far, none while ``idle_from_ms`` is NaN; ``idle_open``: it was told as open last."""
_BURNT: Final = (("idle_fuel_l", "fuel_l"), ("idle_energy_kwh", "energy_kwh"))


class Idling:
    """The machine for k vehicles; ``memory``: [k], what it remembers; ``vehicle``: an id by index.

    Arguments ``at`` are indices of vehicles, of [k].
    """

    def __init__(self, limits: Journeys, memory: npt.NDArray[np.void], vehicle: Callable[[int], str]) -> None:
        self._idle_ms = limits.idle_s * MS_PER_S
        self._memory = memory
        self._vehicle = vehicle
        self._rows: list[IdleRow] = []

    def step(self, frames: Round, here: Positions) -> list[IdleRow]:
        """Rows that follow from the next frame of each; ``here``: where it is, [k]."""
        m, t0_ms, end_ms = self._memory, frames["t0_ms"], frames["end_ms"]
        moving_from_ms, moving_to_ms = frames["moving_from_ms"], frames["moving_to_ms"]
        is_on = (frames["ignition_on"] == 1) & ~np.isnan(frames["moving_ms"])
        moves = is_on & ~np.isnan(moving_from_ms + moving_to_ms)
        self._end(indices((t0_ms - m["idle_to_ms"] > SEEN_MS) | ~is_on))
        until_moved = moves & ~np.isnan(m["idle_from_ms"])
        stands = indices((is_on & ~moves) | until_moved)
        self._stand(stands, frames, here, t0_ms, np.where(moves, moving_from_ms, end_ms))
        self._end(indices(until_moved))
        self._stand(indices(moves & (moving_to_ms < end_ms)), frames, here, moving_to_ms, end_ms)
        return self._rows

    def due(self) -> Flags:
        """Whether an episode that nothing more is heard of is to be told as it was."""
        due: Flags = self._memory["idle_open"]
        return due

    def expire(self, at: Ints) -> list[IdleRow]:
        """The episodes so far."""
        self._tell(at, PROVISIONAL)
        return self._rows

    def _stand(self, at: Ints, frames: Round, here: Positions, from_ms: Floats, to_ms: Floats) -> None:
        """They stand from ``from_ms`` to ``to_ms`` ([k]) of their frames."""
        if not len(at):
            return
        m = self._memory
        new = at[np.isnan(m["idle_from_ms"][at])]
        m["idle_from_ms"][new] = m["idle_to_ms"][new] = from_ms[new]
        m["idle_where"][new] = here[new]
        m["idle_fuel_l"][new] = m["idle_energy_kwh"][new] = np.nan
        m["idle_to_ms"][at] = np.maximum(m["idle_to_ms"][at], to_ms[at])
        share = (to_ms[at] - from_ms[at]) / (frames["end_ms"][at] - frames["t0_ms"][at])
        for name, fact in _BURNT:
            total, more = m[name][at], frames[fact][at]
            m[name][at] = np.where(np.isnan(more), total, or_zero(total) + more * share)
        long_enough = m["idle_to_ms"][at] - m["idle_from_ms"][at] >= self._idle_ms
        self._tell(at[long_enough & ~m["idle_open"][at]], OPEN)

    def _end(self, at: Ints) -> None:
        m = self._memory
        self._tell(at[m["idle_to_ms"][at] - m["idle_from_ms"][at] >= self._idle_ms], FINAL)
        m["idle_from_ms"][at] = m["idle_to_ms"][at] = np.nan

    def _tell(self, at: Ints, phase: str) -> None:
        m = self._memory
        m["idle_open"][at] = phase == OPEN
        for i in at.tolist():
            from_ms, to_ms = int(m["idle_from_ms"][i]), int(m["idle_to_ms"][i])
            fuel_l, energy_kwh = (None if np.isnan(m[name][i]) else float(m[name][i]) for name, _ in _BURNT)
            burnt_at = ((to_ms - from_ms) / MS_PER_S, fuel_l, energy_kwh, *degrees(m["idle_where"][i]))
            self._rows.append(IdleRow(self._vehicle(i), from_ms, to_ms, phase, *burnt_at))
