"""Bytes a sample and scan rates of the archive: as the stream writes it, packed, and sorted by vehicle.

Run: python -m load_tests.archive_rate [--vehicles 200] [--frames 600] [--rounds 3] [--no-spark]

A day of the simulator's (steady traffic, 1 frame/s of 10 samples a vehicle) is written as the archive query
would, a file every 10 s, then packed. Scans read every payload and sum its length: DuckDB and the one
reader's list through Arrow, one thread each, and Spark on one core; each in turn, ``--rounds`` times after
one round that is thrown away. Seconds are CPU seconds of this process (Spark: of its Java machine), medians.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from edge_simulator import day
from edge_simulator.scenario import Scenario, cadence
from infra.settings.settings import Settings
from load_tests.rate_support import cpu_s
from stream_jobs.app.session import build_session
from stream_jobs.archive import reader
from stream_jobs.archive.manifest import described
from stream_jobs.archive.upkeep import pack_hour
from stream_jobs.archive.writer import parquet_writer, place

START_MS = 1_763_593_200_000
BATCH_MS = 10_000
"""The archive query's trigger."""
SQL = "SELECT count(*), sum(octet_length(value)) FROM read_parquet(?, hive_partitioning = false)"

Scan = Callable[[list[str]], tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Kept:
    """What lies there: files, bytes, frames, samples."""

    files: int
    bytes: int
    frames: int
    samples: int

    def line(self, name: str) -> str:
        """A row of the table."""
        return f"| {name} | {self.files} | {self.bytes / self.frames:.0f} | {self.bytes / self.samples:.1f} |"


def generated(home: Path, vehicles: int, frames: int) -> Path:
    """A day of so many frames a vehicle, on disk."""
    settings = Settings(paths={"home": str(home)})
    scenario = Scenario(
        seed=1, vehicles=vehicles, cadence=cadence(vehicles, None, 1000), start_ms=START_MS,
        frames_per_vehicle=frames, longest_step_ms=500,
    )  # fmt: skip
    return Path(day.make(scenario, settings, "rate", lambda text: print(text, file=sys.stderr))["folder"])


def as_streamed(made: Path, archive: Path) -> None:
    """The day's records in files of 10 s, as the archive query writes them."""
    for file in reader.files(made):
        table = pq.read_table(file.path, partitioning=None)
        batch = pc.divide(table["received_ms"], BATCH_MS)
        for number in pc.unique(batch).to_pylist():
            part = table.filter(pc.equal(batch, number)).sort_by(
                [("partition", "ascending"), ("log_offset", "ascending")]
            )
            staged = archive / "staged.parquet"
            staged.parent.mkdir(parents=True, exist_ok=True)
            with parquet_writer(staged, part.schema) as writer:
                writer.write_table(part)
            name = f"archived-{number % 10**9:09d}-000.parquet"
            place(archive, file.hour_ms, staged, described(staged, name))


def by_vehicle(archive: Path, target: Path) -> list[str]:
    """The same records sorted by vehicle and time, an hour at once: what another order would save."""
    tables = [pq.read_table(path, partitioning=None) for path in reader.paths(archive)]
    with parquet_writer(target, tables[0].schema) as writer:
        whole = pa.concat_tables(tables).sort_by([("vehicle_id", "ascending"), ("t0_ms", "ascending")])
        writer.write_table(whole, row_group_size=50_000)
    return [str(target)]


def kept(paths: list[str]) -> Kept:
    """Sizes of files and what is in them."""
    with duckdb.connect(config={"threads": 1}) as connection:
        sql = "SELECT count(*), sum(n) FROM read_parquet(?, hive_partitioning = false)"
        row = connection.execute(sql, [paths]).fetchone()
    assert row is not None
    return Kept(len(paths), sum(Path(p).stat().st_size for p in paths), row[0], int(row[1]))


def by_duckdb(paths: list[str]) -> tuple[int, int]:
    """Every payload by DuckDB."""
    with duckdb.connect(config={"threads": 1}) as connection:
        row = connection.execute(SQL, [paths]).fetchone()
    assert row is not None
    return row[0], int(row[1])


def by_arrow(paths: list[str]) -> tuple[int, int]:
    """Every payload by Arrow, batch by batch: memory does not grow with the archive."""
    rows = size = 0
    for path in paths:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(8192, columns=["value"], use_threads=False):
                rows += batch.num_rows
                size += pc.sum(pc.binary_length(batch.column(0))).as_py()
    return rows, size


@contextmanager
def by_spark(home: Path) -> Iterator[tuple[Scan, Callable[[], float]]]:
    """Every payload by Spark on one core; and the CPU time of its Java machine."""
    settings = Settings(paths={"home": str(home)})
    spark: SparkSession = build_session(settings, "archive-rate", 1024, "local[1]", {})
    java = int(spark._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]

    def scan(paths: list[str]) -> tuple[int, int]:
        found = spark.read.parquet(*paths).selectExpr("count(*)", "sum(octet_length(value))").collect()
        return int(found[0][0]), int(found[0][1])

    try:
        yield scan, lambda: cpu_s(java)
    finally:
        spark.stop()


def measured(
    scans: dict[str, tuple[Scan, Callable[[], float]]], paths: list[str], rounds: int
) -> dict[str, float]:
    """Median CPU seconds of each way; all must find the same."""
    seen: dict[str, list[float]] = {name: [] for name in scans}
    answers = set()
    for number in range(rounds + 1):
        for name, (scan, clock) in scans.items():
            begun = clock()
            answers.add(scan(paths))
            if number:
                seen[name].append(clock() - begun)
    assert len(answers) == 1, f"the ways disagree: {answers}"
    return {name: statistics.median(times) for name, times in seen.items()}


def report(name: str, stored: Kept, seconds: dict[str, float]) -> None:
    """Rows of the table of rates."""
    base = seconds["DuckDB"]
    for way, spent in seconds.items():
        print(
            f"| {name} | {way} | {stored.samples / spent:,.0f} | {spent / stored.frames * 1e5:.2f} "
            f"| {base / spent:.2f} |"
        )


def main() -> None:
    """Generate, write, pack, scan."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vehicles", type=int, default=200)
    parser.add_argument("--frames", type=int, default=600, help="a vehicle")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-spark", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="archive-rate-") as folder:
        home = Path(folder)
        made, archive = generated(home, options.vehicles, options.frames), home / "archive"
        begun = time.process_time()
        as_streamed(made, archive)
        written_s = time.process_time() - begun
        streamed = reader.paths(archive)
        scans: dict[str, tuple[Scan, Callable[[], float]]] = {
            "DuckDB": (by_duckdb, time.process_time),
            "reader, Arrow": (by_arrow, time.process_time),
        }
        if options.no_spark:
            _compare(home, archive, streamed, scans, options.rounds, written_s)
        else:
            with by_spark(home) as spark:
                _compare(home, archive, streamed, scans | {"Spark": spark}, options.rounds, written_s)


def _compare(
    home: Path, archive: Path, streamed: list[str], scans: dict[str, tuple[Scan, Callable[[], float]]],
    rounds: int, written_s: float,
) -> None:  # fmt: skip
    before = kept(streamed)
    rates = {"as streamed": (before, measured(scans, streamed, rounds))}
    begun = time.process_time()
    for hour in reader.hours(archive):
        pack_hour(archive, hour, 128 << 20)
    packed_s = time.process_time() - begun
    packed = reader.paths(archive)
    after = kept(packed)
    rates["packed"] = (after, measured(scans, packed, rounds))
    ordered = kept(by_vehicle(archive, home / "by-vehicle.parquet"))
    print(f"{before.frames:,} frames, {before.samples:,} samples\n")
    print("| kept | files | bytes a frame | bytes a sample |\n|---|---|---|---|")
    for name, what in (("as streamed", before), ("packed", after), ("sorted by vehicle", ordered)):
        print(what.line(name))
    print(
        f"\nCPU s per 100,000 frames: {written_s / before.frames * 1e5:.2f} to write batches with their "
        f"manifest, {packed_s / before.frames * 1e5:.2f} to pack and compare\n"
    )
    print("| files | way | samples/s of CPU | CPU s per 100,000 frames | of DuckDB's rate |")
    print("|---|---|---|---|---|")
    for name, (stored, seconds) in rates.items():
        report(name, stored, seconds)


if __name__ == "__main__":
    main()
