"""Windows and features out of archived records, as the batch layer makes them, without its ledger."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from infra.contract.verdict import ClockLimits
from infra.settings.sections import Jobs
from stream_jobs.roads.network import RoadLookup
from stream_jobs.vehicles.features import Features, VehicleStage, joined
from stream_jobs.windows.open_windows import OpenWindows, archived_frames
from stream_jobs.windows.places import SHARE
from stream_jobs.windows.vehicle import NO_WINDOWS


def archived_windows(
    records: pa.Table, jobs: Jobs, limits: ClockLimits, roads: RoadLookup | None = None
) -> tuple[pa.Table, pa.Table]:
    """Rows of odograph.vehicle_window and shares of places (places.SHARE) out of archived records."""
    windows = OpenWindows(jobs, roads)
    for batch in archived_frames(records, limits):
        windows.take(batch, batch.believed)
    windows.give_out()
    shares = [SHARE.empty_table(), *windows.found.shares]
    return pa.concat_tables([NO_WINDOWS, *windows.found.vehicle]), pa.concat_tables(shares)


def features_read(stage: VehicleStage, batches: Iterable[pa.RecordBatch]) -> Features | None:
    """What the frames in records say; None where none can be read."""
    frames = (stage.frames(records) for records in batches)
    found = [stage.features(batch) for batch in frames if batch is not None]
    return joined(found) if found else None
