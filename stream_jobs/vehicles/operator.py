"""The stateful operator: records of a bucket of vehicles and its memory in, rows of what was found out.

It runs in Spark's Python workers (applyInPandasWithState). The key is a bucket and not a vehicle, because a
call and a state access a vehicle would cost more than the work in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.state import GroupState

from stream_jobs.vehicles.arrivals import by_vehicle
from stream_jobs.vehicles.core import Core, CoreLimits
from stream_jobs.vehicles.plugged import Detection
from stream_jobs.vehicles.rows import Row, pack
from stream_jobs.vehicles.stage import VehicleStage, as_arrow
from stream_jobs.vehicles.state import Bucket, adopt, dump_bucket, dump_vehicle, load_bucket, load_vehicle

OUTPUT: Final = "kind string, vehicle_id string, body binary"
STATE: Final = "blob binary"


@dataclass(frozen=True, slots=True)
class Operator:
    """What is sent to the workers; the core is made there."""

    limits: CoreLimits
    detection: Detection
    stage: VehicleStage

    def __call__(
        self, _bucket: tuple[Any, ...], records: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        """Rows of OUTPUT; the bucket's number says nothing more."""
        core = Core(self.limits, self.detection)
        bucket = load_bucket(state.get[0] if state.exists else None)
        adopt(bucket, [f"{rule.id}@{rule.version}" for rule in self.detection.rules])
        watermark_ms = state.getCurrentWatermarkMs()
        batches = (as_arrow(chunk) for chunk in records if len(chunk))
        rows = [*_arrived(core, bucket, self.stage, batches), *_due(core, bucket, watermark_ms)]
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


def _arrived(
    core: Core, bucket: Bucket, stage: VehicleStage, batches: Iterable[pa.RecordBatch]
) -> Iterator[Row]:
    for vehicle_id, placed in by_vehicle(map(stage.features, batches)).items():
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
