"""What the archive's side of an audit costs: CPU time and memory by the number of records.

Run: python -m load_tests.audit_rate [--vehicles 1000] [--frames 1000,4000,8000] [--missing 100]

Writes archives of made-up records (no payloads: an audit reads none) into a temporary folder, without
one frame in ``--missing`` (0: with all), and asks for everything and for the last hour, each in a process of
its own, single-threaded.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import tempfile
from pathlib import Path

from infra.clients.duck import connected
from stream_jobs.archive.manifest import HOUR_MS, hour_name
from stream_jobs.audit import archive
from stream_jobs.audit.ledger import WHOLE, Scope

T0_MS = 1_763_596_800_000
INTERVAL_MS = 10_000
"""Between two frames of a vehicle: 8,640 of them are a day."""

_HOUR = """
COPY (
    SELECT 'odograph.telemetry' AS topic, (v % 4)::INT AS partition,
           (s * $vehicles + v) // 4 AS log_offset, 'VIN' || lpad(v::VARCHAR, 14, '0') AS vehicle_id,
           7::BIGINT AS boot_id, s AS seq, $begin + s * $interval AS t0_ms,
           $begin + s * $interval + 1000 AS received_ms, 900::BIGINT AS span_ms,
           CASE WHEN hash(v, s) % 50 = 0 THEN 'late' ELSE 'ok' END AS verdict
    FROM range($first, $stop) a(s), range($vehicles) b(v)
    WHERE $missing = 0 OR (s + v) % $missing <> 0 ORDER BY s, v
) TO '{path}' (FORMAT parquet, COMPRESSION zstd)
"""


def fill(home: Path, vehicles: int, frames: int, missing: int) -> None:
    """An archive of ``frames`` frames of each vehicle, a file an hour."""
    each = HOUR_MS // INTERVAL_MS
    with connected() as connection:
        for hour, first in enumerate(range(0, frames, each)):
            folder = home / "archive" / "telemetry" / hour_name(T0_MS + hour * HOUR_MS)
            folder.mkdir(parents=True)
            bounds = {
                "vehicles": vehicles,
                "first": first,
                "stop": min(frames, first + each),
                "missing": missing,
            }
            times = {"begin": T0_MS, "interval": INTERVAL_MS}
            connection.execute(_HOUR.format(path=folder / "a.parquet"), bounds | times)


def ask(home: Path, scope: Scope, name: str) -> None:
    """One audit of the archive; prints what it took."""
    with archive.opened(home, scope, before_ms=HOUR_MS) as store:
        devices = store.devices()
        store.log_gaps()
    used = resource.getrusage(resource.RUSAGE_SELF)
    records = sum(device.figures.generated + device.figures.duplicate for device in devices.values())
    gaps = sum(len(device.gaps) for device in devices.values())
    cpu_s = used.ru_utime + used.ru_stime
    print(
        f"{name:>9}: {records:>10,} records, {len(devices):,} devices, {gaps:,} gaps:"
        f" {cpu_s:6.1f} s CPU, {used.ru_maxrss / 1024:5.0f} MiB at most"
    )
    sys.stdout.flush()


def main() -> None:
    """Fill and ask, by size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vehicles", type=int, default=1000)
    parser.add_argument("--frames", default="1000,4000,8000")
    parser.add_argument("--missing", type=int, default=100)
    chosen = parser.parse_args()
    fresh = multiprocessing.get_context("spawn")
    for frames in map(int, chosen.frames.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder)
            fill(home, chosen.vehicles, frames, chosen.missing)
            end_ms = T0_MS + frames * INTERVAL_MS
            for name, scope in (("whole", WHOLE), ("last hour", Scope(end_ms - HOUR_MS, end_ms))):
                child = fresh.Process(target=ask, args=(home, scope, name))
                child.start()
                child.join()
                if child.exitcode:
                    sys.exit(child.exitcode)


if __name__ == "__main__":
    main()
