"""Frames made by hand, as the core for vehicles takes them: features by name, and what each rule says."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from stream_jobs.rules.inputs import FLAGS, Names, RuleInputs, unknown_inputs
from stream_jobs.vehicles.features import FRAME_FEATURES, Features


class Evaluation(NamedTuple):
    """One rule over one frame; None where the frame does not tell. See inputs.RuleEvaluation."""

    holds: bool | None = None
    clears: bool | None = None
    value: float | None = None
    limit: float | None = None
    armed: bool | None = None
    learns: bool | None = None
    names: tuple[str, ...] = ()


def inputs_of(frames: Sequence[Sequence[Evaluation]], named: Sequence[int] = (0,)) -> RuleInputs:
    """The inputs of frames out of readings, one a rule; rules at places ``named`` have names."""
    by_rule = list(zip(*frames, strict=True))
    answers = {None: 0, False: -1, True: 1}
    flags = [[[answers[getattr(each, name)] for each in readings] for readings in by_rule] for name in FLAGS]
    texts = {k: pa.array([each.names for each in by_rule[k]], pa.list_(pa.string())) for k in named}
    return RuleInputs(
        np.array(flags, np.int8).reshape(len(FLAGS), len(by_rule), len(frames)),
        np.array([[_nan(each.value) for each in readings] for readings in by_rule]),
        np.array([[_nan(each.limit) for each in readings] for readings in by_rule]),
        {k: Names.of_texts(each) for k, each in texts.items()},
    )


def evaluation(inputs: RuleInputs, rule: int, row: int) -> Evaluation:
    """What one rule says of one frame."""
    found = inputs.of(rule, np.array([row]))
    flags = [{0: None, -1: False, 1: True}[int(getattr(found, name)[0])] for name in FLAGS]
    value, limit = (None if math.isnan(each[0]) else float(each[0]) for each in (found.value, found.limit))
    return Evaluation(flags[0], flags[1], value, limit, flags[2], flags[3], found.names_of(0))


def features_of(
    frames: Sequence[Mapping[str, Any]],
    rules: RuleInputs | None = None,
    vehicles: Sequence[str] | None = None,
) -> Features:
    """Frames by their features, those of one vehicle unless said; ``runs``: their harsh runs."""
    names = ["V"] * len(frames) if vehicles is None else list(vehicles)
    ids = [*dict.fromkeys(names)]
    features = [
        [math.nan if frame.get(name) is None else frame[name] for name in FRAME_FEATURES] for frame in frames
    ]
    return Features(
        ids,
        np.array([ids.index(name) for name in names], np.int64),
        np.array(features, np.float64).reshape(len(frames), len(FRAME_FEATURES)),
        [frame.get("runs", ()) for frame in frames],
        unknown_inputs(0, len(frames)) if rules is None else rules,
    )


def _nan(value: float | None) -> float:
    return math.nan if value is None else value
