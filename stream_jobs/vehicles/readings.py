"""Readings on their way from Spark's expressions to the operator: numbers in one array, names in another.

A struct a rule would be a dictionary a rule and frame in Python; numbers in one array cost next to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  Spark's own convention

from stream_jobs.vehicles.beat import Reading
from stream_jobs.vehicles.plugged import Detection

FLAGS: Final = ("holds", "clears", "armed", "learns")
VALUES: Final = ("value", "limit")
NUMBERS: Final = (*FLAGS, *VALUES)
NAMES: Final = "names"


def reading_columns(detection: Detection) -> tuple[Column, Column]:
    """The readings of a frame: NUMBERS of each rule (array of doubles), names of each rule (arrays)."""
    numbers: list[Column] = []
    names: list[Column] = []
    for rule in detection.rules:
        assert detection.reading is not None
        struct = detection.reading(rule)
        numbers += [_number(struct, name) for name in NUMBERS]
        names.append(_names(struct))
    return (
        F.array(*numbers).cast("array<double>"),
        F.array(*names).cast("array<array<string>>"),
    )


def _number(struct: Column, name: str) -> Column:
    value = struct.getField(name)
    return F.coalesce((value.cast("int") if name in FLAGS else value).cast("double"), F.lit(float("nan")))


def _names(struct: Column) -> Column:
    names = F.array_compact(struct.getField(NAMES))  # a gear that is not known is no name
    return F.coalesce(names, F.array().cast("array<string>"))


def readings_of(numbers: Sequence[Any], names: Sequence[Any]) -> tuple[Reading, ...]:
    """The readings of a frame, of numbers that are None where not known."""
    width = len(NUMBERS)
    return tuple(
        _reading(numbers[place * width : (place + 1) * width], tuple(names[place]))
        for place in range(len(numbers) // width)
    )


def _reading(numbers: Sequence[Any], names: tuple[str, ...]) -> Reading:
    holds, clears, armed, learns = (None if flag is None else flag > 0 for flag in numbers[:4])
    return Reading(holds, clears, numbers[4], numbers[5], armed, learns, names)
