"""An archive of made-up records for the audit's tests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from stream_jobs.archive.manifest import HOUR_MS, append, described
from stream_jobs.audit import archive
from stream_jobs.audit.archive import LogGap
from stream_jobs.audit.edge import Device
from stream_jobs.audit.ledger import WHOLE, DeviceCount, Scope

BOOT = 7
T0_MS = 1_763_593_200_000


@dataclass(frozen=True, slots=True)
class Record:
    """A record of the archive: one frame a second by its number, unless another is given."""

    seq: int
    vehicle_id: str = "V"
    verdict: str = "ok"
    offset: int = -1
    received_ms: int = -1
    moved_ms: int = 0
    """So much later than its number says."""
    topic: str = "odograph.telemetry"

    def row(self, offset: int, begin_ms: int) -> dict[str, object]:
        t0_ms = begin_ms + 1000 * self.seq + self.moved_ms
        received_ms = t0_ms + 1000 if self.received_ms < 0 else self.received_ms
        return {
            "topic": self.topic,
            "partition": 0,
            "log_offset": offset if self.offset < 0 else self.offset,
            "vehicle_id": self.vehicle_id,
            "boot_id": BOOT,
            "seq": self.seq,
            "t0_ms": 0 if self.verdict == "clock_unset" else t0_ms,
            "received_ms": received_ms,
            "verdict": self.verdict,
        }


def store(home: Path, records: Iterable[Record], t0_ms: int = T0_MS, name: str = "a", log: str = "") -> None:
    """Put them into an archive, of a log if one is given; the offsets count up where none are given."""
    hour = datetime.fromtimestamp(t0_ms / 1000, UTC)
    folder = home / "archive" / "telemetry" / f"{hour:date=%Y-%m-%d}" / f"{hour:hour=%H}"
    folder.mkdir(parents=True, exist_ok=True)
    rows = [record.row(offset, t0_ms) for offset, record in enumerate(records)]
    path = folder / f"{name}.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    if log:
        entry = described(path, path.name, {str(row["topic"]): log for row in rows})
        line = {"op": "add", "at_ms": 0, "file": entry}
        append(home / "archive", t0_ms // HOUR_MS * HOUR_MS, line)


def devices(
    home: Path, records: Iterable[Record], scope: Scope = WHOLE
) -> tuple[dict[Device, DeviceCount], list[LogGap]]:
    """What the archive says of these records."""
    store(home, records)
    with archive.opened(home, scope) as found:
        return found.devices(), found.log_gaps()
