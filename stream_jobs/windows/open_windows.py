"""The open windows of a group of vehicles: frames in, rows of windows out; pure.

The stream keeps them between batches and closes a window when no frame of it can come with the verdict ok any
more. Whatever makes windows anew feeds the same class with archived records, and closes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from infra.contract.verdict import OK, ClockLimits
from infra.settings.settings import Settings
from stream_jobs.app.schema import COORDINATES
from stream_jobs.frames import copies
from stream_jobs.frames.arrays import Flags, Ints
from stream_jobs.frames.batch import RECORD, FrameBatch, frame_batch
from stream_jobs.frames.copies import Seen
from stream_jobs.windows.block import block_of, dump_block, load_block, parts_of
from stream_jobs.windows.places import SHARE, Places, dump_places, load_places, places_of
from stream_jobs.windows.roads import road_rows
from stream_jobs.windows.segments import cut
from stream_jobs.windows.tables import NO_WINDOWS, Lengths, latest_of, lengths_of, newest_rows, vehicle_rows

ARCHIVED: Final = (*RECORD, "topic", "verdict")
"""Columns of archived records that windows are made of."""
FRAMES_AT_ONCE: Final = 10_000
"""So many records are parsed at a time: their arrays take 60 MB."""
SILENT_MS: Final = 600_000
"""A partition that gave nothing for so long holds no window open."""


@dataclass(frozen=True, slots=True)
class Terms:
    """``lateness_ms``: how long after its first sample a frame may come; ``skew_ms``: how far receive times
    of one partition may go back; ``publish_ms``: how long an open window waits to be given out again.
    """

    lengths: Lengths
    lateness_ms: int
    skew_ms: int
    publish_ms: int


def terms_of(settings: Settings) -> Terms:
    """The terms in force."""
    jobs = settings.jobs
    return Terms(
        lengths_of(settings), jobs.lateness_s * 1000, jobs.receipt_skew_s * 1000, int(jobs.publish_s * 1000)
    )


class Memory(msgspec.Struct, array_like=True):
    """What a checkpoint keeps. Blocks by the start of their windows, ms; ``clocks_ms``: the newest receipt by
    partition; windows that end by ``closed_ms`` are closed; ``published_ms``: receive time of the last rows;
    ``changed``: starts of the blocks with windows that were not given out since they changed.
    """

    vehicles: dict[int, bytes] = {}
    places: dict[int, bytes] = {}
    seen: Seen = {}
    clocks_ms: dict[int, int] = {}
    closed_ms: int = 0
    published_ms: int = 0
    changed: set[int] = set()


@dataclass(slots=True)
class Found:
    """Rows of odograph.vehicle_window and .vehicle_latest, shares of places (places.SHARE), and the heads of
    frames whose windows were closed (columns of odograph.late_frame but the topic).

    ``open_from_ms``: places of windows that begin before it do not change any more; ``copies`` were dropped.
    """

    vehicle: list[pa.Table] = field(default_factory=list)
    latest: list[pa.Table] = field(default_factory=list)
    shares: list[pa.Table] = field(default_factory=list)
    missed: pa.Table | None = None
    open_from_ms: int = 0
    copies: int = 0


Kind = TypeVar("Kind")


class _Kept(Generic[Kind]):
    """Blocks by start; those that nobody touches stay bytes."""

    def __init__(
        self, packed: dict[int, bytes], load: Callable[[bytes], Kind], dump: Callable[[Kind], bytes]
    ) -> None:
        self._packed, self._load, self._dump = packed, load, dump
        self.opened: dict[int, Kind] = {}

    def get(self, start_ms: int) -> Kind | None:
        if start_ms not in self.opened and start_ms in self._packed:
            self.opened[start_ms] = self._load(self._packed.pop(start_ms))
        return self.opened.get(start_ms)

    def first_ms(self) -> int | None:
        return min((*self._packed, *self.opened), default=None)

    def drop_before(self, start_ms: int) -> None:
        for blocks in (self._packed, self.opened):
            for each in [start for start in blocks if start < start_ms]:
                del blocks[each]

    def packed(self) -> dict[int, bytes]:
        for start_ms, block in self.opened.items():
            self._packed[start_ms] = self._dump(block)
        self.opened = {}
        return self._packed


class OpenWindows:
    """Windows by vehicle, road cell and edge; ``memory`` is what an earlier one gave."""

    def __init__(self, terms: Terms, memory: Memory | None = None, watermark_ms: int = 0) -> None:
        self._terms = terms
        self._memory = Memory() if memory is None else memory
        if not self._memory.clocks_ms:  # what others have closed long ago is closed to whom nothing came yet
            self._memory.closed_ms = max(0, watermark_ms - SILENT_MS - terms.lateness_ms - terms.skew_ms)
        self._vehicles = _Kept(self._memory.vehicles, load_block, dump_block)
        self._places = _Kept(self._memory.places, load_places, dump_places)
        self._touched: dict[int, list[Ints]] = {}
        self.found = Found()

    def memory(self) -> Memory:
        """What is to be kept; this object is of no use afterwards."""
        self._memory.vehicles, self._memory.places = self._vehicles.packed(), self._places.packed()
        return self._memory

    def take(self, batch: FrameBatch, chosen: Flags) -> None:
        """Add the ``chosen`` frames of a batch, each identity once, in the order in which they stand."""
        lengths, memory = self._terms.lengths, self._memory
        at = np.flatnonzero(chosen)
        coded = batch.vehicles.dictionary_encode()
        vehicles, of_frame = coded.dictionary, coded.indices.to_numpy().astype(np.int64)
        boot_id, seq = batch.whole("boot_id"), batch.whole("seq")
        until_ms = batch.arrays.t0_ms[at] + self._terms.lateness_ms
        new = copies.unseen(memory.seen, vehicles.to_pylist(), of_frame[at], boot_id[at], seq[at], until_ms)
        self.found.copies += int(len(new) - new.sum())
        fresh = np.zeros(len(batch), np.bool_)
        fresh[at[new]] = True
        missed = np.zeros(len(batch), np.bool_)
        segments = cut(batch.arrays, lengths.window_s * 1000)
        closed = segments.start_ms + lengths.window_s * 1000 <= memory.closed_ms
        missed[segments.of_frame[closed]] = True
        told = np.flatnonzero(fresh[segments.of_frame] & ~closed)
        if len(told):
            parts = parts_of(segments).take(told)
            self._add_vehicles(vehicles, of_frame[segments.of_frame[told]], segments.start_ms[told], parts)
        road_ms = lengths.road_window_s * 1000
        for rows in road_rows(
            batch.arrays, road_ms, None if lengths.roads is None else lengths.roads.index()
        ):
            start_ms = rows.values["start_ms"]
            is_closed = start_ms + road_ms <= memory.closed_ms
            missed[rows.of_frame[is_closed]] = True
            wanted = fresh[rows.of_frame] & ~is_closed
            for start in np.unique(start_ms[wanted]).tolist():
                found = places_of(vehicles, of_frame, rows, wanted & (start_ms == start))
                places = self._places.get(start)
                if places is None:
                    places = self._places.opened[start] = Places(vehicles.slice(0, 0), found.rows[:, :0])
                places.add(found)
                memory.changed.add(start)
        self._note_missed(batch, np.flatnonzero(missed & fresh))

    def _add_vehicles(self, vehicles: pa.StringArray, of: Ints, start_ms: Ints, parts: Any) -> None:
        """Parts [n], each of a vehicle and a window."""
        order = np.lexsort((of, start_ms))
        of, start_ms = of[order], start_ms[order]
        changes = (np.diff(of, prepend=-1) != 0) | (np.diff(start_ms, prepend=-1) != 0)
        begins = np.flatnonzero(changes)
        parts, of, start_ms = parts.take(order).reduced(begins), of[begins], start_ms[begins]
        for start in np.unique(start_ms).tolist():
            here = start_ms == start
            names, block = vehicles.take(pa.array(of[here])), self._vehicles.get(start)
            if block is None:
                self._vehicles.opened[start] = block_of(names, parts.take(here))
                at = np.arange(len(names))
            else:
                at = block.add(names, parts.take(here))
            self._touched.setdefault(start, []).append(at)
            self._memory.changed.add(start)

    def _note_missed(self, batch: FrameBatch, at: Ints) -> None:
        if not len(at):
            return
        heads = {name: batch.whole(name) for name in ("boot_id", "seq", "t0_ms")}
        heads["span_ms"] = (batch.whole("n") - 1) * batch.whole("dt_ms")
        received_at = pa.array(batch.received_ms).cast(pa.timestamp("ms", tz="UTC"))
        table = pa.table(
            {"partition": batch.partition, "log_offset": batch.log_offset, "vehicle_id": batch.vehicles}
            | heads
            | {"received_at": received_at}
        ).take(pa.array(at))
        earlier = [] if self.found.missed is None else [self.found.missed]
        self.found.missed = pa.concat_tables([*earlier, table])

    def note_receipts(self, batch: FrameBatch) -> None:
        """Move the clocks of the partitions."""
        for partition in np.unique(batch.partition).tolist():
            newest = int(batch.received_ms[batch.partition == partition].max())
            self._memory.clocks_ms[partition] = max(self._memory.clocks_ms.get(partition, 0), newest)

    def latest(self) -> None:
        """Rows of vehicles' newest windows that were touched."""
        rows = []
        for start in sorted(self._touched, reverse=True):
            block = self._vehicles.get(start)
            assert block is not None
            at = np.unique(np.concatenate(self._touched[start]))
            rows.append(
                newest_rows(block.vehicles.take(pa.array(at)), start, block.parts.take(at).combined())
            )
        if rows:
            self.found.latest.append(latest_of(pa.concat_tables(rows)))

    def publish(self, watermark_ms: int, idle: bool = False) -> None:
        """Rows of all windows that changed, if it is time; ``idle``: nothing came, so nothing will soon.

        A batch without data comes once the watermark moves: where it will not, now is the time.
        """
        memory = self._memory
        clock_ms = max(memory.clocks_ms.values(), default=0)
        waits = memory.published_ms <= clock_ms < memory.published_ms + self._terms.publish_ms
        if memory.changed and (idle or not waits or clock_ms <= watermark_ms + self._terms.skew_ms + 1):
            self.give_out()
            memory.published_ms = clock_ms

    def give_out(self) -> None:
        """Rows of all windows that changed."""
        for start in sorted(self._memory.changed):
            block, places = self._vehicles.get(start), self._places.get(start)
            if block is not None and block.changed.any():
                at = np.flatnonzero(block.changed)
                names, parts = block.vehicles.take(pa.array(at)), block.parts.take(at).combined()
                self.found.vehicle.append(vehicle_rows(names, start, self._terms.lengths.window_s, parts))
                block.changed[:] = False
            if places is not None and places.changed:
                self.found.shares.append(places.shares(start))
                places.given_out()
        self._memory.changed.clear()

    def close(self, watermark_ms: int) -> None:
        """Let go the windows that no frame with the verdict ok can reach; to be called after ``publish``."""
        memory, lengths = self._memory, self._terms.lengths
        closed_ms = self._settled_ms(watermark_ms) - self._terms.lateness_ms - self._terms.skew_ms
        if closed_ms > memory.closed_ms:
            memory.closed_ms = closed_ms
            copies.forget(memory.seen, closed_ms + self._terms.lateness_ms)
            for kept, length_s in ((self._vehicles, lengths.window_s), (self._places, lengths.road_window_s)):
                first, open_ms = kept.first_ms(), closed_ms - length_s * 1000 + 1
                if first is not None and first < open_ms:
                    if memory.changed:
                        self.give_out()
                    kept.drop_before(open_ms)
        length_ms = lengths.road_window_s * 1000
        self.found.open_from_ms = (memory.closed_ms - length_ms) // length_ms * length_ms + length_ms

    def due_ms(self) -> int | None:
        """At which watermark there is something to do, if no record comes before."""
        if self._memory.changed:
            return 0
        lengths = self._terms.lengths
        ends = [
            first + length_s * 1000
            for first, length_s in (
                (self._vehicles.first_ms(), lengths.window_s),
                (self._places.first_ms(), lengths.road_window_s),
            )
            if first is not None
        ]
        if not ends:
            return None
        closes_ms = min(ends) + self._terms.lateness_ms + self._terms.skew_ms
        return max(closes_ms, min(self._memory.clocks_ms.values(), default=0) + SILENT_MS)

    def _settled_ms(self, watermark_ms: int) -> int:
        """Up to which receive time everything of these vehicles has come."""
        telling = [ms for ms in self._memory.clocks_ms.values() if ms > watermark_ms - SILENT_MS]
        return min(watermark_ms, *telling) if telling else watermark_ms


def archived_frames(records: pa.Table, limits: ClockLimits) -> Iterator[FrameBatch]:
    """Frames of archived records (columns ARCHIVED, in any order, copies among them), in their log's order.

    Of copies of a frame the first ok one comes first, if there is one. The verdict is the archived one, on
    which the stream acted.
    """
    late = pc.not_equal(records["verdict"], OK)
    keys = [("is_late", "ascending"), *((name, "ascending") for name in COORDINATES)]
    records = records.append_column("is_late", late).sort_by(keys).combine_chunks()
    for records_of in records.to_batches(max_chunksize=FRAMES_AT_ONCE):
        batch = frame_batch(records_of, limits)
        if batch is not None:
            yield batch


def archived_windows(records: pa.Table, terms: Terms, limits: ClockLimits) -> tuple[pa.Table, pa.Table]:
    """Rows of odograph.vehicle_window and shares of places (places.SHARE) out of archived records."""
    windows = OpenWindows(terms)
    for batch in archived_frames(records, limits):
        windows.take(batch, batch.believed)
    windows.give_out()
    shares = [SHARE.empty_table(), *windows.found.shares]
    return pa.concat_tables([NO_WINDOWS, *windows.found.vehicle]), pa.concat_tables(shares)
