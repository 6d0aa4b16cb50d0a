"""How the archive's Parquet is written: what is repeated gets a dictionary, what is looked for statistics."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

REPEATED: Final = ["topic", "key", "vehicle_id", "verdict"]
INDEXED: Final = ["partition", "log_offset", "received_ms", "vehicle_id", "seq", "t0_ms", "verdict"]


def writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """A writer of a file of the archive."""
    return pq.ParquetWriter(
        path, schema, compression="zstd", use_dictionary=REPEATED, write_statistics=INDEXED
    )
