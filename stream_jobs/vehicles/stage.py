"""From records to what a memory of vehicles needs of each frame, a batch at a time: Arrow, numpy and DuckDB.

Every frame whose head can be read counts: one whose clock is not believed says nothing but that its number
was used, so that nobody waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from infra.contract.signals import SIGNALS
from infra.contract.verdict import LATE, OK, ClockLimits
from stream_jobs.frames.plausibility import plausible_columns
from stream_jobs.partials import heads
from stream_jobs.partials.frames import Flags, Floats, Ints, frames_of
from stream_jobs.partials.reading import read
from stream_jobs.rules import Rule
from stream_jobs.vehicles import history, lookups
from stream_jobs.vehicles.facts import CLASSES, POWERTRAINS, facts_matrix, sample_facts
from stream_jobs.vehicles.harsh_runs import HarshLimits, harsh_runs
from stream_jobs.vehicles.history import History
from stream_jobs.vehicles.said import RuleInputs, nothing_said

if TYPE_CHECKING:  # 40 MB, of which a process that evaluates no rules needs none
    import pandas as pd

    from stream_jobs.vehicles.evaluation import Evaluator

RECORD: Final = ("partition", "log_offset", "received_ms", "value")
"""Columns of the records that the stage needs."""
KEY: Final = "key"
"""A column that records may have besides: a frame under another vehicle's key is not that vehicle's."""
TYPES: Final = {
    KEY: pa.binary(), "partition": pa.int32(), "log_offset": pa.int64(), "received_ms": pa.int64(),
    "value": pa.binary(),
}  # fmt: skip
BELIEVED: Final = (OK, LATE)
HEAD: Final = ("boot_id", "seq", "t0_ms")


@dataclass(frozen=True, slots=True)
class Features:
    """What the frames of a batch of records say, in the order of the records; a row a readable frame.

    ``facts``: [n_frames, facts.FACTS]; ``runs``: harsh runs by frame (harsh_runs.RUN numbers each).
    """

    vehicle_id: Sequence[str]
    partition: Ints
    log_offset: Ints
    facts: Floats
    runs: Sequence[Sequence[float]]
    rules: RuleInputs


@dataclass(frozen=True, slots=True)
class VehicleStage:
    """``lookup``: the file with what vehicles are; ``rules``: those to be evaluated, in their order."""

    limits: ClockLimits
    harsh: HarshLimits
    lookup: Path
    rules: tuple[Rule, ...] = ()

    def features(self, records: pa.RecordBatch) -> Features:
        """``records``: the columns RECORD, KEY besides where there is one."""
        table = heads.in_range(read(records.column("value")))
        verdict = heads.verdicts(table, records.column("received_ms").to_numpy(), self.limits)
        chosen = heads.readable(table)
        if KEY in records.schema.names:
            same = pc.equal(table["vehicle_id"].cast(pa.binary()), records.column(KEY))
            chosen &= pc.fill_null(same, False).to_numpy()
        table = table.filter(pa.array(chosen)).combine_chunks()
        kept = {name: records.column(name).to_numpy()[chosen] for name in RECORD[:-1]}
        return self._features(table, kept, np.isin(verdict[chosen], BELIEVED))

    def _features(self, table: pa.Table, kept: dict[str, Ints], believed: Flags) -> Features:
        vehicles = table["vehicle_id"].combine_chunks() if table.num_rows else pa.array([], pa.string())
        known = lookups.current(self.lookup).of(vehicles)
        of_lookup = {
            "vehicle_class": lookups.places(known["vehicle_class"], CLASSES),
            "powertrain": lookups.places(known["powertrain"], POWERTRAINS),
        }
        head = {name: table[name].to_numpy() for name in HEAD} | {
            "end_ms": table["t0_ms"].to_numpy() + table["n"].to_numpy() * table["dt_ms"].to_numpy(),
            "received_ms": kept["received_ms"],
            "believed": believed,
        }
        facts, runs = _sampled(table, believed, of_lookup["vehicle_class"], self.harsh)
        return Features(
            vehicles.to_pylist(), kept["partition"], kept["log_offset"],
            facts_matrix(head | facts | of_lookup, table.num_rows), runs,
            self._evaluated(table, known, vehicles, facts),
        )  # fmt: skip

    def _evaluated(
        self, table: pa.Table, known: dict[str, pa.Array], vehicles: pa.Array, facts: dict[str, Any]
    ) -> RuleInputs:
        """What the rules say of parsed frames, whose ``vehicles`` are ``known`` to be so and so."""
        if not self.rules:
            return nothing_said(table.num_rows, 0)
        named = {word for rule in self.rules for word in rule.words()}
        columns = known | plausible_columns(table, signals_of(named))
        told = history.words_of(named)
        nowhere = np.full(table.num_rows, np.nan)
        where = [facts.get(name, nowhere) for name in ("lat_deg", "lon_deg", "heading_deg")]
        past: History = history.current(self.lookup.parent)
        columns |= past.of(told, vehicles, (where[0], where[1], where[2]))
        return _evaluator(self.rules)(pa.table(columns))


def as_arrow(records: pd.DataFrame) -> pa.RecordBatch:
    """Records as Spark hands them to Python, for the stage."""
    kinds = {name: kind for name, kind in TYPES.items() if name in records}
    columns = [pa.array(records[name], kind) for name, kind in kinds.items()]
    return pa.RecordBatch.from_arrays(columns, names=[*kinds])


@lru_cache(maxsize=2)
def _evaluator(rules: tuple[Rule, ...]) -> Evaluator:
    """Of a process: translating the rules costs more than evaluating them."""
    from stream_jobs.vehicles.evaluation import Evaluator  # noqa: PLC0415  see above

    return Evaluator(rules)


def _sampled(
    table: pa.Table, believed: Flags, vehicle_class: Floats, harsh: HarshLimits
) -> tuple[dict[str, Any], list[list[float]]]:
    """Facts and harsh runs out of the samples, none of frames whose clock is not believed."""
    if not table.num_rows:
        return {}, []
    frames = frames_of(table, np.zeros(table.num_rows, np.bool_))
    runs = harsh_runs(frames, vehicle_class, harsh)
    return sample_facts(frames), [run if is_so else [] for run, is_so in zip(runs, believed, strict=True)]


def signals_of(words: Iterable[str]) -> tuple[str, ...]:
    """The signals among ``words``, in the order of the contract."""
    wanted = set(words)
    return tuple(signal.name for signal in SIGNALS if signal.name in wanted)
