"""The stage that runs in Spark's Python workers: records in, one row a frame out.

Every frame whose head can be read gives a row: a frame whose clock is not believed says nothing but that its
number was used, so that nobody waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from infra.contract.signals import BY_NAME, SIGNALS
from infra.contract.verdict import LATE, OK, ClockLimits
from stream_jobs.frames.plausibility import plausible_columns
from stream_jobs.partials import heads
from stream_jobs.partials.frames import Flags, Floats, frames_of
from stream_jobs.partials.reading import FRAME_SCHEMA, read
from stream_jobs.vehicles import history, lookups
from stream_jobs.vehicles.facts import CLASSES, FACTS, POWERTRAINS, facts_matrix, sample_facts
from stream_jobs.vehicles.harsh_runs import HarshLimits, harsh_runs
from stream_jobs.vehicles.history import History

RECORD: Final = ("partition", "log_offset", "received_ms", "value")
"""Columns of the records that the stage needs."""
BELIEVED: Final = (OK, LATE)
HEAD: Final = ("boot_id", "seq", "t0_ms")


@dataclass(frozen=True, slots=True)
class VehicleStage:
    """``words``: the signals that the rules name, in order; ``lookup``: the file with what vehicles are.

    ``told``: the columns of history that the rules name.
    """

    limits: ClockLimits
    harsh: HarshLimits
    lookup: Path
    words: tuple[str, ...]
    told: tuple[str, ...] = ()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One row a frame."""
        held: lookups.Lookup | None = None
        past: History | None = None
        for batch in batches:
            held = lookups.current(self.lookup, held)
            past = history.current(self.lookup.parent, past) if self.told else None
            yield self.rows(batch, held, past)

    def rows(
        self, batch: pa.RecordBatch, lookup: lookups.Lookup, past: History | None = None
    ) -> pa.RecordBatch:
        """The rows of one batch of records; ``past`` is needed where history is told."""
        table = heads.in_range(read(batch.column("value")))
        verdict = heads.verdicts(table, batch.column("received_ms").to_numpy(), self.limits)
        readable = heads.readable(table)
        chosen = pa.array(readable)
        table = table.filter(chosen).combine_chunks()
        kept = {name: batch.column(name).filter(chosen) for name in RECORD[:-1]}
        return self._rows(table, kept, np.isin(verdict[readable], BELIEVED), lookup, past)

    def _rows(
        self, table: pa.Table, kept: dict[str, pa.Array], believed: Flags, lookup: lookups.Lookup,
        past: History | None,
    ) -> pa.RecordBatch:  # fmt: skip
        vehicles = table["vehicle_id"].combine_chunks() if table.num_rows else pa.array([], pa.string())
        known = lookup.of(vehicles)
        of_lookup = {
            "vehicle_class": lookups.places(known["vehicle_class"], CLASSES),
            "powertrain": lookups.places(known["powertrain"], POWERTRAINS),
        }
        head = {name: table[name].to_numpy() for name in HEAD} | {
            "end_ms": table["t0_ms"].to_numpy() + table["n"].to_numpy() * table["dt_ms"].to_numpy(),
            "received_ms": kept["received_ms"].to_numpy(),
            "believed": believed,
        }
        facts, runs = _sampled(table, believed, of_lookup["vehicle_class"], self.harsh)
        matrix = facts_matrix(head | facts | of_lookup, table.num_rows)
        columns = kept | {"vehicle_id": vehicles, "facts": _lists(matrix), "runs": pa.array(runs, NUMBERS)}
        columns |= known | plausible_columns(table, self.words)
        if past is not None:
            nowhere = np.full(table.num_rows, np.nan)
            where = [facts.get(name, nowhere) for name in ("lat_deg", "lon_deg", "heading_deg")]
            columns |= past.of(self.told, vehicles, (where[0], where[1], where[2]))
        return pa.RecordBatch.from_pydict(columns)


NUMBERS: Final = pa.list_(pa.float64())


def _sampled(
    table: pa.Table, believed: Flags, vehicle_class: Floats, harsh: HarshLimits
) -> tuple[dict[str, Any], list[list[float]]]:
    """Facts and harsh runs out of the samples, none of frames whose clock is not believed."""
    if not table.num_rows:
        return {}, []
    frames = frames_of(table, np.zeros(table.num_rows, np.bool_))
    runs = harsh_runs(frames, vehicle_class, harsh)
    return sample_facts(frames), [run if is_so else [] for run, is_so in zip(runs, believed, strict=True)]


def _lists(matrix: Floats) -> pa.ListArray:
    offsets = np.arange(len(matrix) + 1, dtype=np.int32) * len(FACTS)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(matrix.ravel()))


def words_of(words: Iterable[str]) -> tuple[str, ...]:
    """The signals among ``words``, in the order of the contract."""
    wanted = set(words)
    return tuple(signal.name for signal in SIGNALS if signal.name in wanted)


def signal_type(name: str) -> pa.DataType:
    """The Arrow type of a signal's column."""
    return FRAME_SCHEMA.field(BY_NAME[name].name).type
