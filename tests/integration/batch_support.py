"""Runs of the batch layer in any process, without Spark: what Spark reads out of the archive is given.

Rows of windows are the oracle's, journeys those of the stream's core over the same frames. All that a run
writes, remembers and holds is the product's.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from infra.contract.settings import Settings
from load_tests.oracle import Expected, Row
from stream_jobs.database import Database
from stream_jobs.recompute import work
from stream_jobs.recompute.nightly import Nightly
from stream_jobs.recompute.player import JOURNEY, WHOLE, Player
from stream_jobs.recompute.runs import Counts
from stream_jobs.recompute.slices import Span
from stream_jobs.recompute.vehicle_pass import VehiclePass
from stream_jobs.recompute.vehicle_work import Work
from stream_jobs.recompute.window_pass import WindowPass
from stream_jobs.repair_plan import grid_of
from stream_jobs.repair_store import REPAIR_BATCH_ID
from stream_jobs.schema import ROAD_KEYS, WINDOW_KEYS
from stream_jobs.sinks import ROAD, VEHICLE, WindowTable
from stream_jobs.vehicles.arrivals import Placed
from stream_jobs.vehicles.limits import core_limits
from stream_jobs.vehicles.plugged import Detection
from stream_jobs.vehicles.replay import arrivals_of
from stream_jobs.vehicles.rows import AlertRow, pack
from stream_jobs.vehicles.stage import vehicle_stage
from stream_jobs.windows.tables import NO_WINDOWS
from tests.support_frames import Record

OF_VEHICLES = NO_WINDOWS.schema.append(pa.field("batch_id", pa.int64()))
PATIENCE_S = 120.0
"""For a transaction: a starved machine is not what is tested here."""
Patch = Callable[[type, str, Any], None]


@dataclass(frozen=True, slots=True)
class Given:
    """What a run is to find, and where it writes; ``findings``: those of all frames, by vehicle."""

    settings: Settings
    url: str
    span: Span
    closed_ms: int
    vehicle: Mapping[tuple[str, datetime], Row]
    road: Mapping[tuple[str, int, datetime], Row]
    records: Sequence[Record]
    findings: Mapping[str, Sequence[AlertRow]]

    def install(self, patch: Patch) -> None:
        """Let the passes read this in the place of the archive."""
        patch(WindowPass, "_rows", lambda _, starts_ms, __: self._windows(starts_ms))
        patch(VehiclePass, "_records", lambda _, __: ())
        patch(VehiclePass, "_played", lambda _, works, __, seen_ms: self._played(works, seen_ms))
        patch(Nightly, "_session", lambda _: None)

    def _windows(self, starts_ms: Sequence[int]) -> dict[WindowTable, pa.Table]:
        return {
            VEHICLE: self._rows(self.vehicle, WINDOW_KEYS, starts_ms, OF_VEHICLES),
            ROAD: self._rows(self.road, ROAD_KEYS, starts_ms),
        }

    def _rows(
        self,
        found: Mapping[Any, Row],
        keys: Sequence[str],
        starts_ms: Sequence[int],
        schema: pa.Schema | None = None,
    ) -> pa.Table:
        length_ms = grid_of(self.settings).road_window_ms
        inside = [
            dict(zip(keys, key, strict=True)) | row | {"batch_id": REPAIR_BATCH_ID}
            for key, row in found.items()
            if int(key[-1].timestamp() * 1000) // length_ms * length_ms in starts_ms
        ]
        return pa.Table.from_pylist(inside, schema)

    def _played(self, works: Sequence[Work], seen_ms: int) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        placed, mine = self._placed(), {each.task.vehicle_id: each for each in works}
        stage = vehicle_stage(self.settings, Detection())
        player = Player(core_limits(self.settings), Detection(), stage, mine, seen_ms)
        for vehicle_id, each in sorted(mine.items()):
            rows = [(kind, row) for kind, row in player.played(each, placed[vehicle_id]) if kind == JOURNEY]
            rows += [(WHOLE, row) for row in self.findings.get(vehicle_id, ())]
            yield vehicle_id, [{"kind": kind, "body": pack(row)} for kind, row in rows]

    def _placed(self) -> Mapping[str, list[Placed]]:
        stage = vehicle_stage(self.settings, Detection())
        kinds = {
            "partition": pa.int32(),
            "log_offset": pa.int64(),
            "received_ms": pa.int64(),
            "value": pa.binary(),
        }
        columns = zip(*((0, n, at_ms, raw) for n, (at_ms, raw) in enumerate(self.records)), strict=True)
        arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds.values(), strict=True)]
        found = arrivals_of(stage, [pa.RecordBatch.from_arrays(arrays, names=list(kinds))])
        return defaultdict(list, found)

    def tools(self) -> work.Tools:
        """A connection of its own; no Spark."""
        stop = threading.Event()
        database = Database(self.url, "recompute", stop, PATIENCE_S)
        return work.Tools(None, self.settings, database, self.url, stop)  # type: ignore[arg-type]


def given_of(
    settings: Settings, url: str, span: Span, expected: Expected, records: Sequence[Record],
    findings: Mapping[str, Sequence[AlertRow]],
) -> Given:  # fmt: skip
    """A run over ``span``, long after it; ``records`` are those of vehicles with journeys."""
    closed_ms = span.until_ms + 3_600_000
    return Given(settings, url, span, closed_ms, expected.vehicle, expected.road, records, findings)


def recompute(given: Given) -> Counts:
    """The command's run."""
    tools = given.tools()
    try:
        return work.recompute(tools, given.span, given.closed_ms)[1]
    finally:
        tools.database.close()


def by_night(given: Given) -> Counts | None:
    """The nightly run, in the hour in which it is due; None where nothing is."""
    tools, now = given.tools(), datetime.now(UTC)
    terms = given.settings.recompute.model_copy(update={"hour_utc": now.hour})
    settings = given.settings.model_copy(update={"recompute": terms})
    try:
        return Nightly(
            tools.spark,
            settings,
            tools.database,
            tools.owner_url,
            lambda: given.closed_ms,
            tools.stop,
            lambda: now,
        )()
    finally:
        tools.database.close()


def recompute_alone(given: Given) -> None:
    """The command's run in a process that does nothing else."""
    given.install(setattr)
    recompute(given)


def by_night_alone(given: Given) -> None:
    """The nightly run in a process that does nothing else."""
    given.install(setattr)
    by_night(given)
