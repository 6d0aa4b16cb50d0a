"""What all rules say of frames, in a narrow form: a byte a rule and frame for its flags, a value, a limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stream_jobs.frames.arrays import Floats, Ints
from stream_jobs.rules.model import Rule

Answers = npt.NDArray[np.int8]
"""Three-valued: 1 true, -1 false, 0 not known. So AND is the minimum, OR the maximum, NOT the negative."""
FLAGS: Final = ("holds", "clears", "armed", "learns")
WEIGHTS: Final = (1, 3, 9, 27)
"""Of FLAGS in the number that they are together: each 0 not known, 1 false, 2 true."""
KNOWN: Final = 81  # what a code has more than its flags where the value is known
CODES: Final = 2 * KNOWN
_FLAGS_OF: Final = np.array([flags[::-1] for flags in product((0, -1, 1), repeat=4)] * 2, np.int8)


@dataclass(frozen=True, slots=True)
class Names:
    """Names of frames ``rows`` [k] out of those of a batch: ``numbers`` [k] say which of ``words``, the
    different names of the batch joined by commas, are each frame's.
    """

    texts: pa.ListArray
    rows: Ints
    numbers: Ints
    words: Sequence[str]


@dataclass(frozen=True, slots=True)
class RuleEvaluation:
    """One rule over k frames, columns [k].

    ``holds``: its condition is true and its value beyond the limit (kinds that work on a value of their own:
    the condition alone). ``clears``: the value is back behind the level that ends it. ``armed``: what the
    rule calls ``while``. ``learns``: whether a baseline takes the value in. ``value``, ``limit``: NaN where
    not known; of kind unchanged the limit is what the value follows. ``names``: what each is about (trouble
    codes, gear, wheel).
    """

    holds: Answers
    clears: Answers
    armed: Answers
    learns: Answers
    value: Floats
    limit: Floats
    names: Names | None = None

    def names_of(self, lane: int) -> tuple[str, ...]:
        """The names of one frame."""
        return () if self.names is None else tuple(self.names.texts[int(self.names.rows[lane])].as_py())

    def of(self, lanes: Ints) -> RuleEvaluation:
        """Those at ``lanes`` among the k, in their order."""
        if len(lanes) == len(self.value):
            return self
        names = self.names
        if names is not None:
            names = replace(names, rows=names.rows[lanes], numbers=names.numbers[lanes])
        flags = self.holds[lanes], self.clears[lanes], self.armed[lanes], self.learns[lanes]
        return RuleEvaluation(*flags, self.value[lanes], self.limit[lanes], names)


@dataclass(frozen=True, slots=True)
class RuleInputs:
    """What all rules say of a batch of frames, arrays [n_rules, n_frames].

    ``codes``: a rule's flags as one number, and whether its value is known; ``values``, ``limits``: NaN where
    not known; ``names``: by rule's place, for those that have names, a list of texts a frame.
    """

    codes: npt.NDArray[np.uint8]
    values: Floats
    limits: Floats
    names: Mapping[int, pa.ListArray]
    _words: dict[int, tuple[Ints, Sequence[str]]] = field(default_factory=dict)

    def of(self, rule: int, rows: Ints) -> RuleEvaluation:
        """The rule at place ``rule`` over frames ``rows`` [k]."""
        holds, clears, armed, learns = _FLAGS_OF[self.codes[rule, rows]].T
        texts = self.names.get(rule)
        names = None
        if texts is not None:
            if rule not in self._words:
                coded = pc.dictionary_encode(pc.binary_join(texts, ","))
                self._words[rule] = coded.indices.to_numpy(), coded.dictionary.to_pylist()
            numbers, words = self._words[rule]
            names = Names(texts, rows, numbers[rows], words)
        values, limits = self.values[rule, rows], self.limits[rule, rows]
        return RuleEvaluation(holds, clears, armed, learns, values, limits, names)

    def take(self, rows: Ints) -> RuleInputs:
        """Of frames ``rows``."""
        names = {rule: each.take(pa.array(rows)) for rule, each in self.names.items()}
        return RuleInputs(self.codes[:, rows], self.values[:, rows], self.limits[:, rows], names)


def name_expressions(rules: Sequence[Rule]) -> dict[int, str]:
    """The expressions for names, by the place of the rule."""
    return {k: rule.stateful.names for k, rule in enumerate(rules) if rule.stateful and rule.stateful.names}


def unknown_inputs(rules: int, frames: int, named: Sequence[int] = ()) -> RuleInputs:
    """Of frames that no rule can say anything of; rules at places ``named`` have names."""
    none, no_names = np.full((rules, frames), np.nan), pa.array([[]] * frames, pa.list_(pa.string()))
    return RuleInputs(np.zeros((rules, frames), np.uint8), none, none, dict.fromkeys(named, no_names))


def concatenated(parts: Sequence[RuleInputs]) -> RuleInputs:
    """What the same rules say of the frames of all parts; there is at least one."""
    return RuleInputs(
        np.concatenate([part.codes for part in parts], axis=1),
        np.concatenate([part.values for part in parts], axis=1),
        np.concatenate([part.limits for part in parts], axis=1),
        {rule: pa.concat_arrays([part.names[rule] for part in parts]) for rule in parts[0].names},
    )


def code_of(flags: Sequence[Any], value: Any) -> Any:
    """FLAGS (Answers) and whether ``value`` is known, as one number."""
    digits = (weight * (np.abs(flag) + (flag > 0)) for flag, weight in zip(flags, WEIGHTS, strict=True))
    return sum(digits) + KNOWN * ~np.isnan(value)


def all_codes() -> RuleEvaluation:
    """An evaluation of each code, [CODES]; the value is 0 where one is known."""
    value = np.where(np.arange(CODES) >= KNOWN, 0.0, np.nan)
    holds, clears, armed, learns = _FLAGS_OF.T
    return RuleEvaluation(holds, clears, armed, learns, value, np.full(CODES, np.nan))
