"""Which records a replay takes, in which slices and in which order."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from infra.contract.errors import ArchiveError, ConfigError
from infra.contract.verdict import ClockLimits
from infra.settings.values import day_ms
from stream_jobs.archive.manifest import append, described
from stream_jobs.replay.records import (
    Bounds,
    Span,
    Stored,
    offsets,
    over,
    received,
    slices,
    speed_of,
    vehicles,
)

HOUR_MS = 3_600_000
DAY = Span(*day_ms("2026-11-20", "--day", "UTC"))
LIMITS = ClockLimits(0, 10_000, 30_000)
LATE_UNTIL_MS = DAY.until_ms + 20 * HOUR_MS


LIVE = "odograph.telemetry"


def write(
    folder: Path, name: str, rows: list[tuple[int, int, int, str, str, int]], topic: str = LIVE
) -> None:
    """Rows of partition, offset, received_ms, vehicle, verdict, t0_ms; the value is the offset's text."""
    hour = rows[0][2] // HOUR_MS * HOUR_MS
    at = Span(hour, hour + 1).since
    columns = list(zip(*rows, strict=True))
    table = pa.table(
        {
            "topic": [topic] * len(rows),
            "partition": pa.array(columns[0], pa.int32()),
            "log_offset": pa.array(columns[1], pa.int64()),
            "key": pa.array([v.encode() for v in columns[3]], pa.binary()),
            "received_ms": pa.array(columns[2], pa.int64()),
            "value": pa.array([str(o).encode() for o in columns[1]], pa.binary()),
            "vehicle_id": pa.array(columns[3]),
            "verdict": pa.array(columns[4]),
            "t0_ms": pa.array(columns[5], pa.int64()),
            "span_ms": pa.array([900] * len(rows), pa.int64()),
        }
    )
    path = folder / "telemetry" / f"date={at:%Y-%m-%d}" / f"hour={at:%H}" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)


def stored(folder: Path, wanted: tuple[str, ...] = ()) -> Stored:
    within = received(DAY, LIMITS, 0)
    return Stored(folder, within, DAY, LATE_UNTIL_MS, wanted, 4)


def replayed(records: Stored, bounds: Bounds) -> list[list[int]]:
    return [[int(v) for v in records.read(p)["value"].to_pylist()] for p in records.plan(bounds)]


def test_a_day_takes_what_can_reach_its_windows_and_its_late_frames_of_any_time_after(tmp_path: Path) -> None:
    since, until = DAY.since_ms, DAY.until_ms
    write(tmp_path, "a.parquet", [(0, 1, since - 10_001, "A", "ok", since - 12_000),
                                  (0, 2, since - 10_000, "A", "ok", since - 500)])  # fmt: skip
    write(tmp_path, "b.parquet", [(0, 3, since + 50, "A", "ok", since), (1, 4, since + 40, "B", "ok", since)])
    write(tmp_path, "c.parquet", [(0, 5, until + 30_000, "A", "ok", until - 1),
                                  (0, 6, until + 30_001, "A", "ok", until)])  # fmt: skip
    write(tmp_path, "d.parquet", [(0, 7, until + 7 * HOUR_MS, "A", "late", until - 1),
                                  (0, 8, until + 7 * HOUR_MS, "A", "late", until),
                                  (0, 10, LATE_UNTIL_MS, "A", "late", until - 1),
                                  (0, 9, until + 7 * HOUR_MS, "A", "ok", until + 7 * HOUR_MS)])  # fmt: skip
    everything = Bounds(1000, 1 << 60)
    assert replayed(stored(tmp_path), everything) == [[2, 4, 3, 5], [7]]
    assert replayed(stored(tmp_path, ("B",)), everything) == [[4]]


def test_a_vehicles_records_go_where_its_key_belongs_however_many_partitions_they_come_from(
    tmp_path: Path,
) -> None:
    keys = {"1HGCM82633A000000": 1, "1HGCM82633A000002": 2, "1HGCM82633A000003": 0}  # of 4, by Java's client
    since = DAY.since_ms
    rows = [(n % 7, n, since + n, vehicle, "ok", since) for n in range(14) for vehicle in keys]
    write(tmp_path, "a.parquet", rows)
    (part,) = stored(tmp_path).plan(Bounds(1000, 1 << 60))
    assert part.by_partition == (14, 14, 14, 0)
    read = stored(tmp_path).read(part)
    found = {
        (key.decode(), p) for key, p in zip(*(read[c].to_pylist() for c in ("key", "partition")), strict=True)
    }
    assert found == set(keys.items())
    ours = [n for n, key in zip(*(read[c].to_pylist() for c in ("log_offset", "key")), strict=True)
            if key == b"1HGCM82633A000000"]  # fmt: skip
    assert ours == [*range(14)]


def test_slices_are_bounded_in_records_and_in_time_and_never_cut_a_tick(tmp_path: Path) -> None:
    counts = [(10, 0, 3), (10, 1, 2), (11, 0, 4), (12, 1, 1), (500, 0, 1)]
    found = slices(counts, Bounds(records=9, span_ms=60_000), 2, late=False)
    assert [(s.received.since_ms, s.received.until_ms, s.by_partition) for s in found] == [
        (50_000, 60_000, (7, 2)),
        (60_000, 65_000, (0, 1)),
        (2_500_000, 2_505_000, (1, 0)),
    ]
    whole = slices(counts, Bounds(records=1, span_ms=1), 2, late=False)
    assert [s.records for s in whole] == [5, 4, 1, 1]


