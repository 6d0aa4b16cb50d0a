"""Which rules the query ``vehicles`` looks at, with what: the seam between the query and its detectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column

from infra.contract.settings import Settings
from stream_jobs.rules import Rule
from stream_jobs.vehicles.beat import Detector


@dataclass(frozen=True, slots=True)
class Detection:
    """The rules, a detector for each, and how Spark reads each over a frame.

    ``reading`` gives a struct with the fields of beat.Reading, in their order.
    """

    rules: tuple[Rule, ...] = ()
    detectors: tuple[Detector, ...] = ()
    reading: Callable[[Rule], Column] | None = None


def detection(settings: Settings) -> Detection:  # noqa: ARG001  the rules file is among them
    """What is plugged in."""
    return Detection()
