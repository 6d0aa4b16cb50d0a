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
Version = tuple[int, int]
SCHEMA: Final = pa.schema([(name, pa.string()) for name in ("vehicle_id", *COLUMNS)])


def vehicle_file(home: Path) -> Path:
    """Where the lookup lies."""
    return home.absolute() / "lookups" / "vehicle.arrow"


def write(path: Path, table: pa.Table, schema: pa.Schema = SCHEMA) -> bool:
    """Put ``table`` in the file's place at once, unless it holds the same; whether it did."""
    table = table.cast(schema)
    if path.exists() and read(path, schema).equals(table):
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(".new")
    with pa.OSFile(str(aside), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        writer.write_table(table)
    aside.replace(path)
    return True


def read(path: Path, schema: pa.Schema = SCHEMA) -> pa.Table:
    """The table in the file; empty where there is none yet, or one of another version of this program."""
    try:
        with pa.OSFile(str(path), "rb") as source:
            found = pa.ipc.open_file(source).read_all()
    except FileNotFoundError:
        return schema.empty_table()
    return found if found.schema.equals(schema) else schema.empty_table()


def version(path: Path) -> Version:
    """Another one whenever the file was replaced."""
    try:
        stat = path.stat()
    except FileNotFoundError:
        return (0, 0)
    return stat.st_mtime_ns, stat.st_ino


@dataclass(frozen=True, slots=True)
class Lookup:
    """The rows of the file as they were at its last change."""

    version: Version
    table: pa.Table

    def of(self, vehicles: pa.Array) -> dict[str, pa.Array]:
        """COLUMNS for each of ``vehicles``, null where not known."""
        places = pc.index_in(vehicles, value_set=self.table["vehicle_id"].combine_chunks())
        return {name: self.table[name].combine_chunks().take(places) for name in COLUMNS}


def current(path: Path) -> Lookup:
    """What the file says now; it is read again only when it was replaced."""
    return _held(path, version(path))


@lru_cache(maxsize=4)
def _held(path: Path, of: Version) -> Lookup:
    return Lookup(of, read(path))


def places(words: pa.Array, known: tuple[str, ...]) -> Floats:
    """The place of each word among ``known`` ones, NaN where it is none of them."""
    found = pc.index_in(words, value_set=pa.array(known, pa.string()))
    numbers: Floats = pc.cast(found, pa.float64()).to_numpy(zero_copy_only=False)
    return np.where(pc.is_null(found).to_numpy(zero_copy_only=False), np.nan, numbers)
