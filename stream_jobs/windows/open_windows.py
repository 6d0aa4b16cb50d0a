"""The open windows of a group of vehicles: frames in, rows of windows out; pure.

The stream keeps them between batches and closes a window when no frame of it can come with the verdict ok any
more. Whatever makes windows anew feeds the same class with archived records, and closes nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from infra.contract.verdict import OK, ClockLimits
from infra.settings.sections import Jobs
from stream_jobs.app.schema import COORDINATES
from stream_jobs.frames import state
from stream_jobs.frames.arrays import Flags, Frames, Ints, run_begins
from stream_jobs.frames.batch import RECORD, frame_batch
from stream_jobs.roads.network import RoadLookup
from stream_jobs.windows.block import Block, Parts, cut, enrolled, parts_of
from stream_jobs.windows.places import Places, road_rows
from stream_jobs.windows.vehicle import MEASURES, OF_LATEST, Measure, latest_of, vehicle_rows


class Interval(msgspec.Struct, array_like=True):
    """Numbers of one boot, both ends included; after ``until_ms`` nobody asks for them again."""

    boot_id: int
    first: int
    last: int
    until_ms: int


Seen = dict[str, list[Interval]]  # by vehicle, in order; nearly always one interval, which grows


def unseen(seen: Seen, vehicles: Sequence[str], of: Ints, boot_id: Ints, seq: Ints, until_ms: Ints) -> Flags:
    """Which frames are seen for the first time; ``seen`` knows them from now on.

    Arrays of shape [n_frames]; ``of``: the place of each frame's vehicle among ``vehicles``. Of copies in one
    call the first counts. The common case, numbers that follow on each other, costs one step a vehicle.
    """
    fresh = np.ones(len(seq), np.bool_)
    if not len(seq):
        return fresh
    order = np.lexsort((seq, boot_id, of))  # stable: of copies the first stays first
    at = np.column_stack([of[order], boot_id[order], seq[order]])
    same = np.all(at[1:, :2] == at[:-1, :2], axis=1)
    again = same & (at[1:, 2] == at[:-1, 2])
    fresh[order[1:][again]] = False
    begins = np.flatnonzero(np.concatenate([[True], ~(same & (at[1:, 2] - at[:-1, 2] <= 1))]))
    ends = np.append(begins[1:], len(order))
    until = np.maximum.reduceat(until_ms[order], begins)
    bounds = (at[begins], at[ends - 1, 2], until, begins, ends)
    for (vehicle, boot, low), high, last_ms, begin, end in zip(*(x.tolist() for x in bounds), strict=True):
        known = seen.setdefault(vehicles[vehicle], [])
        newest = known[-1] if known else None
        if newest is not None and newest.boot_id == boot and low == newest.last + 1:
            newest.last, newest.until_ms = high, max(newest.until_ms, last_ms)
            continue
        overlapping = [i for i in known if i.boot_id == boot and i.first <= high + 1 and low <= i.last + 1]
        for each in overlapping:
            taken = (at[begin:end, 2] >= each.first) & (at[begin:end, 2] <= each.last)
            fresh[order[begin:end][taken]] = False
            low, high = min(low, each.first), max(high, each.last)  # noqa: PLW2901  they become one
            last_ms = max(last_ms, each.until_ms)  # noqa: PLW2901
        known[:] = [each for each in known if each not in overlapping]
        known.append(Interval(boot, low, high, last_ms))
        known.sort(key=lambda each: (each.boot_id, each.first))
    return fresh


def forget(seen: Seen, clock_ms: int) -> None:
    """Let go what nobody asks for any more."""
    for vehicle, known in [*seen.items()]:
        known[:] = [each for each in known if each.until_ms >= clock_ms]
        if not known:
            del seen[vehicle]


ARCHIVED: Final = (*RECORD, "topic", "verdict")  # columns of archived records that windows are made of
FRAMES_AT_ONCE: Final = 5_000  # so many records are parsed at a time: their arrays take 30 MB
ROWS_AT_ONCE: Final = 20_000  # so many rows are made at a time: arithmetic on few costs as much
SILENT_MS: Final = 600_000  # a partition that gave nothing for so long holds no window open


class Blocks(dict[int, bytes]):
    """Blocks by start, ms. A store has those of ``starts``, which are empty here until they are set:
    ``fetch`` gets one when it is asked for by its start.
    """

    def __init__(self, starts: Iterable[int], fetch: Callable[[int], bytes]) -> None:
        super().__init__(dict.fromkeys(starts, b""))
        self._fetch = fetch

    def __getitem__(self, start_ms: int) -> bytes:
        return super().__getitem__(start_ms) or self._fetch(start_ms)


class Memory(msgspec.Struct, array_like=True):
    """What a checkpoint keeps. Blocks by the start of their windows, ms; ``clocks_ms``: the newest receipt by
    partition; windows that end by ``closed_ms`` are closed; ``published_ms``: receive time of the last rows;
    ``changed``, ``changed_places``: starts of blocks with windows that were not given out since they changed.
    """

    vehicles: dict[int, bytes] = {}
    places: dict[int, bytes] = {}
    seen: Seen = {}
    clocks_ms: dict[int, int] = {}
    closed_ms: int = 0
    published_ms: int = 0
    changed: set[int] = set()
    changed_places: set[int] = set()


def part_of(memory: Memory, chosen: Callable[[str], bool]) -> Memory:
    """What ``memory`` holds of the ``chosen`` vehicles; shares of places are all to be given out again."""

    def packed(kind: type[Kind], blocks: Mapping[int, bytes]) -> dict[int, bytes]:
        parts = {start: state.load(blocks[start], kind).part(chosen) for start in blocks}
        return {start: state.dump(part) for start, part in parts.items() if len(part.vehicles)}

    vehicles, places = packed(Block, memory.vehicles), packed(Places, memory.places)
    return Memory(
        vehicles, places, {name: seen for name, seen in memory.seen.items() if chosen(name)},
        dict(memory.clocks_ms), memory.closed_ms, memory.published_ms,
        memory.changed & vehicles.keys(), {*places},
    )  # fmt: skip


@dataclass(slots=True)
class Found:
    """Rows of odograph.vehicle_window and .vehicle_latest, shares of places (places.SHARE), and the heads of
    frames whose windows were closed (columns of odograph.late_frame but the topic).

    ``open_from_ms``: places of windows that begin before it do not change any more; ``copies`` were dropped.
    """

    vehicle: list[pa.Table] = field(default_factory=list)
    latest: list[pa.Table] = field(default_factory=list)
    shares: list[pa.Table] = field(default_factory=list)
    missed: list[pa.Table] = field(default_factory=list)
    open_from_ms: int = 0
    copies: int = 0


Kind = TypeVar("Kind", Block, Places)


class _Kept(Generic[Kind]):
    """Blocks by start, of windows of ``length_ms``; those that nobody touches stay bytes."""

    def __init__(self, packed: dict[int, bytes], kind: type[Kind], length_s: int) -> None:
        self._packed = packed
        self._kind: type[Kind] = kind
        self.length_ms = length_s * 1000
        self.opened: dict[int, Kind] = {}

    def get(self, start_ms: int) -> Kind | None:
        if start_ms not in self.opened and start_ms in self._packed:
            self.opened[start_ms] = state.load(self._packed[start_ms], self._kind)
        return self.opened.get(start_ms)

    def first_ms(self) -> int | None:
        return min((*self._packed, *self.opened), default=None)

    def drop_before(self, start_ms: int) -> None:
        for blocks in (self._packed, self.opened):
            for each in [start for start in blocks if start < start_ms]:
                del blocks[each]

    def pack(self) -> None:
        for start_ms in [*self.opened]:
            self._packed[start_ms] = state.dump(self.opened.pop(start_ms))


class OpenWindows:
    """Windows by vehicle, road cell and edge; ``memory`` is what an earlier one gave.

    ``roads``: where the network in use is found, None: no windows by edge. The settings say how long windows
    are, how long after its first sample a frame may come, how far receive times of one partition may go back,
    and how long an open window waits to be given out again.
    """

    def __init__(
        self, jobs: Jobs, roads: RoadLookup | None, memory: Memory | None = None, watermark_ms: int = 0
    ) -> None:
        self._window_s, self._roads = jobs.window_s, roads
        self._lateness_ms, self._skew_ms = 1000 * jobs.lateness_s, 1000 * jobs.receipt_skew_s
        self._publish_ms = int(1000 * jobs.publish_s)
        self._memory = Memory() if memory is None else memory
        if not self._memory.clocks_ms:  # what others have closed long ago is closed to whom nothing came yet
            self._memory.closed_ms = max(0, watermark_ms - SILENT_MS - self._lateness_ms - self._skew_ms)
        self._vehicles = _Kept(self._memory.vehicles, Block, jobs.window_s)
        self._places = _Kept(self._memory.places, Places, jobs.road_window_s)
        self._touched: dict[int, list[Ints]] = {}
        self.found = Found()

    def memory(self) -> Memory:
        """What is to be kept; this object is of no use afterwards."""
        self._vehicles.pack()
        self._places.pack()
        return self._memory

    def take(self, batch: Frames, chosen: Flags) -> None:
        """Add the ``chosen`` frames of a batch, each identity once, in the order in which they stand."""
        memory, at = self._memory, np.flatnonzero(chosen)
        for partition in np.unique(batch.partition).tolist():
            newest = int(batch.received_ms[batch.partition == partition].max())
            memory.clocks_ms[partition] = max(memory.clocks_ms.get(partition, 0), newest)
        coded = batch.vehicles.dictionary_encode()
        vehicles, of_frame = coded.dictionary, coded.indices.to_numpy().astype(np.int64)
        until_ms = batch.t0_ms[at] + self._lateness_ms
        new = unseen(
            memory.seen, vehicles.to_pylist(), of_frame[at], batch.boot_id[at], batch.seq[at], until_ms
        )
        self.found.copies += int(len(new) - new.sum())
        fresh = np.zeros(len(batch), np.bool_)
        fresh[at[new]] = True
        length_ms = self._vehicles.length_ms
        segments, start_ms = cut(batch, length_ms)
        frame, closed = batch.of_sample[segments], start_ms + length_ms <= memory.closed_ms
        told = np.flatnonzero(fresh[frame] & ~closed)
        if len(told):
            of = of_frame[frame]
            told = told[np.lexsort((of[told], start_ms[told]))]
            of, start_ms = of[told], start_ms[told]
            begins = run_begins(of, start_ms)
            parts = parts_of(batch, segments, length_ms).take(told).reduced(begins)
            of, start_ms = of[begins], start_ms[begins]
            for start in np.unique(start_ms).tolist():
                low, high = np.searchsorted(start_ms, (start, start + 1)).tolist()
                names, more = vehicles.take(pa.array(of[low:high])), parts.take(slice(low, high))
                block = self._vehicles.get(start)
                if block is None:
                    self._vehicles.opened[start] = Block(names, more, np.ones(high - low, np.bool_))
                touched = np.arange(high - low) if block is None else block.add(names, more)
                self._touched.setdefault(start, []).append(touched)
                memory.changed.add(start)
        self._add_places(batch, vehicles, of_frame, fresh)
        missed = np.unique(frame[fresh[frame] & closed])  # those of closed places are among them
        if len(missed):
            self._note_missed(batch, missed)

    def _add_places(self, batch: Frames, vehicles: pa.StringArray, of_frame: Ints, fresh: Flags) -> None:
        """Add ``fresh`` frames to the windows of places, which a number of vehicles' windows make up."""
        length_ms, roads = self._places.length_ms, self._roads
        for rows in road_rows(batch, length_ms, None if roads is None else roads.index()):
            row_ms = rows["start_ms"]
            wanted = fresh[rows["of_frame"]] & (row_ms + length_ms > self._memory.closed_ms)
            for start in np.unique(row_ms[wanted]).tolist():
                places = self._places.get(start)
                if places is None:
                    places = self._places.opened[start] = Places()
                places.add(vehicles, of_frame, rows, wanted & (row_ms == start))
                self._memory.changed_places.add(start)

    def _note_missed(self, batch: Frames, at: Ints) -> None:
        columns = {
            "partition": batch.partition, "log_offset": batch.log_offset, "vehicle_id": batch.vehicles,
            "boot_id": batch.boot_id, "seq": batch.seq, "t0_ms": batch.t0_ms,
            "span_ms": (batch.n - 1) * batch.dt_ms,
            "received_at": pa.array(batch.received_ms).cast(pa.timestamp("ms", tz="UTC")),
        }  # fmt: skip
        self.found.missed.append(pa.table(columns).take(pa.array(at)))

    def latest(self) -> None:
        """Rows of vehicles' newest windows that were touched."""
        known, chosen = pa.array([], pa.string()), list[tuple[int, Ints]]()
        for start in sorted(self._touched, reverse=True):
            at, before = np.unique(np.concatenate(self._touched[start])), len(known)
            known, place = enrolled(known, self._vehicles.opened[start].vehicles.take(pa.array(at)))
            chosen.append((start, at[place >= before]))
        if chosen:
            self.found.latest.append(latest_of(self._rows(chosen, OF_LATEST)))

    def _rows(self, chosen: Sequence[tuple[int, Ints]], measures: tuple[Measure, ...] = MEASURES) -> pa.Table:
        """Rows of open windows: starts, ms, and places in the block of each."""
        blocks = [(self._vehicles.opened[start], at) for start, at in chosen]
        vehicles = pa.concat_arrays([block.vehicles.take(pa.array(at)) for block, at in blocks])
        start_ms = np.repeat([start for start, _ in chosen], [len(at) for _, at in chosen])
        parts = Parts.joined([block.parts.take(at) for block, at in blocks])
        return vehicle_rows(vehicles, start_ms, self._window_s, parts.__getitem__, measures)

    def publish(self, watermark_ms: int, idle: bool = False) -> None:
        """Rows of all windows that changed, if it is time; ``idle``: nothing came, so nothing will soon.

        A batch without data comes once the watermark moves: where it will not, now is the time.
        """
        memory = self._memory
        clock_ms = max(memory.clocks_ms.values(), default=0)
        waits = memory.published_ms <= clock_ms < memory.published_ms + self._publish_ms
        if self._unpublished() and (idle or not waits or clock_ms <= watermark_ms + self._skew_ms + 1):
            self.give_out()
            memory.published_ms = clock_ms

    def _unpublished(self) -> bool:
        return bool(self._memory.changed or self._memory.changed_places)

    def give_out(self) -> None:
        chosen, count = list[tuple[int, Ints]](), 0
        for start in sorted(self._memory.changed):
            block = self._vehicles.get(start)
            if block is not None and block.changed.any():
                chosen.append((start, np.flatnonzero(block.changed)))
                count += len(chosen[-1][1])
                block.changed[:] = False
            if count >= ROWS_AT_ONCE:
                self.found.vehicle.append(self._rows(chosen))
                chosen, count = [], 0
        if chosen:
            self.found.vehicle.append(self._rows(chosen))
        for start in sorted(self._memory.changed_places):
            places = self._places.get(start)
            shares = None if places is None else places.given_out(start)
            if shares is not None:
                self.found.shares.append(shares)
        self._memory.changed.clear()
        self._memory.changed_places.clear()

    def close(self, watermark_ms: int) -> None:
        """Let go the windows that no frame with the verdict ok can reach; to be called after ``publish``."""
        memory = self._memory
        telling = [ms for ms in memory.clocks_ms.values() if ms > watermark_ms - SILENT_MS]
        settled_ms = min(watermark_ms, *telling) if telling else watermark_ms
        closed_ms = settled_ms - self._lateness_ms - self._skew_ms  # all received up to then has come
        if closed_ms > memory.closed_ms:
            memory.closed_ms = closed_ms
            forget(memory.seen, closed_ms + self._lateness_ms)
            for kept in (self._vehicles, self._places):
                first, open_ms = kept.first_ms(), closed_ms - kept.length_ms + 1
                if first is not None and first < open_ms:
                    if self._unpublished():
                        self.give_out()
                    kept.drop_before(open_ms)
        length_ms = self._places.length_ms
        self.found.open_from_ms = (memory.closed_ms - length_ms) // length_ms * length_ms + length_ms

    def due_ms(self) -> int | None:
        """At which watermark there is something to do, if no record comes before."""
        if self._unpublished():
            return 0
        firsts = [(kept.first_ms(), kept.length_ms) for kept in (self._vehicles, self._places)]
        ends = [first + length_ms for first, length_ms in firsts if first is not None]
        if not ends:
            return None
        closes_ms = min(ends) + self._lateness_ms + self._skew_ms
        return max(closes_ms, min(self._memory.clocks_ms.values(), default=0) + SILENT_MS)


def archived_frames(records: pa.Table, limits: ClockLimits) -> Iterator[Frames]:
    """Frames of archived records (columns ARCHIVED, in any order, copies among them), in their log's order.

    Of copies of a frame the first ok one comes first, if any. The verdict is the one the stream acted on.
    """
    keys = records.select(COORDINATES).append_column("is_late", pc.not_equal(records["verdict"], OK))
    order = pc.sort_indices(keys, [(name, "ascending") for name in ("is_late", *COORDINATES)])
    records = records.combine_chunks()  # payloads are most of it: copied once, then in parts
    for start in range(0, records.num_rows, FRAMES_AT_ONCE):
        (some,) = records.take(order.slice(start, FRAMES_AT_ONCE)).to_batches()
        batch = frame_batch(some, limits)
        if batch is not None:
            yield batch
