"""What is known of each vehicle, in a file beside the query: written by maintenance, read by Python workers.

``<home>/lookups/vehicle.arrow`` (Arrow IPC): vehicle_id, model, powertrain, vehicle_class.
It is replaced whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_jobs.frames.arrays import Floats

COLUMNS: Final = ("model", "powertrain", "vehicle_class")
SCHEMA: Final = pa.schema([(name, pa.string()) for name in ("vehicle_id", *COLUMNS)])


def vehicle_file(home: Path) -> Path:
    """Where the lookup lies."""
    return home.absolute() / "lookups" / "vehicle.arrow"


def write(path: Path, table: pa.Table) -> None:
    """Put ``table`` in the file's place at once, unless it holds the same."""
    table = table.cast(SCHEMA)
    if path.exists() and read(path).equals(table):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(".new")
    with pa.OSFile(str(aside), "wb") as sink, pa.ipc.new_file(sink, SCHEMA) as writer:
        writer.write_table(table)
    aside.replace(path)


def read(path: Path) -> pa.Table:
    """The table in the file; empty where there is none yet."""
    try:
        with pa.OSFile(str(path), "rb") as source:
            return pa.ipc.open_file(source).read_all()
    except FileNotFoundError:
        return SCHEMA.empty_table()


@dataclass(frozen=True, slots=True)
class Lookup:
    """The rows of the file as they were at its last change."""

    version: tuple[int, int]
    table: pa.Table

    def of(self, vehicles: pa.Array) -> dict[str, pa.Array]:
        """COLUMNS for each of ``vehicles``, null where not known."""
        places = pc.index_in(vehicles, value_set=self.table["vehicle_id"].combine_chunks())
        return {name: self.table[name].combine_chunks().take(places) for name in COLUMNS}


def current(path: Path) -> Lookup:
    """What the file says now; it is read again only when it was replaced."""
    try:
        stat = path.stat()
        version = (stat.st_mtime_ns, stat.st_ino)
    except FileNotFoundError:
        version = (0, 0)
    return _held(path, version)


@lru_cache(maxsize=4)
def _held(path: Path, version: tuple[int, int]) -> Lookup:
    return Lookup(version, read(path))


def places(words: pa.Array, known: tuple[str, ...]) -> Floats:
    """The place of each word among ``known`` ones, NaN where it is none of them."""
    found = pc.index_in(words, value_set=pa.array(known, pa.string()))
    numbers: Floats = pc.cast(found, pa.float64()).to_numpy(zero_copy_only=False)
    return np.where(pc.is_null(found).to_numpy(zero_copy_only=False), np.nan, numbers)
