"""Windows out of archived records, as the batch layer makes them, without its ledger."""

from __future__ import annotations

import pyarrow as pa

from infra.contract.verdict import ClockLimits
from stream_jobs.windows.open_windows import OpenWindows, Terms, archived_frames
from stream_jobs.windows.places import SHARE
from stream_jobs.windows.vehicle import NO_WINDOWS


def archived_windows(records: pa.Table, terms: Terms, limits: ClockLimits) -> tuple[pa.Table, pa.Table]:
    """Rows of odograph.vehicle_window and shares of places (places.SHARE) out of archived records."""
    windows = OpenWindows(terms)
    for batch in archived_frames(records, limits):
        windows.take(batch, batch.believed)
    windows.give_out()
    shares = [SHARE.empty_table(), *windows.found.shares]
    return pa.concat_tables([NO_WINDOWS, *windows.found.vehicle]), pa.concat_tables(shares)
