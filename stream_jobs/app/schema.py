"""Shapes of the frames of rows that the jobs hand on, derived from the contract's table of signals.

Every number is held as whole steps of its signal's resolution (bigint) from its parsing to the last line of
an aggregate: sums are exact and do not depend on the order of arrival.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from pyspark.sql import types as T  # noqa: N812  Spark's own convention

from infra.contract.signals import SIGNALS, Signal

COORDINATES: Final = ("topic", "partition", "log_offset")
"""Where a record lies in its log."""
LOG: Final = "log_generation"
"""The column with the identity of that log."""
IDENTITY: Final = ("vehicle_id", "boot_id", "seq")
HEAD: Final = (*IDENTITY, "t0_ms", "dt_ms", "n")
"""Fields of the head that the jobs need; a frame without one of them is unreadable."""

WATERMARK_METADATA: Final = "spark.watermarkDelayMs"
"""Under this a column's metadata says that it is event time, and the delay of its watermark, ms."""
COUNTED: Final = "frames_counted"
"""Name of what a stream observes: frames that were ``copies``, and that came when their windows were closed
(``missed``).
"""

WINDOW_KEYS: Final = ("vehicle_id", "window_start")
ROAD_KEYS: Final = ("cell", "heading_sector", "window_start")
EDGE_KEYS: Final = ("network_no", "edge_id", "window_start")
WRITER_COLUMNS: Final = ("batch_id", "revision", "restated_at")
"""Columns that say who wrote a row, not what it says."""
_SLOW: Final = {"number": T.DoubleType(), "flag": T.BooleanType(), "codes": T.ArrayType(T.StringType())}


def frame_schema(signals: Collection[Signal] = SIGNALS) -> T.StructType:
    """The head and ``signals``: fast ones as arrays of doubles, slow ones as scalars."""
    fast = [T.StructField(s.name, T.ArrayType(T.DoubleType())) for s in signals if s.rate == "fast"]
    slow = [T.StructField(s.name, _SLOW[s.kind]) for s in signals if s.rate == "slow"]
    head = [T.StructField(n, T.StringType() if n == "vehicle_id" else T.LongType()) for n in HEAD]
    return T.StructType([*head, *fast, *slow])
