"""Records of a vehicle become nobody's: in their places, in packed files too, and found as such by verify."""

from __future__ import annotations

from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from infra.contract.errors import ArchiveError
from infra.contract.verdict import ERASED
from stream_jobs.archive import reader, upkeep
from stream_jobs.archive.manifest import HOUR_MS, PACKING, described
from stream_jobs.archive.verify import verified
from stream_jobs.archive.writer import indexed, place
from tests.support_frames import frame, vin
from tests.unit.stream_jobs.window_support import LIMITS, T0, recorded

GONE, STAYS, NAME = vin(1), vin(2), "ERASEDO0123456789"
PACK = 1 << 30


def batch_file(folder: Path, number: int, vehicles: tuple[int, ...]) -> None:
    """A file of a frame of each of the vehicles, as the archive's query places it."""
    raws = [orjson.dumps(frame(v, number, T0 + 1000 * number)) for v in vehicles]
    batch = recorded([(T0 + 1000 * number + 1500, raw) for raw in raws])
    offsets = pa.array(range(2 * number, 2 * number + len(raws)), pa.int64())
    table = indexed(batch.set_column(2, "log_offset", offsets), LIMITS)
    staged = folder / ".staging" / f"abcdef01-{number:09d}-000.parquet"
    staged.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, staged)
    assert place(
        folder, T0 // HOUR_MS * HOUR_MS, staged, described(staged, staged.name, {"telemetry": "log"})
    )


def read(folder: Path) -> pa.Table:
    return pa.concat_tables(pq.read_table(path, partitioning=None) for path in reader.paths(folder))


def erase(folder: Path, name: str = NAME, vehicle: str = GONE) -> int:
    (hour,) = reader.hours(folder)
    count = upkeep.erase(folder, hour, PACK, vehicle, name)
    upkeep.settle(folder, hour, 0, 1 << 60)
    return count


def test_records_keep_their_places_and_lose_what_they_said(tmp_path: Path) -> None:
    for number in range(3):
        batch_file(tmp_path, number, (1, 2))
    batch_file(tmp_path, 3, (2,))
    before = read(tmp_path)
    assert upkeep.partitions_of(tmp_path, GONE) == {"telemetry": {0}}
    assert erase(tmp_path) == 3
    after = read(tmp_path)
    same = ["topic", "partition", "log_offset", "received_ms", "boot_id", "seq", "t0_ms"]
    assert after.select(same).sort_by("log_offset").equals(before.select(same).sort_by("log_offset"))
    told = {(row["vehicle_id"], row["key"], row["value"], row["verdict"]) for row in after.to_pylist()
            if row["vehicle_id"] != STAYS}  # fmt: skip
    assert told == {(NAME, NAME.encode(), None, ERASED)}
    others = [table.filter(pa.compute.equal(table["vehicle_id"], STAYS)) for table in (before, after)]
    assert others[0].sort_by("log_offset").equals(others[1].sort_by("log_offset"))
    assert verified(tmp_path, None, quick=False).whole
    assert not [path for path in tmp_path.rglob("*.parquet") if GONE.encode() in path.read_bytes()]


def test_a_second_vehicle_leaves_the_same_file_and_a_third_time_there_is_nothing(tmp_path: Path) -> None:
    for number in range(2):
        batch_file(tmp_path, number, (1, 2))
    other = "ERASEDOFFFFFFFFFF"
    assert [erase(tmp_path), erase(tmp_path, other, STAYS), erase(tmp_path)] == [2, 2, 0]
    assert sorted(set(read(tmp_path)["vehicle_id"].to_pylist())) == sorted([NAME, other])
    assert verified(tmp_path, None, quick=False).whole
    assert len(reader.paths(tmp_path)) == 1


def test_an_hour_that_cannot_be_rewritten_is_as_it_was_and_named(tmp_path: Path) -> None:
    batch_file(tmp_path, 0, (1, 2))
    (tmp_path / PACKING).write_bytes(b"")  # where it works, nothing can be made
    with pytest.raises(ArchiveError, match=r"hour=\d\d of .* cannot be rewritten: .* as it was"):
        erase(tmp_path)
    assert set(read(tmp_path)["vehicle_id"].to_pylist()) == {GONE, STAYS}


def test_a_batch_that_runs_again_does_not_bring_it_back(tmp_path: Path) -> None:
    for number in range(2):
        batch_file(tmp_path, number, (1, 2))
    erase(tmp_path)
    (hour,) = reader.hours(tmp_path)
    raw = orjson.dumps(frame(1, 0, T0))
    staged = tmp_path / ".staging" / "abcdef01-000000000-000.parquet"
    pq.write_table(indexed(recorded([(T0 + 1500, raw)]), LIMITS), staged)
    assert not place(tmp_path, hour, staged, described(staged, staged.name))
    assert GONE not in read(tmp_path)["vehicle_id"].to_pylist()
