"""A fleet that goes on driving: every two seconds the rows that the jobs would write."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from infra.clients.db import session

PAUSE_S: Final = 2.0
BEAT: Final = """
UPDATE odograph.vehicle_latest
SET event_time = now() - INTERVAL '1 second', updated_at = now(), lat_deg = lat_deg + 0.0001 * sin(extract(epoch FROM now()))
WHERE speed_kmh > 0;
INSERT INTO odograph.query_progress (query, at, query_id, batch_id, input_rows, rows_per_s, batch_ms, watermark,
                                     event_time_max, state_rows, state_bytes, dropped_late, dropped_duplicates, lag_records)
SELECT q, now(), '00000000-0000-4000-8000-000000000000', extract(epoch FROM now())::bigint, 8000, 8000, 900,
       now() - INTERVAL '61 seconds', now(), 1000, 1000000, 0, 0, 40
FROM unnest(ARRAY['telemetry', 'archive']) q ON CONFLICT DO NOTHING
"""  # noqa: E501


@contextmanager
def driving(url: str) -> Iterator[None]:
    """While the block runs. ``url``: of the role that writes."""
    stop = threading.Event()
    with session(url, autocommit=True) as connection:

        def beat() -> None:
            while not stop.wait(PAUSE_S):
                connection.execute(BEAT)

        thread = threading.Thread(target=beat, name="pulse", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
