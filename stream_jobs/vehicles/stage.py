"""From records to what a memory of vehicles needs of each frame, a batch at a time: Arrow, numpy and DuckDB.

Every frame whose head can be read counts: one whose clock is not believed says nothing but that its number
was used, so that nobody waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from infra.contract.signals import SIGNALS
from infra.contract.verdict import ClockLimits, clock_limits
from infra.settings.settings import Settings
from stream_jobs.frames.batch import FrameBatch, frame_batch
from stream_jobs.frames.plausibility import plausible_columns
from stream_jobs.rules.inputs import RuleInputs, unknown_inputs
from stream_jobs.rules.model import Rule
from stream_jobs.rules.rule_set import RuleSet
from stream_jobs.vehicles import history, lookups
from stream_jobs.vehicles.features import Features, joined
from stream_jobs.vehicles.frame_features import (
    CLASSES,
    POWERTRAINS,
    HarshLimits,
    feature_matrix,
    harsh_runs,
    sample_features,
)
from stream_jobs.vehicles.history import History
from stream_jobs.vehicles.limits import harsh_limits

if TYPE_CHECKING:  # 40 MB, of which a process that evaluates no rules needs none
    from stream_jobs.rules.evaluation import Evaluator

HEAD: Final = ("boot_id", "seq", "t0_ms")


@dataclass(frozen=True, slots=True)
class VehicleStage:
    """``lookup``: the file with what vehicles are; ``rules``: those to be evaluated, in their order."""

    limits: ClockLimits
    harsh: HarshLimits
    lookup: Path
    rules: tuple[Rule, ...] = ()

    def frames(self, records: pa.RecordBatch) -> FrameBatch | None:
        """The readable frames in ``records``."""
        return frame_batch(records, self.limits)

    def features(self, batch: FrameBatch) -> Features:
        """What the frames of ``batch`` say."""
        table, vehicles = batch.table, batch.vehicles
        known = lookups.current(self.lookup).of(vehicles)
        of_lookup = {
            "vehicle_class": lookups.places(known["vehicle_class"], CLASSES),
            "powertrain": lookups.places(known["powertrain"], POWERTRAINS),
        }
        head = {name: batch.whole(name) for name in HEAD} | {
            "end_ms": batch.whole("t0_ms") + batch.whole("n") * batch.whole("dt_ms"),
            "received_ms": batch.received_ms,
            "believed": batch.believed,
        }
        frame_features = sample_features(batch.arrays)
        runs = harsh_runs(batch.arrays, of_lookup["vehicle_class"], self.harsh)
        coded = vehicles.dictionary_encode()
        return Features(
            coded.dictionary.to_pylist(), coded.indices.to_numpy().astype(np.int64),
            feature_matrix(head | frame_features | of_lookup, len(batch)),
            [run if is_so else [] for run, is_so in zip(runs, batch.believed.tolist(), strict=True)],
            self._evaluated(table, known, vehicles, frame_features),
        )  # fmt: skip

    def read(self, batches: Iterable[pa.RecordBatch]) -> Features | None:
        """What the frames in records say; None where none can be read."""
        frames = (self.frames(records) for records in batches)
        found = [self.features(batch) for batch in frames if batch is not None]
        return joined(found) if found else None

    def _evaluated(
        self, table: pa.Table, known: dict[str, pa.Array], vehicles: pa.Array, frame_features: dict[str, Any]
    ) -> RuleInputs:
        """What the rules say of parsed frames, whose ``vehicles`` are ``known`` to be so and so."""
        if not self.rules:
            return unknown_inputs(0, table.num_rows)
        named = {word for rule in self.rules for word in rule.words()}
        columns = known | plausible_columns(table, signals_of(named))
        told = history.words_of(named)
        nowhere = np.full(table.num_rows, np.nan)
        where = [frame_features.get(name, nowhere) for name in ("lat_deg", "lon_deg", "heading_deg")]
        past: History = history.current(self.lookup.parent)
        columns |= past.of(told, vehicles, (where[0], where[1], where[2]))
        return _evaluator(self.rules)(pa.table(columns))


@lru_cache(maxsize=2)
def _evaluator(rules: tuple[Rule, ...]) -> Evaluator:
    """Of a process: translating the rules costs more than evaluating them."""
    from stream_jobs.rules.evaluation import Evaluator  # noqa: PLC0415  see above

    return Evaluator(rules)


def vehicle_stage(settings: Settings, rule_set: RuleSet) -> VehicleStage:
    """The stage before the core, with the rules that the core looks at."""
    lookup = lookups.vehicle_file(settings.paths.home)
    return VehicleStage(clock_limits(settings), harsh_limits(settings), lookup, rule_set.rules)


def signals_of(words: Iterable[str]) -> tuple[str, ...]:
    """The signals among ``words``, in the order of the contract."""
    wanted = set(words)
    return tuple(signal.name for signal in SIGNALS if signal.name in wanted)
