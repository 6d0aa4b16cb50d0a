"""Vehicles on road cells and edges in windows that begin at one moment: a row a vehicle and place.

``shares`` sums them over the vehicles of one bucket; buckets have no vehicle in common, so shares add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from stream_jobs.frames.arrays import Flags, Ints
from stream_jobs.windows.block import dump_arrays, enrolled, load_arrays
from stream_jobs.windows.roads import PARTS as SUMS
from stream_jobs.windows.roads import VEHICLES, RoadRows, vehicle_bits
from stream_jobs.windows.tables import NO_SECTOR

KEYS: Final = ("place", "heading_sector")
"""A place is a cell, or an edge as roads.py writes it."""
SHARE: Final = pa.schema(
    [(name, pa.int64()) for name in ("start_ms", *KEYS, *SUMS, VEHICLES, "vehicle_bits")]
)
"""Columns of shares: sums of windows of places over some vehicles, and how many vehicles they were."""


_ROW: Final = ("vehicle", *KEYS, *SUMS, "changed")


@dataclass(slots=True)
class Places:
    """``rows``: a matrix [_ROW, n]; ``vehicle`` is a place among ``vehicles``, ``changed`` is 1 where a place
    was not given out since it changed.
    """

    vehicles: pa.StringArray
    rows: Ints

    def add(self, more: Places) -> None:
        """Take over ``more``."""
        self.vehicles, at = enrolled(self.vehicles, more.vehicles)
        moved = np.vstack([at[more.rows[0]], more.rows[1:]])
        self.rows = _once(np.concatenate([self.rows, moved], axis=1))

    @property
    def changed(self) -> bool:
        """Whether anything is to be given out."""
        return bool(self.rows[-1].any())

    def given_out(self) -> None:
        """Nothing is to be given out any more."""
        self.rows[-1] = 0

    def shares(self, start_ms: int) -> pa.Table:
        """The sums of all places that changed (SHARE)."""
        vehicle, *rest = self.rows
        order, begins = _runs(rest[: len(KEYS)])
        keys, sums, changed = rest[: len(KEYS)], rest[len(KEYS) : -1], rest[-1]
        bits = vehicle_bits(self.vehicles)[vehicle]
        columns = [
            np.full(len(begins), start_ms),
            *(key[order[begins]] for key in keys),
            *(np.add.reduceat(each[order], begins) for each in sums),
            np.diff(begins, append=len(order)),
            np.bitwise_or.reduceat(bits[order], begins),
        ]
        told = np.maximum.reduceat(changed[order], begins) > 0
        return pa.table([column[told] for column in columns], schema=SHARE)


def places_of(vehicles: pa.StringArray, of_frame: Ints, rows: RoadRows, chosen: Flags) -> Places:
    """The chosen ``rows``, at least one; ``of_frame``: the place of each frame's vehicle."""
    values = {name: column[chosen] for name, column in rows.values.items()}
    count = int(chosen.sum())
    place = values["cell"] if "cell" in values else values["edge"]
    sector = values.get("heading_sector", np.full(count, NO_SECTOR))
    vehicle = of_frame[rows.of_frame[chosen]]
    sums = [values[name] for name in SUMS]
    return Places(vehicles, np.vstack([vehicle, place, sector, *sums, np.ones(count, np.int64)]))


def summed(shares: pa.Table) -> pa.Table:
    """Shares of several buckets as one row a window of a place."""
    if not shares.num_rows:
        return shares
    columns = {name: shares[name].to_numpy() for name in SHARE.names}
    order, begins = _runs([columns[name] for name in ("start_ms", *KEYS)])
    found = {name: columns[name][order[begins]] for name in ("start_ms", *KEYS)}
    found |= {name: np.add.reduceat(columns[name][order], begins) for name in (*SUMS, VEHICLES)}
    found["vehicle_bits"] = np.bitwise_or.reduceat(columns["vehicle_bits"][order], begins)
    return pa.table(found, schema=SHARE)


def dump_places(places: Places) -> bytes:
    """The rows as bytes."""
    return dump_arrays(places.vehicles.to_pylist(), [places.rows])


def load_places(raw: bytes) -> Places:
    """The rows that ``dump_places`` made bytes of."""
    names, (rows,) = load_arrays(raw)
    return Places(pa.array(names, pa.string()), np.frombuffer(rows, np.int64).reshape(len(_ROW), -1).copy())


def _once(rows: Ints) -> Ints:
    """One row a vehicle and place, the vehicle's rows there added up."""
    keys = 1 + len(KEYS)
    order, begins = _runs([*rows[:keys]])
    sums = np.add.reduceat(rows[keys:-1][:, order], begins, axis=1)
    changed = np.maximum.reduceat(rows[-1:][:, order], begins, axis=1)
    return np.concatenate([rows[:keys][:, order[begins]], sums, changed])


def _runs(keys: Sequence[Ints]) -> tuple[Ints, Ints]:
    """The order that brings equal ``keys`` together, and where each run of them begins."""
    order = np.lexsort(list(reversed(keys)))
    differs = [np.diff(key[order], prepend=key[order[:1]] - 1) != 0 for key in keys]
    return order, np.flatnonzero(np.logical_or.reduce(differs))
