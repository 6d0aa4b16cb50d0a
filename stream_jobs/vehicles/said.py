"""What all rules say of one frame, in a narrow form, and one rule's reading out of it; pure.

A reading a rule and frame costs more to make than most rules cost to follow. Nearly all say "all is well",
and the core sees that by a byte: a rule's flags are one number, its reading is made where it is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Final

import numpy as np
import numpy.typing as npt

from stream_jobs.vehicles.beat import Reading, Said

NUMBERS: Final = ("flags", "value", "limit", "named")
"""Blocks of a frame's numbers, one number a rule each; ``named``: how many of the names are the rule's."""
FLAGS: Final = ("holds", "clears", "armed", "learns")
WEIGHTS: Final = (1, 3, 9, 27)
"""Of FLAGS in the number that they are together: each 0 not known, 1 false, 2 true."""
KNOWN: Final = 81
"""What a code has more than its flags where the value is known."""
_ANSWERS: Final = (None, False, True)
_FLAGS_OF: Final = tuple((h, c, a, learns) for learns, a, c, h in product(_ANSWERS, repeat=4)) * 2

Floats = npt.NDArray[np.float64]


def said_of(numbers: Floats, names: Sequence[Sequence[str]]) -> list[Said]:
    """What rules say of each frame; ``numbers`` has a row a frame, NaN where not known."""
    rules = numbers.shape[1] // len(NUMBERS)
    flags, values, limits, named = (numbers[:, k * rules : (k + 1) * rules] for k in range(len(NUMBERS)))
    codes = (flags + KNOWN * ~np.isnan(values)).astype(np.uint8)
    whole = codes.tobytes()
    bytewise = [whole[k * rules : (k + 1) * rules] for k in range(len(numbers))]
    counts = named.astype(np.int64).tolist()
    return [*map(Said, bytewise, values.tolist(), limits.tolist(), counts, map(list, names))]


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


def packed(readings: Sequence[Reading]) -> tuple[Floats, list[str]]:
    """The numbers and names of one frame as Spark makes them (readings.py), of readings made by hand."""
    blocks = [
        [_code(each) for each in readings],
        [each.value for each in readings],
        [each.limit for each in readings],
        [len(each.names) for each in readings],
    ]
    return np.array(blocks, np.float64).ravel(), [name for each in readings for name in each.names]


def as_said(readings: Sequence[Reading]) -> Said:
    """Readings made by hand, as a beat has them."""
    numbers, names = packed(readings)
    return said_of(numbers.reshape(1, -1), [names])[0]


def _code(each: Reading) -> int:
    flags = (each.holds, each.clears, each.armed, each.learns)
    return sum(weight * _ANSWERS.index(flag) for weight, flag in zip(WEIGHTS, flags, strict=True))
