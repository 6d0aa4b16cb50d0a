"""The stateful operator: rows of a bucket of vehicles and its memory in, rows of what was found out.

It runs in Spark's Python workers (applyInPandasWithState). The key is a bucket and not a vehicle, because a
call and a state access a vehicle would cost more than the work in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from pyspark.sql.streaming.state import GroupState

from stream_jobs.vehicles.arrivals import arrival
from stream_jobs.vehicles.core import Core, CoreLimits
from stream_jobs.vehicles.plugged import Detection
from stream_jobs.vehicles.rows import Row, pack
from stream_jobs.vehicles.sequencer import Arrival
from stream_jobs.vehicles.state import Bucket, dump_bucket, dump_vehicle, load_bucket, load_vehicle

INPUT: Final = ("vehicle_id", "partition", "log_offset", "facts", "runs", "numbers", "names")
OUTPUT: Final = "kind string, vehicle_id string, body binary"
STATE: Final = "blob binary"

Placed = tuple[int, int, Arrival]


@dataclass(frozen=True, slots=True)
class Operator:
    """What is sent to the workers; the core is made there."""

    limits: CoreLimits
    detection: Detection

    def __call__(
        self, _key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        """Rows of OUTPUT; the key says nothing more."""
        core = Core(self.limits, self.detection)
        bucket = load_bucket(state.get[0] if state.exists else None)
        watermark_ms = state.getCurrentWatermarkMs()
        rows = [*_arrived(core, bucket, frames), *_due(core, bucket, watermark_ms)]
        if bucket.vehicles:
            state.update((dump_bucket(bucket),))
            state.setTimeoutTimestamp(max(min(bucket.due_ms.values()), watermark_ms) + 1)
        elif state.exists:
            state.remove()
        yield pd.DataFrame(
            {
                "kind": [type(row).__struct_config__.tag for row in rows],
                "vehicle_id": [row.vehicle_id for row in rows],
                "body": [pack(row) for row in rows],
            }
        )


def _arrived(core: Core, bucket: Bucket, frames: Iterator[pd.DataFrame]) -> Iterator[Row]:
    for vehicle_id, placed in _by_vehicle(frames).items():
        raw = bucket.vehicles.get(vehicle_id)
        state = core.new() if raw is None else load_vehicle(raw)
        placed.sort(key=lambda each: each[:2])
        yield from core.take(state, (each[2] for each in placed))
        bucket.vehicles[vehicle_id] = dump_vehicle(state)
        bucket.due_ms[vehicle_id] = core.due_ms(state)


def _due(core: Core, bucket: Bucket, now_ms: int) -> Iterator[Row]:
    for vehicle_id in [v for v, due_ms in bucket.due_ms.items() if due_ms < now_ms]:
        state = load_vehicle(bucket.vehicles[vehicle_id])
        yield from core.expire(state, now_ms)
        if core.forgotten(state, now_ms):
            del bucket.vehicles[vehicle_id], bucket.due_ms[vehicle_id]
        else:
            bucket.vehicles[vehicle_id] = dump_vehicle(state)
            bucket.due_ms[vehicle_id] = core.due_ms(state)


def _by_vehicle(chunks: Iterator[pd.DataFrame]) -> Mapping[str, list[Placed]]:
    """Arrivals by vehicle; a group may come in several chunks."""
    found: dict[str, list[Placed]] = defaultdict(list)
    for chunk in chunks:
        for vehicle_id, partition, offset, *content in zip(*_lists(chunk), strict=True):
            found[vehicle_id].append((partition, offset, arrival(vehicle_id, *content)))
    return found


def _lists(chunk: pd.DataFrame) -> list[list[Any]]:
    plain = [chunk[name].tolist() for name in ("vehicle_id", "partition", "log_offset")]
    facts, numbers = (_known(chunk[name]) for name in ("facts", "numbers"))
    runs = [run.tolist() for run in chunk["runs"]]
    return [*plain, facts, runs, numbers, chunk["names"].tolist()]


def _known(column: Any) -> list[list[Any]]:
    """Rows of doubles as lists, None where not known."""
    matrix = np.vstack(column.to_list()) if len(column) else np.empty((0, 0))
    known = matrix.astype(object)
    known[np.isnan(matrix)] = None
    return known.tolist()
