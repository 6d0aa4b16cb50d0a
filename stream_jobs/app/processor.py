"""What Spark calls of the query ``telemetry``, by itself: the operator comes with the first records.

At each start of the query Spark starts a Python on the driver's machine that opens the state and ends. It
loads this module and nothing that the operator needs, which is 2 s of CPU of every start and takeover.
"""
# ruff: noqa: N802, N803  Spark's names

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from pyspark import cloudpickle
from pyspark.sql.streaming import stateful_processor as states

if TYPE_CHECKING:
    import pandas as pd

HEAD: Final = "memory string"
BLOCKS: Final = ("of_places boolean, start_ms long", "block string")

Opened = tuple[states.StatefulProcessorHandle, states.ValueState, states.MapState]
"""A bucket's values in Spark's state store; see ``telemetry.BucketState``."""


class Processor(states.StatefulProcessor):
    """An operator as Spark calls it: for a bucket with records, and for one whose timer is due.

    ``operator``: called with bucket, records, what ``store`` makes of ``Opened`` and the expired timer [ms]
    or None, and the watermark [ms].
    """

    def __init__(self, operator: Any, store: Any) -> None:
        self._packed = cloudpickle.dumps((operator, store))  # type: ignore[no-untyped-call]

    @cached_property
    def _unpacked(self) -> Any:
        return cloudpickle.loads(self._packed)

    def init(self, handle: states.StatefulProcessorHandle) -> None:
        """Open the state."""
        head, blocks = handle.getValueState("head", HEAD), handle.getMapState("blocks", *BLOCKS)
        self._state: Opened = handle, head, blocks

    def handleInputRows(  # type: ignore[override]
        self, key: Any, rows: "Iterator[pd.DataFrame]", timerValues: states.TimerValues
    ) -> "Iterator[pd.DataFrame]":
        """Records of a bucket."""
        return self._rows(key, rows, timerValues, None)

    def handleExpiredTimer(
        self, key: Any, timerValues: states.TimerValues, expiredTimerInfo: states.ExpiredTimerInfo
    ) -> "Iterator[pd.DataFrame]":
        """A bucket without records whose timer is due."""
        return self._rows(key, (), timerValues, expiredTimerInfo.getExpiryTimeInMs())

    def _rows(
        self, key: Any, rows: "Iterable[pd.DataFrame]", timers: states.TimerValues, expired_ms: int | None
    ) -> "Iterator[pd.DataFrame]":
        operator, store = self._unpacked
        state, watermark_ms = store(self._state, expired_ms), timers.getCurrentWatermarkInMs()
        found: Iterator[pd.DataFrame] = operator(int(key[0]), rows, state, watermark_ms)
        return found