def test_a_partition_keeps_the_order_of_its_log_even_where_the_clock_of_receipt_stepped_back(
    tmp_path: Path,
) -> None:
    since = DAY.since_ms
    came = ((1, 7, 100), (0, 2, 90), (0, 1, 120), (1, 8, 95), (0, 3, 130))
    write(tmp_path, "a.parquet", [(p, offset, since + at, "A", "ok", since) for p, offset, at in came])
    assert replayed(stored(tmp_path), Bounds(50, 1 << 60)) == [[7, 8, 1, 2, 3]]


def test_files_in_other_pieces_give_the_same_slices(tmp_path: Path) -> None:
    rows = [(i % 3, i, DAY.since_ms + i * 700, "A", "ok", DAY.since_ms) for i in range(200)]
    write(tmp_path / "one", "a.parquet", rows)
    for n, begin in enumerate(range(0, 200, 17)):
        write(tmp_path / "many", f"{n}.parquet", rows[begin : begin + 17][::-1])
    bounds = Bounds(50, 1 << 60)
    assert replayed(stored(tmp_path / "one"), bounds) == replayed(stored(tmp_path / "many"), bounds)


def test_two_logs_lie_side_by_side_the_same_whichever_file_is_read_first(tmp_path: Path) -> None:
    since = DAY.since_ms
    live, day = ([(0, first + n, since + n // 2, "A", "ok", since) for n in range(4)] for first in (0, 10))
    for folder, names in (("one", ("a", "b")), ("other", ("b", "a"))):
        write(tmp_path / folder, f"{names[0]}.parquet", live)
        write(tmp_path / folder, f"{names[1]}.parquet", day, "a day")
    one = replayed(stored(tmp_path / "one"), Bounds(50, 1 << 60))
    assert one == [[10, 11, 0, 1, 12, 13, 2, 3]]
    assert replayed(stored(tmp_path / "other"), Bounds(50, 1 << 60)) == one


def test_a_log_made_anew_lies_beside_the_one_before_it_as_it_was_received(tmp_path: Path) -> None:
    since = DAY.since_ms
    for name, log, begin_ms in (("a", "one", since), ("b", "two", since + 50)):
        write(tmp_path, f"{name}.parquet", [(0, n, begin_ms + n, "A", "ok", since) for n in range(3)])
        (path,) = tmp_path.rglob(f"{name}.parquet")
        line = {"op": "add", "at_ms": 0, "file": described(path, path.name, {LIVE: log})}
        append(tmp_path, since, line)
    (part,) = stored(tmp_path).plan(Bounds(50, 1 << 60))
    assert stored(tmp_path).read(part)["received_ms"].to_pylist() == [
        since, since + 1, since + 2, since + 50, since + 51, since + 52
    ]  # fmt: skip


def test_a_truncated_file_is_named_before_anything_is_read(tmp_path: Path) -> None:
    write(tmp_path, "a.parquet", [(0, 1, DAY.since_ms, "A", "ok", DAY.since_ms)])
    (path,) = tmp_path.rglob("*.parquet")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ArchiveError, match=rf"'{path}'.*archive verify"):
        stored(tmp_path).plan(Bounds(10, 1000))


def test_days_are_cut_in_the_zone_of_the_installation() -> None:
    summer = Span(*day_ms("2026-10-25", "--day", "Europe/Berlin"))  # 25 hours long
    assert (summer.since.isoformat(), summer.until.isoformat()) == (
        "2026-10-24T22:00:00+00:00", "2026-10-25T23:00:00+00:00"
    )  # fmt: skip
    with pytest.raises(ConfigError, match=r"--day '20\.11\.2026'"):
        day_ms("20.11.2026", "--day", "UTC")
    with pytest.raises(ConfigError, match="--day '9999-12-31'"):
        day_ms("9999-12-31", "--day", "UTC")


def test_of_today_only_what_is_over_is_replayed() -> None:
    assert over(DAY, DAY.until_ms + 90_000, LIMITS) == DAY
    assert over(DAY, DAY.since_ms + HOUR_MS, LIMITS) == Span(DAY.since_ms, DAY.since_ms + HOUR_MS - 120_000)
    with pytest.raises(ConfigError, match="has not begun"):
        over(DAY, DAY.since_ms, LIMITS)


def test_offsets_speeds_and_vehicles_that_mean_nothing_are_refused_by_name() -> None:
    assert offsets("12", 2) == {0: 12, 1: 12}
    assert offsets("0:5,1:7", 2) == {0: 5, 1: 7}
    for wrong in ("x", "0:5,0:6", "7:1", "0:5,"):
        with pytest.raises(ConfigError, match="--from-offset"):
            offsets(wrong, 2)
    assert speed_of("max") is None
    assert speed_of("60") == 60.0
    for wrong in ("0", "fast", "-1", "nan"):
        with pytest.raises(ConfigError, match="--speed"):
            speed_of(wrong)
    with pytest.raises(ConfigError, match="--vehicle 'IOQ'"):
        vehicles(["IOQ"])
