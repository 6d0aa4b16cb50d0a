"""Stages of a run: how many vehicles report as time goes on. Pure.

A rate is met by the number of vehicles that report, not by stretching their frames: a vehicle that is on line
reports at its own interval without gaps, and comes on line with a birth message like any device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edge_simulator.geo import Ints
from infra.contract.errors import ConfigError

_GOLDEN = (5**0.5 - 1) / 2
STEP_MS = 1000
"""The number on line changes at most so often."""


@dataclass(frozen=True, slots=True)
class Stage:
    """So long at a rate that goes evenly from one to the other, frames/s."""

    for_ms: int
    from_rate: float
    to_rate: float


@dataclass(frozen=True, slots=True)
class Schedule:
    """Stages one after the other; the last rate holds after their end. No stage: everybody reports."""

    stages: tuple[Stage, ...] = ()

    @property
    def span_ms(self) -> int:
        """Length of all stages."""
        return sum(stage.for_ms for stage in self.stages)

    def rate(self, since_ms: int, full: float) -> float:
        """Frames/s wanted ``since_ms`` after the start; ``full`` when every vehicle reports."""
        since_ms -= since_ms % STEP_MS
        for stage in self.stages:
            if since_ms < stage.for_ms:
                return stage.from_rate + (stage.to_rate - stage.from_rate) * since_ms / stage.for_ms
            since_ms -= stage.for_ms
        return self.stages[-1].to_rate if self.stages else full

    def check(self, full: float) -> None:
        """Raise ConfigError for a rate that ``full``, every vehicle reporting, cannot meet."""
        most = max((max(s.from_rate, s.to_rate) for s in self.stages), default=0.0)
        if most > full * 1.0001:
            raise ConfigError(
                f"stages: {most:g} frames/s are wanted, but all vehicles together report {full:g}/s; "
                "more vehicles or a shorter interval is needed"
            )


def on_line(rate: float, full: float, n_vehicles: int) -> int:
    """How many of ``n_vehicles`` have to report for a rate."""
    return min(n_vehicles, round(n_vehicles * rate / full))


def turns(n_vehicles: int) -> Ints:
    """Each vehicle's place in the order of coming on line, [n_vehicles]: any first few are spread evenly."""
    order = np.argsort(np.arange(n_vehicles) * _GOLDEN % 1.0, kind="stable")
    place = np.empty(n_vehicles, dtype=np.int64)
    place[order] = np.arange(n_vehicles)
    return place


def from_list(entries: Sequence[tuple[int, float | None, float | None]]) -> Schedule:
    """Stages from (length in ms, rate, ramp_to): a ramp begins where the stage before it ended, else at 0."""
    stages: list[Stage] = []
    for number, (for_ms, rate, ramp_to) in enumerate(entries, 1):
        if (rate is None) == (ramp_to is None):
            raise ConfigError(f"stages, stage {number}: either rate or ramp_to is wanted")
        last = stages[-1].to_rate if stages else 0.0
        to = rate if rate is not None else ramp_to
        if to is None or to < 0:
            raise ConfigError(f"stages, stage {number}: frames/s of at least 0 are wanted, not {to:g}")
        stages.append(Stage(for_ms, to if rate is not None else last, to))
    return Schedule(tuple(stages))
