"""The list of alerts while somebody works on it; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True, slots=True)
class Held:
    """The list as it stands still: ``numbers`` in their order, and how many others match by now."""

    numbers: tuple[int, ...]
    newcomers: int


def held(before: Sequence[int], matching: Sequence[int], still: bool) -> Held:
    """The list to show: as it was while somebody works on it (``still``), else as it is now.

    A list that is sorted anew under a hand makes it act on another alert than it meant. ``matching`` are the
    numbers that match the filters now, in their order; those that do no longer keep their place while still.
    """
    if not still or not before:
        return Held(tuple(matching), 0)
    return Held(tuple(before), len(set(matching) - set(before)))


def in_order(frame: pd.DataFrame, numbers: Sequence[int]) -> pd.DataFrame:
    """The rows of these alerts in this order; a number without a row is left out."""
    kept = frame.drop_duplicates("alert_no").set_index("alert_no", drop=False)
    return kept.loc[[n for n in numbers if n in kept.index]].reset_index(drop=True)


def neighbour(numbers: Sequence[int], current: int | None, step: int) -> int | None:
    """The alert ``step`` rows on from the current one, the first where none is; None past either end."""
    if current is None or current not in numbers:
        return numbers[0] if numbers else None
    place = list(numbers).index(current) + step
    return numbers[place] if 0 <= place < len(numbers) else None
