"""From records to what a memory of vehicles needs of each frame, a batch at a time: Arrow, numpy and DuckDB.

Every frame whose head can be read counts: one whose clock is not believed says nothing but that its number
was used, so that nobody waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from infra.contract.signals import SIGNALS
from infra.contract.verdict import ClockLimits, clock_limits
from infra.settings.sections import Journeys
from infra.settings.settings import Settings
from stream_jobs.frames.batch import FrameBatch, frame_batch
from stream_jobs.frames.lookup_files import Place, place_of
from stream_jobs.frames.plausibility import plausible_columns
from stream_jobs.rules.inputs import RuleInputs, unknown_inputs
from stream_jobs.rules.model import Rule
from stream_jobs.rules.rule_set import RuleSet
from stream_jobs.vehicles import features, lookups
from stream_jobs.vehicles.features import Features

if TYPE_CHECKING:  # 40 MB, of which a process that evaluates no rules needs none
    from stream_jobs.rules.evaluation import Evaluator


@dataclass(frozen=True, slots=True)
class VehicleStage:
    """``lookup``: the file with what vehicles are; ``rules``: those to be evaluated, in their order."""

    limits: ClockLimits
    harsh: Journeys
    lookup: Place
    rules: tuple[Rule, ...] = ()

    def frames(self, records: pa.RecordBatch) -> FrameBatch | None:
        """The readable frames in ``records``."""
        return frame_batch(records, self.limits)

    def features(self, batch: FrameBatch) -> Features:
        """What the frames of ``batch`` say."""
        known = lookups.current(self.lookup).of_vehicles(batch.vehicles)
        t0_ms, believed = batch.whole("t0_ms"), batch.believed
        of_samples = features.sample_features(batch.arrays)
        columns = of_samples | {
            "boot_id": batch.whole("boot_id"),
            "seq": batch.whole("seq"),
            "t0_ms": t0_ms,
            "end_ms": t0_ms + batch.whole("n") * batch.whole("dt_ms"),
            "received_ms": batch.received_ms,
            "believed": believed,
            "vehicle_class": lookups.index_among(known["vehicle_class"], features.CLASSES),
            "powertrain": lookups.index_among(known["powertrain"], features.POWERTRAINS),
        }
        runs = features.harsh_runs(batch.arrays, columns["vehicle_class"], self.harsh)
        matrix = np.empty((len(batch), len(features.FRAME_FEATURES)))
        for name, column in columns.items():
            matrix[:, features.PLACE[name]] = column
        coded = batch.vehicles.dictionary_encode()
        return Features(
            coded.dictionary.to_pylist(), coded.indices.to_numpy().astype(np.int64),
            matrix,
            [run if is_so else [] for run, is_so in zip(runs, believed.tolist(), strict=True)],
            self._evaluated(batch, known, of_samples),
        )  # fmt: skip

    def read(self, batches: Iterable[pa.RecordBatch]) -> Features | None:
        """What the frames in records say; None where none can be read."""
        frames = (self.frames(records) for records in batches)
        found = [self.features(batch) for batch in frames if batch is not None]
        return features.joined(found) if found else None

    def _evaluated(
        self, batch: FrameBatch, known: dict[str, pa.Array], of_samples: dict[str, Any]
    ) -> RuleInputs:
        """What the rules say of the frames, whose vehicles are ``known`` to be so and so."""
        if not self.rules:
            return unknown_inputs(0, len(batch))
        named = {word for rule in self.rules for word in rule.words()}
        columns = known | plausible_columns(batch.table, signals_of(named))
        where = tuple(of_samples[name] for name in ("lat_deg", "lon_deg", "heading_deg"))
        told = [name for name in lookups.HISTORY if name in named]
        columns |= lookups.current(self.lookup).history(told, batch.vehicles, where)
        return _evaluator(self.rules)(pa.table(columns))


@lru_cache(maxsize=2)
def _evaluator(rules: tuple[Rule, ...]) -> Evaluator:
    """Of a process: translating the rules costs more than evaluating them."""
    from stream_jobs.rules.evaluation import Evaluator  # noqa: PLC0415  see above

    return Evaluator(rules)


def vehicle_stage(settings: Settings, rule_set: RuleSet) -> VehicleStage:
    """The stage before the core, with the rules that the core looks at."""
    lookup = place_of(settings, lookups.VEHICLE_FILE)
    return VehicleStage(clock_limits(settings), settings.journeys, lookup, rule_set.rules)


def signals_of(words: Iterable[str]) -> tuple[str, ...]:
    """The signals among ``words``, in the order of the contract."""
    wanted = set(words)
    return tuple(signal.name for signal in SIGNALS if signal.name in wanted)
