"""Readings on their way from Spark's expressions to the operator: numbers in one array, names in another.

A struct a rule would be a dictionary a rule and frame in Python; numbers in one array cost next to nothing.
"""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  Spark's own convention

from stream_jobs.vehicles.plugged import Detection
from stream_jobs.vehicles.said import FLAGS, WEIGHTS

TEXTS: Final = "array<string>"


def reading_columns(detection: Detection) -> tuple[Column, Column]:
    """The readings of a frame: said.NUMBERS (array of doubles, a block after the other), and all names."""
    assert detection.reading is not None or not detection.rules
    read = [] if detection.reading is None else [detection.reading(rule) for rule in detection.rules]
    names = [_names(columns["names"]) for columns in read]
    numbers = [
        *(_flags(columns) for columns in read),
        *(_number(columns["value"]) for columns in read),
        *(_number(columns["limit"]) for columns in read),
        *(F.size(each).cast("double") for each in names),
    ]
    flat = F.flatten(F.array(*names)) if names else F.array()
    return F.array(*numbers).cast("array<double>"), flat.cast(TEXTS)


def _flags(columns: dict[str, Column]) -> Column:
    """The flags as one number."""
    digits = (F.coalesce(columns[name].cast("int") + 1, F.lit(0)) for name in FLAGS)
    weighed = (digit * weight for digit, weight in zip(digits, WEIGHTS, strict=True))
    return reduce(add, weighed).cast("double")


def _number(value: Column) -> Column:
    return F.coalesce(value, F.lit(float("nan")))


def _names(names: Column) -> Column:
    known = F.array_compact(names)  # a gear that is not known is no name
    return F.coalesce(known, F.array().cast(TEXTS))
