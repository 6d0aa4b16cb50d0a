"""Questions about crash records: the vault."""

from __future__ import annotations

from typing import Final

import pandas as pd

from dashboard.queries import Connection, frame

RECORD_LIMIT: Final = 500
CUSTODY_LIMIT: Final = 200
POINT_LIMIT: Final = 2_000

Key = tuple[str, int, str]
"""Vehicle id, boot id, crash id."""


def crash_list(
    connection: Connection, vehicle_id: str | None = None, verdict: str | None = None
) -> pd.DataFrame:
    """Records without their curves, the newest first; at most RECORD_LIMIT rows.

    ``defects`` is how many there are; null: not checked.
    """
    return frame(
        connection,
        """
        SELECT vehicle_id, boot_id, crash_id, event_time, received_at, profile, delta_v_max_kmh,
               airbag_deployed, complete, hash_ok, jsonb_array_length(defects) AS defects, locked_at, verdict,
               lat_deg, lon_deg
        FROM serving.crash_record
        WHERE (%(vehicle_id)s::text IS NULL OR vehicle_id = %(vehicle_id)s)
          AND (%(verdict)s::text IS NULL OR verdict = %(verdict)s)
        ORDER BY event_time DESC, vehicle_id, crash_id LIMIT %(limit)s
        """,
        vehicle_id=vehicle_id,
        verdict=verdict,
        limit=RECORD_LIMIT,
    )


def crash(connection: Connection, key: Key) -> pd.DataFrame:
    """One record with its integrity: one row or none."""
    return frame(
        connection,
        """
        SELECT c.*, i.digest, i.noted_digest, i.unchanged, i.raw_kept
        FROM serving.crash_record c JOIN serving.crash_integrity i USING (vehicle_id, boot_id, crash_id)
        WHERE vehicle_id = %(vehicle_id)s AND boot_id = %(boot_id)s AND crash_id = %(crash_id)s
        """,
        **_named(key),
    )


def delta_v(connection: Connection, key: Key) -> pd.DataFrame:
    """Change of velocity after time zero, km/h, a row a point."""
    return frame(
        connection,
        """
        SELECT sample, t_ms, delta_v_kmh, delta_v_lat_kmh FROM serving.crash_delta_v
        WHERE vehicle_id = %(vehicle_id)s AND boot_id = %(boot_id)s AND crash_id = %(crash_id)s
        ORDER BY sample LIMIT %(limit)s
        """,
        limit=POINT_LIMIT,
        **_named(key),
    )


def pre_crash(connection: Connection, key: Key) -> pd.DataFrame:
    """The samples before time zero, the last at 0 ms."""
    return frame(
        connection,
        """
        SELECT sample, t_ms, speed_kmh, accelerator_pct, brake_on, engine_rpm, steering_deg, abs_active,
               esc_active
        FROM serving.crash_pre_crash
        WHERE vehicle_id = %(vehicle_id)s AND boot_id = %(boot_id)s AND crash_id = %(crash_id)s
        ORDER BY sample LIMIT %(limit)s
        """,
        limit=POINT_LIMIT,
        **_named(key),
    )


def custody(connection: Connection, key: Key) -> pd.DataFrame:
    """What was done with a record, the newest CUSTODY_LIMIT entries in their order."""
    return frame(
        connection,
        """
        SELECT * FROM (
            SELECT * FROM serving.custody_link
            WHERE vehicle_id = %(vehicle_id)s AND boot_id = %(boot_id)s AND crash_id = %(crash_id)s
            ORDER BY entry DESC LIMIT %(limit)s) c
        ORDER BY entry
        """,
        limit=CUSTODY_LIMIT,
        **_named(key),
    )


def _named(key: Key) -> dict[str, str | int]:
    return dict(zip(("vehicle_id", "boot_id", "crash_id"), key, strict=True))
