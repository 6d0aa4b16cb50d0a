"""The same core over records that are all there: for repairs, rehearsals and files; plain Python over Arrow.

All frames of a vehicle are put in order at once, whatever came when: that is what the stream's order comes to
where nothing is behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa

from stream_jobs.vehicles.arrivals import Placed, by_vehicle
from stream_jobs.vehicles.beat import Beat
from stream_jobs.vehicles.core import Core
from stream_jobs.vehicles.rows import Row
from stream_jobs.vehicles.sequencer import Arrival
from stream_jobs.vehicles.stage import VehicleStage


def replay(core: Core, arrivals: Iterable[Arrival], until_ms: int) -> Iterator[Row]:
    """Rows of one vehicle out of its records, in whatever order they are given.

    ``until_ms``: the receive clock up to which it is known that nothing more came.
    """
    state = core.new()
    came = sorted(arrivals, key=lambda each: each.received_ms)
    for each in came:
        if each.beat is not None:
            yield from core.arrived(state, each.beat)
    for beat in in_order(came):
        state.clock_ms = max(state.clock_ms, beat.received_ms)
        yield from core.step(state, beat)
    yield from core.expire(state, until_ms)


def in_order(arrivals: Iterable[Arrival]) -> Iterator[Beat]:
    """Beats by boot and number, each once; none of a lower boot from after a higher one's begin."""
    unique = {each.key: each for each in sorted(arrivals, key=lambda a: a.received_ms, reverse=True)}
    begins: dict[int, int] = {}
    for each in unique.values():
        if each.beat is not None:
            begins[each.boot_id] = min(begins.get(each.boot_id, each.t0_ms), each.t0_ms)
    ends = _ends(begins)
    for key in sorted(unique):
        beat = unique[key].beat
        if beat is not None and beat.t0_ms < ends[beat.boot_id]:
            yield beat


def _ends(begins: Mapping[int, int]) -> dict[int, float]:
    """When each boot ends: where the earliest of the later ones begins."""
    ends: dict[int, float] = {}
    end = np.inf
    for boot in sorted(begins, reverse=True):
        ends[boot] = end
        end = min(end, begins[boot])
    return ends


def arrivals_of(stage: VehicleStage, batches: Iterable[pa.RecordBatch]) -> Mapping[str, list[Placed]]:
    """Arrivals by vehicle out of records (columns frames.batch.RECORD)."""
    found = (stage.frames(records) for records in batches)
    return by_vehicle(stage.features(batch) for batch in found if batch is not None)
