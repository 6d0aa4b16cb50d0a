"""The stage that runs in Spark's Python workers: records in, frames and visits with partial rows out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from infra.contract.verdict import LATE, OK, ClockLimits
from stream_jobs.partials import heads
from stream_jobs.partials.columns import Part
from stream_jobs.partials.frames import Flags, frames_of
from stream_jobs.partials.reading import read
from stream_jobs.partials.roads import RoadRows, road_rows, visits
from stream_jobs.partials.rows import partials, partials_type, visit_columns
from stream_jobs.roads.matching import RoadLookup

FRAME_COLUMNS: Final = ("vehicle_id", "boot_id", "seq", "t0_ms")


@dataclass(frozen=True, slots=True)
class Stage:
    """Lengths of the windows; ``limits`` judge the clock, None where the records bring their verdict along.

    ``kept`` are columns of the records that the frames keep; ``roads`` is where the network in use lies.
    """

    window_ms: int
    road_window_ms: int
    limits: ClockLimits | None = None
    kept: tuple[str, ...] = ()
    roads: RoadLookup | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One row a frame that may go into windows: identity and partial rows as a list; then visits."""
        from stream_jobs.windows import PARTS  # noqa: PLC0415  found in the worker, not sent to it

        return (self.frames(batch, PARTS) for batch in batches)

    def frames(self, batch: pa.RecordBatch, parts: Sequence[Part]) -> pa.RecordBatch:
        """The rows of one batch of records: its frames, then its visits, whose ``visit_ms`` is not null."""
        table = heads.in_range(read(batch.column("value")))
        usable, late = self._judged(table, batch)
        chosen = pa.array(usable)
        table = table.filter(chosen).combine_chunks()
        columns = {name: batch.column(name).filter(chosen) for name in self.kept}
        columns |= {name: table[name].combine_chunks() for name in FRAME_COLUMNS}
        columns["visit_ms"] = pa.nulls(table.num_rows, pa.int64())
        if not table.num_rows:
            return pa.RecordBatch.from_pydict(columns | {"partials": pa.array([], partials_type(parts))})
        frames = frames_of(table, late[usable])
        road = road_rows(frames, self.road_window_ms, None if self.roads is None else self.roads.index())
        of_frames = pa.table(columns | {"partials": partials(frames, parts, self.window_ms, road)})
        return pa.concat_tables([of_frames, _visits(of_frames, road, parts)]).combine_chunks().to_batches()[0]

    def _judged(self, table: pa.Table, batch: pa.RecordBatch) -> tuple[Flags, Flags]:
        """Which records are used and which are late: of a stream ok ones, of the archive late ones too."""
        if self.limits is not None:
            verdict = heads.verdicts(table, batch.column("received_ms").to_numpy(), self.limits)
            return verdict == OK, verdict == LATE
        verdict = batch.column("verdict").to_numpy(zero_copy_only=False)
        return ((verdict == OK) | (verdict == LATE)) & heads.readable(table), verdict == LATE


def _visits(frames: pa.Table, road: Sequence[RoadRows], parts: Sequence[Part]) -> pa.Table:
    """The visits in ``frames``: columns as theirs, not their own ones from the frame they were seen in."""
    codes = frames["vehicle_id"].combine_chunks().dictionary_encode().indices
    vehicle = codes.to_numpy().astype(np.int64)
    of_frame, own = visit_columns([visits(rows, vehicle) for rows in road], parts)
    taken = frames.drop_columns(list(own)).take(pa.array(of_frame))
    whole = {name: taken[name] for name in taken.column_names} | own
    return pa.table({name: whole[name] for name in frames.column_names})
