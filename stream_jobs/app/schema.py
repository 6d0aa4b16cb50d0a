"""Names of columns that the jobs hand on."""

from typing import Final

COORDINATES: Final = ("topic", "partition", "log_offset")  # where a record lies in its log
LOG: Final = "log_generation"  # the column with the identity of that log
IDENTITY: Final = ("vehicle_id", "boot_id", "seq")
HEAD: Final = (*IDENTITY, "t0_ms", "dt_ms", "n")  # without one of these a frame is unreadable

WATERMARK_METADATA: Final = "spark.watermarkDelayMs"
"""Under this a column's metadata says that it is event time, and the delay of its watermark, ms."""
COUNTED: Final = "frames_counted"
"""What a stream observes: frames that were ``copies``, and that came to closed windows (``missed``)."""

ROAD_KEYS: Final = ("cell", "heading_sector", "window_start")
WRITER_COLUMNS: Final = ("batch_id", "revision", "restated_at")  # say who wrote a row, not what it says
