"""One vehicle's archived frames through the core, twice: in their order, and as the stream had them.

What the two runs find differently is what frames that came behind make of it. All else they have in common:
a memory that is cold at the begin of the span, or long rules that began before it, cancel out. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pandas as pd

from stream_jobs.frames.batch import as_arrow
from stream_jobs.recompute.vehicle_work import Work
from stream_jobs.rule_kinds import Clone, Silence
from stream_jobs.rules import Rule
from stream_jobs.vehicles.arrivals import Placed
from stream_jobs.vehicles.core import Core, CoreLimits
from stream_jobs.vehicles.plugged import Detection
from stream_jobs.vehicles.replay import arrivals_of, replay
from stream_jobs.vehicles.rows import AlertRow, Row, pack
from stream_jobs.vehicles.sequencer import Order, Sequencer
from stream_jobs.vehicles.stage import VehicleStage

PLAYED: Final = "vehicle_id string, kind string, body binary"
SEEN, JOURNEY, WHOLE, STREAMED = "seen", "journey", "whole", "streamed"
"""Rows: a vehicle was read; a journey; a finding of all frames in order; one of the frames as they came."""


def came(each: Placed) -> tuple[int, int, int]:
    """Sorts frames as they came. A log is in order of receipt, and two of them (a day that was filled in has
    a topic and offsets of its own) lie side by side by it.
    """
    partition, offset, arrival = each
    return (arrival.received_ms, partition, offset)


def lasting(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """Rules whose findings frames that came behind can change.

    Silence and clones are about what was received when: a late frame was not there then, and stays late.
    """
    by_frames = [
        r for r in rules if r.lasting is not None and not isinstance(r.lasting.spec, Silence | Clone)
    ]
    return tuple(by_frames)


@dataclass(frozen=True, slots=True)
class Player:
    """What is sent to the workers: archived records of some vehicles in, rows of PLAYED out."""

    limits: CoreLimits
    detection: Detection
    stage: VehicleStage
    works: Mapping[str, Work]
    seen_ms: int

    def __call__(self, records: pd.DataFrame) -> pd.DataFrame:
        """Rows of PLAYED, those of a vehicle together."""
        out = []
        for vehicle_id, placed in arrivals_of(self.stage, [as_arrow(records)]).items():
            out.append((vehicle_id, SEEN, b""))
            played = self.played(self.works[vehicle_id], placed)
            out += [(vehicle_id, kind, pack(row)) for kind, row in played]
        return pd.DataFrame(out, columns=["vehicle_id", "kind", "body"])

    def played(self, work: Work, placed: list[Placed]) -> Iterator[tuple[str, Row]]:
        """Journeys of the work's time; findings of both runs where a frame came behind."""
        placed.sort(key=came)
        behind = self._behind(placed)
        if behind or work.journeys:
            core = Core(self.limits, self.detection)
            for row in replay(core, (each[2] for each in placed), self.seen_ms):
                if isinstance(row, AlertRow):
                    if behind and row.event_ms >= work.since_ms:
                        yield WHOLE, row
                elif work.journeys and work.task.holds(row):
                    yield JOURNEY, row
        for row in self._streamed(placed) if behind else ():
            if isinstance(row, AlertRow) and row.event_ms >= work.since_ms:
                yield STREAMED, row

    def _behind(self, placed: Sequence[Placed]) -> bool:
        """Whether the order alone, which costs little, left a frame behind."""
        sequencer = Sequencer(Order(), self.limits.patience)
        for _, _, arrival in placed:
            for _ in sequencer.take(arrival):
                pass
        return bool(sequencer.behind)

    def _streamed(self, placed: Sequence[Placed]) -> Iterator[Row]:
        core = Core(self.limits, self.detection)
        state = core.new()
        yield from core.take(state, (each[2] for each in placed))
        yield from core.expire(state, self.seen_ms)
