"""Imported by every Python that finds this folder on its path first: workers without a sequencer.

Spark's Python workers are programs of their own: a defect put into the driver does not reach them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from load_tests.drills.defects import replace
from stream_jobs.vehicles import sequencer
from stream_jobs.vehicles.beat import Beat


def _as_it_comes(_self: Any, arrival: sequencer.Arrival) -> Iterator[Beat]:
    """Each record goes on at once, whatever is missing before it, and copies too."""
    if arrival.beat is not None:
        yield arrival.beat


replace(sequencer.Sequencer, "take", lambda _honest: _as_it_comes)
