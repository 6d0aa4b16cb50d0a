"""What frames say, a row of numbers a frame: what memories of vehicles are fed with."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
import pyarrow as pa

from stream_jobs.frames.arrays import Floats, Ints
from stream_jobs.rules.inputs import RuleInputs, concatenated, name_expressions, unknown_inputs
from stream_jobs.rules.model import Rule
from stream_jobs.vehicles.frame_features import FRAME_FEATURES


@dataclass(frozen=True, slots=True)
class Features:
    """What the n frames of a batch of records say, in the order of the records; a row a readable frame.

    ``ids``: the vehicles; ``vehicle``: [n], places of their ids there. ``frame_features``:
    [n, FRAME_FEATURES], doubles, NaN where not known; ``runs``: harsh runs by frame (RUN numbers each).
    """

    ids: Sequence[str]
    vehicle: Ints
    frame_features: Floats
    runs: Sequence[Sequence[float]]
    rules: RuleInputs

    def __len__(self) -> int:
        """Number of frames."""
        return len(self.vehicle)

    def __getitem__(self, name: str) -> Floats:
        """A feature by frame, [n]."""
        return self.frame_features[:, FRAME_FEATURES.index(name)]

    def take(self, rows: Ints) -> Features:
        """Those frames."""
        runs = [self.runs[row] for row in rows.tolist()]
        return Features(self.ids, self.vehicle[rows], self.frame_features[rows], runs, self.rules.take(rows))

    def of(self, ids: Collection[str]) -> Features:
        """The frames of some vehicles."""
        wanted = np.array([vehicle_id in ids for vehicle_id in self.ids], np.bool_)
        return self.take(np.flatnonzero(wanted[self.vehicle]))


def joined(parts: Sequence[Features]) -> Features:
    """All of them, one after the other; there is at least one."""
    if len(parts) == 1:
        return parts[0]
    ids = dict.fromkeys(vehicle_id for part in parts for vehicle_id in part.ids)
    place = {vehicle_id: k for k, vehicle_id in enumerate(ids)}
    vehicle = [np.array([place[each] for each in part.ids], np.int64)[part.vehicle] for part in parts]
    return Features(
        [*ids],
        np.concatenate(vehicle),
        np.concatenate([part.frame_features for part in parts]),
        [run for part in parts for run in part.runs],
        concatenated([part.rules for part in parts]),
    )


def nothing_read(features: Features, rules: Sequence[Rule]) -> Features:
    """The frames, of which ``rules`` have not read anything."""
    return replace(features, rules=unknown_inputs(len(rules), len(features), [*name_expressions(rules)]))


class KeptFeatures(msgspec.Struct, array_like=True):
    """Features as plain values."""

    ids: list[str]
    vehicle: bytes
    frame_features: bytes
    runs: list[list[float]]
    codes: bytes
    values: bytes
    limits: bytes
    names: dict[int, list[list[str]]]


def dump_features(f: Features) -> KeptFeatures:
    """As plain values."""
    said = f.rules
    return KeptFeatures(
        list(f.ids), f.vehicle.tobytes(), f.frame_features.tobytes(), [list(run) for run in f.runs],
        said.codes.tobytes(), said.values.tobytes(), said.limits.tobytes(),
        {rule: texts.to_pylist() for rule, texts in said.names.items()},
    )  # fmt: skip


def load_features(kept: KeptFeatures) -> Features:
    """What ``dump_features`` took."""
    vehicle = np.frombuffer(kept.vehicle, np.int64)
    shape = (len(vehicle) and len(kept.codes) // len(vehicle), len(vehicle))
    rules = RuleInputs(
        np.frombuffer(kept.codes, np.uint8).reshape(shape),
        np.frombuffer(kept.values).reshape(shape),
        np.frombuffer(kept.limits).reshape(shape),
        {rule: pa.array(texts, pa.list_(pa.string())) for rule, texts in kept.names.items()},
    )
    frame_features = np.frombuffer(kept.frame_features).reshape(len(vehicle), len(FRAME_FEATURES))
    return Features(kept.ids, vehicle, frame_features, kept.runs, rules)
