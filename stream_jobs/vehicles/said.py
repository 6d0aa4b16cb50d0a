"""What all rules say of one frame, in a narrow form, and one rule's reading out of it; pure.

A reading a rule and frame costs more to make than most rules cost to follow. Nearly all say "all is well",
and the core sees that by a byte: a rule's flags are one number, its reading is made where it is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from stream_jobs.vehicles.beat import Reading, Said

FLAGS: Final = ("holds", "clears", "armed", "learns")
WEIGHTS: Final = (1, 3, 9, 27)
"""Of FLAGS in the number that they are together: each 0 not known, 1 false, 2 true."""
KNOWN: Final = 81
"""What a code has more than its flags where the value is known."""
_ANSWERS: Final = (None, False, True)
_FLAGS_OF: Final = tuple((h, c, a, learns) for learns, a, c, h in product(_ANSWERS, repeat=4)) * 2

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RuleInputs:
    """What all rules say of a batch of frames, arrays [n_frames, n_rules].

    ``codes``: a rule's flags as one number, and whether its value is known; ``values``, ``limits``: NaN where
    not known; ``named``: how many names each rule gives; ``names``: by frame those of all rules.
    """

    codes: npt.NDArray[np.uint8]
    values: Floats
    limits: Floats
    named: npt.NDArray[np.int64]
    names: Sequence[list[str]]


def nothing_said(frames: int, rules: int) -> RuleInputs:
    """Of frames that no rule can say anything of."""
    shape = (frames, rules)
    return RuleInputs(
        np.zeros(shape, np.uint8), np.full(shape, np.nan), np.full(shape, np.nan),
        np.zeros(shape, np.int64), [[]] * frames,
    )  # fmt: skip


def code_of(flags: Sequence[Any], value: Any) -> Any:
    """FLAGS (int8: 1 true, -1 false, 0 not known) and whether ``value`` is known, as one number."""
    digits = (weight * (np.abs(flag) + (flag > 0)) for flag, weight in zip(flags, WEIGHTS, strict=True))
    return sum(digits) + KNOWN * ~np.isnan(value)


def said_of(inputs: RuleInputs) -> list[Said]:
    """What rules say, frame by frame."""
    rules = inputs.codes.shape[1]
    whole = inputs.codes.tobytes()
    bytewise = [whole[k * rules : (k + 1) * rules] for k in range(len(inputs.codes))]
    numbers = (each.tolist() for each in (inputs.values, inputs.limits, inputs.named))
    return [*map(Said, bytewise, *numbers, inputs.names)]


def reading(said: Said, place: int) -> Reading:
    """The reading of the rule at ``place``."""
    code, limit = said.codes[place], said.limits[place]
    holds, clears, armed, learns = _FLAGS_OF[code]
    value = said.values[place] if code >= KNOWN else None
    names: tuple[str, ...] = ()
    count = said.named[place]
    if count:
        begin = sum(said.named[:place])
        names = tuple(said.names[begin : begin + count])
    known = limit if limit == limit else None  # noqa: PLR0124  a NaN; a call would cost more
    return Reading(holds, clears, value, known, armed, learns, names)


def pattern(code: int) -> Reading:
    """A reading of that code, whatever its numbers; the value is 0 where one is known."""
    holds, clears, armed, learns = _FLAGS_OF[code]
    return Reading(holds, clears, 0.0 if code >= KNOWN else None, None, armed, learns)


def inputs_of(frames: Sequence[Sequence[Reading]]) -> RuleInputs:
    """The inputs of frames out of readings made by hand, one a rule."""
    rules = len(frames[0]) if frames else 0
    flags = [[[_ANSWERS.index(getattr(each, name)) for each in frame] for frame in frames] for name in FLAGS]
    told = [[[_nan(each.value), _nan(each.limit), len(each.names)] for each in frame] for frame in frames]
    numbers = np.array(told, np.float64).reshape(len(frames), rules, 3)
    values, limits = numbers[:, :, 0], numbers[:, :, 1]
    codes = np.tensordot(WEIGHTS, np.array(flags).reshape(len(FLAGS), len(frames), rules), 1)
    names = [[name for each in frame for name in each.names] for frame in frames]
    codes = (codes + KNOWN * ~np.isnan(values)).astype(np.uint8)
    return RuleInputs(codes, values, limits, numbers[:, :, 2].astype(np.int64), names)


def as_said(readings: Sequence[Reading]) -> Said:
    """Readings made by hand, as a beat has them."""
    return said_of(inputs_of([readings]))[0]


def _nan(value: float | None) -> float:
    return float("nan") if value is None else value
