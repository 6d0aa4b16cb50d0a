"""Imported by every Python that finds this folder on its path first: workers with the defect named in MUTANT.

Spark's Python workers are programs of their own: a defect put into the driver does not reach them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from load_tests.drills.defects import replace
from stream_jobs.vehicles import sequencer
from stream_jobs.windows import open_windows


def _as_it_comes(_self: Any, arrival: sequencer.Arrival, *_: Any) -> Iterator[int]:
    """Each record goes on at once, whatever is missing before it, and copies too."""
    if arrival.row is not None:
        yield arrival.row


def _hasty(honest: Any) -> Any:
    """Windows are closed as soon as anything is received after their end: nothing in time is waited for."""

    def begin(self: Any, jobs: Any, *more: Any) -> None:
        honest(self, jobs.model_copy(update={"lateness_s": 0, "receipt_skew_s": -jobs.receipt_skew_s}), *more)

    return begin


def _silent(honest: Any) -> Any:
    """Nobody hears of the frames whose windows were closed, so nobody restates them."""

    def close(self: Any, watermark_ms: int) -> None:
        honest(self, watermark_ms)
        self.found.missed.clear()

    return close


def no_sequencer() -> None:
    """Frames of a vehicle go on in the order in which they come."""
    replace(sequencer.Order, "take", lambda _honest: _as_it_comes)


def early_close() -> None:
    """A window is closed at its end, and what comes then is forgotten."""
    replace(open_windows.OpenWindows, "__init__", _hasty)
    replace(open_windows.OpenWindows, "close", _silent)


{"no-sequencer": no_sequencer, "early-close": early_close}[os.environ["MUTANT"]]()
