"""What all rules say of frames: flags, a value, a limit, and for some the names of what they are about."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stream_jobs.frames.arrays import Floats, Ints

Answers = npt.NDArray[np.int8]
"""Three-valued: 1 true, -1 false, 0 not known. So AND is the minimum, OR the maximum, NOT the negative."""
FLAGS: Final = ("holds", "clears", "armed", "learns")
_TEXTS: Final = pa.list_(pa.string())


def beyond(value: Floats, limit: Any, above: bool) -> Answers:
    """Whether values are on the wrong side of their limits; not known where one of both is not."""
    high, low = (value, limit) if above else (limit, value)
    found: Answers = (high > low).astype(np.int8) - (high <= low)
    return found


@dataclass(frozen=True, slots=True)
class Names:
    """What frames are about, [k]: lists of texts; ``numbers`` [k] say which of ``words``, the different ones
    joined by commas, are each frame's.
    """

    texts: pa.ListArray
    numbers: Ints
    words: Sequence[str]

    @classmethod
    def of_texts(cls, texts: pa.ListArray) -> "Names":
        coded = pc.dictionary_encode(pc.binary_join(texts, ","))
        return cls(texts, coded.indices.to_numpy(), coded.dictionary.to_pylist())

    def take(self, rows: Ints) -> "Names":
        return replace(self, texts=self.texts.take(pa.array(rows)), numbers=self.numbers[rows])


@dataclass(frozen=True, slots=True)
class RuleEvaluation:
    """One rule over k frames, columns [k].

    ``holds``: its condition is true and its value beyond the limit (kinds that work on a value of their own:
    the condition alone). ``clears``: the value is back behind the level that ends it. ``armed``: what the
    rule calls ``while``. ``learns``: whether a baseline takes the value in. ``value``, ``limit``: NaN where
    not known; of kind unchanged the limit is what the value follows. ``names``: what frames are about
    (trouble codes, gear, wheel), these at its rows ``at`` [k].
    """

    holds: Answers
    clears: Answers
    armed: Answers
    learns: Answers
    value: Floats
    limit: Floats
    names: Names | None = None
    at: Ints | None = None

    def names_of(self, lane: int) -> tuple[str, ...]:
        if self.names is None or self.at is None:
            return ()
        return tuple(self.names.texts[int(self.at[lane])].as_py())

    def of(self, lanes: Ints) -> "RuleEvaluation":
        """Those at ``lanes`` among the k, in their order."""
        if len(lanes) == len(self.value):
            return self
        flags = self.holds[lanes], self.clears[lanes], self.armed[lanes], self.learns[lanes]
        at = None if self.at is None else self.at[lanes]
        return RuleEvaluation(*flags, self.value[lanes], self.limit[lanes], self.names, at)


@dataclass(frozen=True, slots=True)
class RuleInputs:
    """What all rules say of a batch of frames: FLAGS (Answers) [4, n_rules, n_frames], and two numbers
    [n_rules, n_frames], NaN where not known; ``names``: by rule's place, for those that have names.
    """

    flags: Answers
    values: Floats
    limits: Floats
    names: Mapping[int, Names]

    def of(self, rule: int, rows: Ints | None = None) -> RuleEvaluation:
        """The rule at place ``rule`` over frames ``rows`` [k], or over all, then without their names."""
        at = slice(None) if rows is None else rows
        holds, clears, armed, learns = self.flags[:, rule, at]
        numbers = self.values[rule, at], self.limits[rule, at]
        return RuleEvaluation(holds, clears, armed, learns, *numbers, self.names.get(rule), rows)

    def take(self, rows: Ints) -> "RuleInputs":
        names = {rule: each.take(rows) for rule, each in self.names.items()}
        return RuleInputs(self.flags[:, :, rows], self.values[:, rows], self.limits[:, rows], names)


def unknown_inputs(rules: int, frames: int, named: Sequence[int] = ()) -> RuleInputs:
    """Of frames that no rule can say anything of; rules at places ``named`` have names."""
    numbers, flags = np.full((2, rules, frames), np.nan), np.zeros((len(FLAGS), rules, frames), np.int8)
    names = dict.fromkeys(named, Names.of_texts(pa.array([[]] * frames, _TEXTS))) if named else {}
    return RuleInputs(flags, numbers[0], numbers[1], names)


def concatenated(parts: Sequence[RuleInputs]) -> RuleInputs:
    """What the same rules say of the frames of all parts; there is at least one."""
    texts = {rule: pa.concat_arrays([part.names[rule].texts for part in parts]) for rule in parts[0].names}
    return RuleInputs(
        np.concatenate([part.flags for part in parts], axis=2),
        np.concatenate([part.values for part in parts], axis=1),
        np.concatenate([part.limits for part in parts], axis=1),
        {rule: Names.of_texts(each) for rule, each in texts.items()},
    )
