"""Trips of recorded drives, cut by the core of query telemetry, beside what the speed trace shows.

Run: python -m load_tests.drive_trips FOLDER
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import orjson
import pyarrow as pa

from edge_simulator.recordings.drives import look_into, read
from edge_simulator.recordings.frames import prepare
from infra.contract.verdict import clock_limits
from infra.settings.settings import load
from load_tests.archived import features_read
from stream_jobs.rules.rule_set import RuleSet
from stream_jobs.vehicles.core import Core
from stream_jobs.vehicles.features import VehicleStage
from stream_jobs.vehicles.rows import TripRow

DAY_MS = 86_400_000
LONG_S = 60


def frames(folder: Path) -> Iterator[tuple[str, list[bytes]]]:
    """Name and frames of each drive, at its recorded times."""
    meaning, files = look_into(folder)
    for drive in (drive for file in files for drive in read(file, meaning).drives):
        ready = prepare(drive)
        yield drive.name, [ready.frame(rows, seq, 1, 0, 0) for seq, rows in enumerate(ready.groups())]


def trips(payloads: list[bytes]) -> list[TripRow]:
    """The trips of a drive; each frame is received a second after its last sample."""
    settings = load()
    heads = [orjson.loads(payload) for payload in payloads]
    received = [h["t0_ms"] + h["n"] * h["dt_ms"] + 1000 for h in heads]
    batch = pa.RecordBatch.from_pydict(
        {
            "partition": pa.array([0] * len(payloads), pa.int32()),
            "log_offset": pa.array(range(len(payloads)), pa.int64()),
            "received_ms": pa.array(received, pa.int64()),
            "value": pa.array(payloads, pa.binary()),
        }
    )
    stage = VehicleStage(clock_limits(settings), settings.journeys, Path("none"))
    core = Core(settings.jobs, settings.journeys, RuleSet())
    features = features_read(stage, [batch])
    assert features is not None
    rows = core.replay(features, received[-1] + DAY_MS)
    return list({row.started_ms: row for row in rows if isinstance(row, TripRow)}.values())


def trace(payloads: list[bytes]) -> tuple[int, list[str]]:
    """First time, and in the speed trace: standstills and gaps of a minute and more, as begin+length in s."""
    times: list[tuple[int, bool]] = []
    for payload in payloads:
        h = orjson.loads(payload)
        speeds = h.get("speed_kmh") or [None] * h["n"]
        times += [(h["t0_ms"] + i * h["dt_ms"], (v or 0) >= 1) for i, v in enumerate(speeds)]
    zero = times[0][0]
    seen: list[str] = []
    moved_ms = zero
    for (before, _), (at, moves) in pairwise(times):
        if at - before >= LONG_S * 1000:
            seen.append(f"gap {(before - zero) // 1000}+{(at - before) // 1000}")
        elif moves and at - moved_ms >= LONG_S * 1000:
            seen.append(f"stands {(moved_ms - zero) // 1000}+{(at - moved_ms) // 1000}")
        moved_ms = at if moves or at - before >= LONG_S * 1000 else moved_ms
    return zero, [*seen, f"ends {(times[-1][0] - zero) // 1000}, last moved {(moved_ms - zero) // 1000}"]


def main() -> None:
    """Print a line a drive and a line a trip."""
    for name, payloads in frames(Path(sys.argv[1])):
        zero, seen = trace(payloads)
        print(f"{name}: {'; '.join(seen)}")
        for t in trips(payloads):
            span = f"{(t.started_ms - zero) / 1000:.0f}..{(t.ended_ms - zero) / 1000:.0f} s"
            print(
                f"  trip {span} {t.distance_m / 1000:.2f} km halts {t.halts} max {t.speed_max_kmh} {t.phase}"
            )


if __name__ == "__main__":
    main()
