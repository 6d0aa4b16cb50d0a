"""Windows as the stream keeps them: batch by batch, through a checkpoint, given out now and then, closed."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.settings.sections import Jobs
from load_tests.oracle import expect
from stream_jobs.frames.arrays import Frames
from stream_jobs.frames.batch import frame_batch
from stream_jobs.windows.open_windows import (
    SILENT_MS,
    Found,
    Memory,
    OpenWindows,
    Seen,
    forget,
    part_of,
    unseen,
)
from stream_jobs.windows.places import SHARE, place_rows, summed
from tests.support_frames import Record, frame, random_frame, vin
from tests.unit.stream_jobs.window_support import JOBS, LIMITS, T0, Row, keyed, received, recorded

_ENCODE, _DECODE = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(Memory).decode


class Bucket:
    """A bucket as the operator has it; its memory goes through a checkpoint between any two batches."""

    def __init__(self, jobs: Jobs = JOBS) -> None:
        self.jobs = jobs
        self.memory = _ENCODE(Memory())
        self.due_ms: int | None = None

    def batch(self, records: list[Record], watermark_ms: int = 0, partition: int = 0) -> Found:
        windows = OpenWindows(self.jobs, None, _DECODE(self.memory))
        frames = frames_of(records, partition)
        if frames is not None:
            windows.take(frames, frames.ok)
        windows.latest()
        windows.publish(watermark_ms, idle=not records)
        windows.close(watermark_ms)
        self.due_ms = windows.due_ms()
        self.memory = _ENCODE(windows.memory())
        return windows.found


def frames_of(records: list[Record], partition: int = 0) -> Frames | None:
    batch = recorded(records)
    at = batch.schema.get_field_index("partition")
    column = pa.array([partition] * len(records), pa.int32())
    return frame_batch(batch.set_column(at, "partition", column), LIMITS)


def stored(found: Iterable[Found]) -> dict[Any, Row]:
    """What the table of windows by vehicle ends up with."""
    return {
        key: row
        for each in found
        for table in each.vehicle
        for key, row in keyed(table, "vehicle_id").items()
    }


def places(found: Iterable[tuple[int, Found]]) -> dict[Any, Row]:
    """What the table of road cells ends up with: the newest share of each bucket, summed."""
    newest: dict[Any, Row] = {}
    for bucket, each in found:
        for share in (row for table in each.shares for row in table.to_pylist()):
            newest[bucket, share["start_ms"], share["place"], share["heading_sector"]] = share
    road, _ = place_rows(summed(pa.Table.from_pylist(list(newest.values()), SHARE)), 60)
    return keyed(road, "cell", "heading_sector")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_batches_of_any_size_over_any_buckets_end_in_the_oracles_windows(seed: int) -> None:
    rng = random.Random(seed)
    records = [received(random_frame(v, s, T0 + s * 950, rng)) for v in range(20, 27) for s in range(40)]
    records += [(at_ms + rng.randrange(20_000), value) for at_ms, value in rng.choices(records, k=40)]
    records.sort(key=lambda each: each[0])
    expected, told = expect(records), []
    buckets = [Bucket() for _ in range(rng.choice([1, 2, 3]))]
    copies, begin, watermark_ms = 0, 0, 0
    while begin < len(records):
        batch, begin = records[begin : (end := begin + rng.randrange(1, 60))], end
        for number, bucket in enumerate(buckets):
            mine = [r for r in batch if int(orjson.loads(r[1])["vehicle_id"][-6:]) % len(buckets) == number]
            found = bucket.batch(mine, watermark_ms)
            told.append((number, found))
            copies += found.copies
            assert found.missed == []
        watermark_ms = max(watermark_ms, *(at_ms - 1000 * JOBS.receipt_skew_s for at_ms, _ in batch))
    told += [(number, bucket.batch([], watermark_ms)) for number, bucket in enumerate(buckets)]
    assert stored(found for _, found in told) == expected.vehicle
    assert places(told) == expected.road
    assert copies == 40


def test_an_open_window_is_given_out_once_in_a_while_and_the_rest_once_nothing_comes() -> None:
    bucket, t0 = Bucket(), T0
    records = [received(frame(1, seq, t0 + seq * 500, n=5, speed_kmh=10.0), after_ms=600) for seq in range(9)]
    told = [bucket.batch([each], each[0] - 6_000) for each in records]
    frames = [[row["frames"] for table in each.vehicle for row in table.to_pylist()] for each in told]
    assert frames == [[1], [], [], [], [5], [], [], [], [9]]
    assert [len(each.latest) for each in told] == [1] * 9
    more = received(frame(1, 9, t0 + 4500, n=5, speed_kmh=10.0), after_ms=600)
    assert bucket.batch([more], more[0] - 6_000).vehicle == []
    assert bucket.due_ms == 0
    (last,) = bucket.batch([], more[0] - 5_000).vehicle
    assert last.to_pylist()[0]["frames"] == 10


def test_what_the_watermark_will_not_ask_for_again_is_given_out_at_once() -> None:
    bucket = Bucket()
    ahead = received(frame(1, 0, T0 + 60_000, speed_kmh=10.0))
    bucket.batch([ahead], T0)
    behind = received(frame(1, 1, T0 + 60_100, speed_kmh=10.0), after_ms=1_500)
    assert len(bucket.batch([behind], behind[0] - 1000 * JOBS.receipt_skew_s).vehicle) == 1


def test_a_closed_window_takes_nothing_more_and_says_what_it_missed() -> None:
    bucket = Bucket()
    bucket.batch([received(frame(1, 0, T0, speed_kmh=10.0))])
    (bucket.batch([received(frame(2, 0, T0 + 120_000, speed_kmh=10.0))], T0 + 110_000),)
    assert _DECODE(bucket.memory).vehicles.keys() == {T0 + 120_000}
    found = bucket.batch([received(frame(1, 7, T0 + 1_000, n=3, speed_kmh=10.0))], T0 + 110_000)
    (missed,) = (row for table in found.missed for row in table.to_pylist())
    assert (missed["vehicle_id"], missed["seq"], missed["t0_ms"], missed["span_ms"]) == (
        vin(1),
        7,
        T0 + 1_000,
        200,
    )
    assert found.vehicle == []
    assert found.open_from_ms == T0 + 60_000


def test_a_partition_that_lies_behind_holds_its_windows_open_unless_it_is_silent() -> None:
    for silent in (False, True):
        bucket = Bucket()
        bucket.batch([received(frame(1, 0, T0, speed_kmh=10.0))], partition=1)
        watermark_ms = T0 + (SILENT_MS + 10_000 if silent else 300_000)
        bucket.batch([received(frame(2, 0, watermark_ms, speed_kmh=10.0))], watermark_ms)
        assert (T0 in _DECODE(bucket.memory).vehicles) is not silent
        again = bucket.batch([received(frame(1, 1, T0 + 1_000, speed_kmh=10.0))], watermark_ms, partition=1)
        assert bool(again.missed) is silent


def test_the_newest_window_says_what_is_latest() -> None:
    told = frame(
        1, 0, T0 + 9_500, speed_kmh=[10.0] * 5 + [20.0] * 5, odometer_m=7, tyre_pressure_fl_kpa=220.0,
        tyre_temp_fl_c=20.0, tyre_pressure_fr_kpa=210.0, tyre_temp_fr_c=20.0,
    )  # fmt: skip
    (latest,) = Bucket().batch([received(told), received(frame(2, 0, T0, speed_kmh=1.0))]).latest
    rows = {row["vehicle_id"]: row for row in latest.to_pylist()}
    assert (rows[vin(1)]["speed_kmh"], rows[vin(1)]["odometer_m"]) == (20.0, 7)
    assert rows[vin(1)]["event_time"].timestamp() * 1000 == T0 + 10_400
    assert rows[vin(1)]["tyre_min_kpa20"] == 210.0
    assert (rows[vin(2)]["speed_kmh"], rows[vin(2)]["tyre_min_kpa20"]) == (1.0, None)


def test_a_part_of_a_window_is_the_same_whatever_else_is_in_the_batch() -> None:
    rng = random.Random(7)
    alone = [received(random_frame(1, s, T0 + s * 950, rng)) for s in range(5)]
    beside = [received(random_frame(v, s, T0 + s * 950, rng)) for v in (2, 3) for s in range(5)]
    jobs = JOBS.model_copy(update={"publish_s": 0})
    one = stored([Bucket(jobs).batch(alone)])
    all_of = stored([Bucket(jobs).batch(alone + beside)])
    assert one == {key: row for key, row in all_of.items() if key[0] == vin(1)}


Told = tuple[int, int, int]


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(0, 12)), max_size=12), max_size=6
    )
)
def test_a_frame_is_new_once(batches: list[list[Told]]) -> None:
    seen: Seen = {}
    known: set[Told] = set()
    for batch in batches:
        columns = [np.array(column, np.int64) for column in zip(*batch, strict=True)] if batch else []
        of, boot, seq = columns or [np.zeros(0, np.int64)] * 3
        fresh = unseen(seen, ["a", "b"], of, boot, seq, np.zeros(len(seq), np.int64)).tolist()
        expected = []
        for each in batch:
            expected.append(each not in known)
            known.add(each)
        assert fresh == expected
    held = {
        (v, i.boot_id, n)
        for v, name in enumerate("ab")
        for i in seen.get(name, [])
        for n in range(i.first, i.last + 1)
    }
    assert held == known
    forget(seen, 1)
    assert seen == {}


@pytest.mark.parametrize("cut", [0, 130, 300])
def test_a_memory_that_is_split_by_vehicle_goes_on_as_the_whole(cut: int) -> None:
    """What the whole gave out before stays; the shares of the parts take the place of the whole's."""
    rng = random.Random(cut)
    records = sorted(
        (T0 + s * 1000 + v + rng.randrange(20_000), orjson.dumps(random_frame(v, s, T0 + s * 1000 + v, rng)))
        for s in range(70)
        for v in range(1, 7)
    )
    of = [{vin(v) for v in range(1, 7) if v % 3 == part} for part in range(3)]

    def end(buckets: list[tuple[Bucket, set[str]]], given_out: list[Found]) -> tuple[Any, Any]:
        found = []
        for number, (bucket, vehicles) in enumerate(buckets):
            own = [r for r in records[cut:] if orjson.loads(r[1])["vehicle_id"] in vehicles]
            found += [(number, bucket.batch(own[k : k + 90])) for k in range(0, max(1, len(own)), 90)]
            found.append((number, bucket.batch([])))
        return stored([*given_out, *(each for _, each in found)]), places(found)

    whole = Bucket()
    before = [whole.batch(records[k : k + 100]) for k in range(0, cut, 100)]
    parts = []
    for chosen in of:
        part = Bucket()
        part.memory = _ENCODE(part_of(_DECODE(whole.memory), chosen.__contains__))
        parts.append((part, chosen))
    expected = expect(records)
    assert end(parts, before) == (expected.vehicle, expected.road)
