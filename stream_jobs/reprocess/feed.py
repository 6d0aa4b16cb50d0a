"""Archived records -> windows, journeys and findings, a group of vehicles at a time, out of one parse."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, groupby, product
from operator import itemgetter
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from infra.clients.db import sql_of
from infra.clients.duck import connected, table_of
from infra.settings.settings import Settings
from stream_jobs.alerts.derive import AlertRow
from stream_jobs.app.telemetry import ipc_of
from stream_jobs.archive import reader
from stream_jobs.archive.reader import ArchiveFile
from stream_jobs.reprocess.queue import NONE, Interval, Work
from stream_jobs.roads.network import lookup_of
from stream_jobs.rules.rule_set import RuleSet
from stream_jobs.vehicles.core import Core
from stream_jobs.vehicles.features import Features, joined, vehicle_stage
from stream_jobs.vehicles.fleet import Fleet
from stream_jobs.vehicles.rows import Row, pack
from stream_jobs.windows.open_windows import ARCHIVED, OpenWindows, archived_frames

SQL: Final = sql_of(__file__)

SMALL: Final = 250_000  # so many frames of a run are processed here before Spark starts, which takes as long
WARM: Final = 60_000  # a piece of fewer is not worth a job of a Spark that runs
GROUP: Final = 30_000
"""About so many frames are in a process's memory at once, but for those of one vehicle. Vehicles of a group
have about equally many: the core takes the next frame of all of them at the cost of one.
"""
MADE: Final = "kind string, vehicle_id string, body binary"
VEHICLE, SHARES = "vehicle", "shares"  # Arrow streams: windows by vehicle, shares of places
SEEN, JOURNEY, WHOLE, STREAMED = "seen", "journey", "whole", "streamed"
"""Rows: a vehicle was read; a journey; a finding of all frames in order; one of the frames as they came."""

Made = tuple[str, str | None, bytes]  # a row of MADE
_SCHEMA: Final = pa.schema({"kind": pa.string(), "vehicle_id": pa.string(), "body": pa.binary()})
_TIMES: Final = pa.schema({"vehicle_id": pa.string(), "from_ms": pa.int64(), "until_ms": pa.int64()})
_GROUPS: Final = "vehicle_id string, vehicle_group int"
_COLUMNS: Final = ("vehicle_id", "t0_ms", "span_ms", *ARCHIVED)
_RECORDS: Final = ", ".join(f"r.{name}" for name in _COLUMNS)
_FILES: Final = "read_parquet($files, hive_partitioning = false, filename = true)"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which records: those with a sample in [``windows``) and received in ``received`` or late, of all
    vehicles or of ``vehicle``; and those that begin in ``times``: of a vehicle, from and until, ms.
    """

    windows: Interval
    received: Interval
    vehicle: str | None = None
    times: Sequence[tuple[str, int, int]] = ()

    def sql(self, what: str, records: str = "{records}", times: str = "{times}") -> str:
        """The SELECT of ``what``: plain enough for DuckDB and Spark, which puts its own tables in {}."""
        whose = "" if self.vehicle is None else f"r.vehicle_id = {reader.quoted(self.vehicle)} AND"
        bounds = (*self.windows, *self.received)
        return SQL["wanted"].format(*bounds, what=what, records=records, times=times, whose=whose)


class Remake:
    """What is sent to the workers: archived records of some vehicles in, rows of MADE out.

    Windows that begin in [``windows``) are made; those by vehicle only of ``wanted`` (None: of all). Vehicles
    of ``works`` go through the core for what is asked there; None: findings of all of them.

    With rules, late vehicles go through it twice: in order, and as the stream had their frames. What the two
    find differently comes only from late frames: a cold memory at the begin of the span cancels out.
    """

    def __init__(
        self, settings: Settings, rule_set: RuleSet, works: Mapping[str, Work] | None, seen_ms: int,
        windows: Interval = NONE, wanted: Iterable[str] | None = None,
    ) -> None:  # fmt: skip
        self.jobs, self.roads = settings.jobs, lookup_of(settings)
        self.stage, self.rule_set = vehicle_stage(settings, rule_set), rule_set
        self.works, self.seen_ms, self.windows = works, seen_ms, windows
        self.wanted = None if wanted is None else frozenset(wanted)

    def __call__(self, records: pa.Table) -> pa.Table:
        """``records``: columns of _COLUMNS, whole vehicles, copies among them."""
        windows = OpenWindows(self.jobs, self.roads)
        features, came = [], []
        for (reached, rerun), some in self._parts(records):
            for batch in archived_frames(some, self.stage.limits):
                if reached:
                    windows.take(batch, batch.believed)
                if rerun:
                    features.append(self.stage.features(batch))
                    came.append((batch.log_offset, batch.partition, batch.received_ms))
        rows: list[Made] = []
        windows.give_out()
        whose, shares = _among(self.wanted), windows.found.shares
        vehicle = [table.filter(whose) for table in windows.found.vehicle]
        for kind, found, start in ((VEHICLE, vehicle, "window_start"), (SHARES, shares, "start_ms")):
            start_ms = pc.field(start).cast(pa.int64())  # a frame may reach beyond what is made
            inside = (start_ms >= self.windows[0]) & (start_ms < self.windows[1])
            if found:
                rows.append((kind, None, ipc_of(pa.concat_tables(found).filter(inside))))
        if features:
            # A log is in order of receipt, and two of them (a day that was filled in has a topic and offsets
            # of its own) lie side by side by it.
            order = np.lexsort([np.concatenate(column) for column in zip(*came, strict=True)])
            in_order = joined(features).take(order)
            made: dict[str, list[Made]] = {each: [(SEEN, each, b"")] for each in in_order.ids}
            for kind, row in self._rerun(in_order):
                made[row.vehicle_id].append((kind, row.vehicle_id, pack(row)))
            rows += chain.from_iterable(made.values())
        return table_of(_SCHEMA, rows)

    def _parts(self, records: pa.Table) -> Iterator[tuple[tuple[bool, ...], pa.Table]]:
        """Records by whether they reach the windows, and their vehicles go through the core."""
        from_ms, until_ms = self.windows
        t0_ms, span_ms, rerun = pc.field("t0_ms"), pc.field("span_ms"), _among(self.works)
        reached = (t0_ms < until_ms) & (t0_ms + span_ms >= from_ms)
        keys = records.select(["vehicle_id", "t0_ms", "span_ms"])
        for chosen in product((True, False), repeat=2):
            which = (reached == chosen[0]) & (rerun == chosen[1])
            if count := keys.filter(which).num_rows:  # payloads are copied where some are left out only
                yield chosen, records if count == records.num_rows else records.filter(which)

    def _rerun(self, features: Features) -> Iterator[tuple[str, Row]]:
        """``features`` in the order in which the frames came -> journeys of the works' times; findings of
        both runs of late vehicles.
        """
        core, works = Core(self.jobs, self.stage.journeys, self.rule_set), self.works
        if works is None:
            rows = core.replay(features, self.seen_ms)
            yield from ((WHOLE, row) for row in rows if isinstance(row, AlertRow))
            return
        late = core.behind(features) if self.rule_set else set[str]()
        asked = {vehicle_id for vehicle_id in features.ids if works[vehicle_id].journeys} | late
        for row in core.replay(features.of(asked), self.seen_ms) if asked else ():
            work = works[row.vehicle_id]
            if isinstance(row, AlertRow):
                if row.vehicle_id in late and row.event_ms >= work.since_ms:
                    yield WHOLE, row
            elif work.journeys and work.holds(row):
                yield JOURNEY, row
        if late:
            fleet = Fleet(self.rule_set)
            arrived = core.take(fleet, features.of(late))
            rows = arrived + core.expire(fleet, self.seen_ms)
            for row in rows:
                if isinstance(row, AlertRow) and row.event_ms >= works[row.vehicle_id].since_ms:
                    yield STREAMED, row


