"""What the manifest says of one file: how many records, which offsets, which receive times, which bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from infra.contract.errors import ArchiveError


@dataclass(frozen=True, slots=True)
class Offsets:
    """Records of one topic partition in a file: the first and the last offset, and how many records."""

    topic: str
    partition: int
    first: int
    last: int
    count: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One file. ``received_ms``: the first and the last receive time; None in a file without records."""

    name: str
    rows: int
    bytes: int
    sha256: str
    received_ms: tuple[int, int] | None
    offsets: tuple[Offsets, ...]

    def as_json(self) -> dict[str, Any]:
        """Fit for a line of the manifest."""
        return asdict(self)


def entry_of(line: Mapping[str, Any]) -> Entry:
    """The entry in a line of the manifest."""
    times = line["received_ms"]
    return Entry(
        name=line["name"],
        rows=line["rows"],
        bytes=line["bytes"],
        sha256=line["sha256"],
        received_ms=None if times is None else (times[0], times[1]),
        offsets=tuple(Offsets(**each) for each in line["offsets"]),
    )


def described(path: Path, name: str) -> Entry:
    """What there is to say of a file to be called ``name``. Raises ArchiveError for what is no Parquet."""
    try:
        with pq.ParquetFile(path) as file:
            rows = file.metadata.num_rows
            table = file.read(columns=["topic", "partition", "log_offset", "received_ms"])
    except (pa.ArrowException, OSError) as error:
        raise ArchiveError(f"{path} cannot be read as Parquet ({_first_line(error)})") from error
    return Entry(name, rows, path.stat().st_size, sha256_of(path), _times(table), _offsets(table))


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's bytes, hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _times(table: pa.Table) -> tuple[int, int] | None:
    if not table.num_rows:
        return None
    received = table["received_ms"].to_numpy()
    return int(received.min()), int(received.max())


def _offsets(table: pa.Table) -> tuple[Offsets, ...]:
    measures = [("log_offset", "min"), ("log_offset", "max"), ("log_offset", "count")]
    found = table.group_by(["topic", "partition"]).aggregate(measures)
    names = ["topic", "partition", "log_offset_min", "log_offset_max", "log_offset_count"]
    columns = (found[name].to_pylist() for name in names)
    return tuple(sorted((Offsets(*row) for row in zip(*columns, strict=True)), key=_place))


def _place(offsets: Offsets) -> tuple[str, int]:
    return offsets.topic, offsets.partition


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