def _among(vehicles: Iterable[str] | None) -> pc.Expression:
    """Which rows are of these vehicles; None: all."""
    ids = pa.array([*(vehicles or ())], pa.string())
    return pc.scalar(True) if vehicles is None else pc.field("vehicle_id").isin(ids)


def vehicles_in(files: Sequence[ArchiveFile], wanted: Wanted) -> list[str]:
    """Vehicles of which there is something, in order."""
    with connected() as database:
        return sorted(name for name, _ in _counted(database, files, wanted)[0]) if files else []


class Feeder:
    """Gives records of one run to what makes them anew; ``session`` makes Spark where it is worth it, None:
    never. ``warm``: it runs already.
    """

    def __init__(self, session: Callable[[], SparkSession] | None = None, *, warm: bool = False) -> None:
        self._session = session
        self._frames = SMALL if warm else 0

    def __call__(
        self, files: Sequence[ArchiveFile], wanted: Wanted, remake: Callable[[pa.Table], pa.Table]
    ) -> Iterator[Made]:
        """Rows of MADE, those of a vehicle together. ``files`` are those that may have something."""
        if not files:
            return
        with connected() as database:
            counts, some = _counted(database, files, wanted)
            frames = [*accumulate(n for _, n in counts)]
            groups = [(vehicle_id, k // GROUP) for k, (vehicle_id, _) in zip(frames, counts, strict=True)]
            total = frames[-1] if frames else 0
            self._frames += total
            if self._session is not None and total > WARM and self._frames > SMALL:
                spark = self._session()
                times = spark.createDataFrame(table_of(_TIMES, wanted.times))
                records = spark.sql(wanted.sql(_RECORDS), records=spark.read.parquet(*some), times=times)
                grouped = records.join(spark.createDataFrame(groups, _GROUPS), "vehicle_id")
                # A function: Spark counts its parameters, and would hand a callable object the key too.
                made = grouped.groupBy("vehicle_group").applyInArrow(lambda group: remake(group), MADE)  # noqa: PLW0108
                # Not toLocalIterator: on busy cores it now and then gives no row, without an error.
                yield from _rows(made.toArrow())
                return
            text = wanted.sql(_RECORDS, _FILES, "times") + " AND list_contains($vehicles, r.vehicle_id)"
            for _, group in groupby(groups, key=itemgetter(1)):
                values = {"files": some, "vehicles": [vehicle_id for vehicle_id, _ in group]}
                yield from _rows(remake(database.sql(text, params=values).to_arrow_table()))


def _rows(made: pa.Table) -> Iterator[Made]:
    for batch in made.to_batches():
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _counted(
    database: duckdb.DuckDBPyConnection, files: Sequence[ArchiveFile], wanted: Wanted
) -> tuple[list[tuple[str, int]], list[str]]:
    """Vehicles by their number of frames, and the files that have any: only their payloads are read."""
    database.register("times", table_of(_TIMES, wanted.times))
    text = wanted.sql("filename, r.vehicle_id, count(*) AS n", _FILES, "times")
    names = {"files": [str(file.path) for file in files]}
    database.execute(f"CREATE OR REPLACE TEMP TABLE found AS {text} GROUP BY ALL", names)
    counts = database.execute(SQL["counts"]).fetchall()
    some = database.execute("SELECT DISTINCT filename FROM found ORDER BY 1").fetchall()
    return counts, [row[0] for row in some]
