"""Gives crash records their verdict once telemetry has gone on past them, and again when it changes.

What is due is asked of the database, in event time: the vehicle's own time or the fleet's must have passed
the event. A verdict is a function of the record and of the windows around it, so a restart or a replay gives
the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import orjson

from infra.settings.job_sections import Crash
from stream_jobs.crashes.scene import Window, seen
from stream_jobs.crashes.verdict import SUSPECT, Verdict, judge

OWN_BEFORE_S: Final = 60
OTHERS_BEFORE_S: Final = 300
OTHERS_AFTER_S: Final = 90
WINDOW_S: Final = 10
"""Windows reach so far beyond a moment in them."""
PATIENCE_S: Final = 120
"""Where the vehicle itself says nothing any more, the fleet's time must have gone on so much further."""
FINAL_S: Final = 600
"""Then the verdict is taken once more: what links hold back has come by then."""
KEPT_DAYS: Final = 7
"""Older records are left alone: repaired windows change nothing there any more."""
AT_ONCE: Final = 50

DUE: Final = """
WITH fleet AS (SELECT max(event_time) AS now FROM odograph.vehicle_latest)
SELECT c.vehicle_id, c.boot_id, c.crash_id, (extract(epoch FROM c.event_time) * 1000)::bigint AS event_ms,
       c.lat_deg, c.lon_deg, coalesce(c.raw, c.record::text) AS record, b.basis,
       fleet.now >= c.event_time + make_interval(secs => %(final_s)s) AS final
FROM odograph.crash_record c
CROSS JOIN fleet
LEFT JOIN odograph.vehicle_latest l USING (vehicle_id)
LEFT JOIN odograph.crash_verdict v USING (vehicle_id, boot_id, crash_id)
CROSS JOIN LATERAL (
    SELECT format('%%s/%%s/%%s', count(*), sum(w.samples), sum(w.revision)) AS basis
    FROM odograph.vehicle_window w WHERE w.vehicle_id = c.vehicle_id
     AND w.window_start >= c.event_time - make_interval(secs => %(own_before_s)s)
     AND w.window_start < c.event_time + make_interval(secs => %(wait_s)s)
) b
WHERE c.event_time > fleet.now - make_interval(days => %(kept_days)s)
  AND (l.event_time >= c.event_time + make_interval(secs => %(wait_s)s)
       OR fleet.now >= c.event_time + make_interval(secs => %(wait_s)s + %(patience_s)s))
  AND (v.verdict IS NULL OR v.basis <> b.basis
       OR (NOT v.final AND fleet.now >= c.event_time + make_interval(secs => %(final_s)s)))
ORDER BY c.event_time, c.vehicle_id, c.boot_id, c.crash_id LIMIT %(at_once)s
"""

_WINDOW: Final = """
SELECT w.vehicle_id, (extract(epoch FROM w.window_start) * 1000)::bigint AS start_ms,
       (extract(epoch FROM w.window_start) * 1000)::bigint + w.window_s * 1000 AS end_ms,
       w.speed_max_kmh, w.speed_last_kmh, w.distance_m, w.moving_s, w.idle_s
FROM odograph.vehicle_window w
WHERE w.window_start >= to_timestamp(%(event_ms)s / 1000.0) - make_interval(secs => %(before_s)s)
  AND w.window_start < to_timestamp(%(event_ms)s / 1000.0) + make_interval(secs => %(after_s)s)
"""
OWN: Final = f"{_WINDOW} AND w.vehicle_id = %(vehicle_id)s ORDER BY w.window_start"
OTHERS: Final = f"""{_WINDOW} AND w.vehicle_id <> %(vehicle_id)s
  AND w.lat_deg BETWEEN %(lat_deg)s - %(reach_deg)s AND %(lat_deg)s + %(reach_deg)s
  AND power(w.lat_deg - %(lat_deg)s, 2) + power((w.lon_deg - %(lon_deg)s) * cosd(%(lat_deg)s), 2)
      <= power(%(reach_deg)s, 2)
ORDER BY w.vehicle_id, w.window_start
"""
DEG_PER_M: Final = 1 / 111_195

STORE: Final = """
INSERT INTO odograph.crash_verdict AS v
    (vehicle_id, boot_id, crash_id, event_time, verdict, reasons, figures, basis, final)
VALUES (%(vehicle_id)s, %(boot_id)s, %(crash_id)s, to_timestamp(%(event_ms)s / 1000.0), %(verdict)s,
        %(reasons)s, %(figures)s, %(basis)s, %(final)s)
ON CONFLICT (vehicle_id, boot_id, crash_id) DO UPDATE SET
    verdict = excluded.verdict, reasons = excluded.reasons, figures = excluded.figures,
    basis = excluded.basis, final = v.final OR excluded.final,
    revision = v.revision + (v.verdict <> excluded.verdict OR v.reasons <> excluded.reasons
                             OR v.figures <> excluded.figures)::integer,
    decided_at = now()
"""

Row = Mapping[str, Any]


class Cursor(Protocol):
    """What is needed of a database cursor whose rows are mappings."""

    def execute(self, query: str, params: Mapping[str, Any]) -> Any:
        """Run a statement."""

    def fetchall(self) -> list[dict[str, Any]]:
        """All rows of the last statement."""


@dataclass(frozen=True, slots=True)
class Settled:
    """What one look did: verdicts given, by word."""

    verdicts: Sequence[str]


def settle(cursor: Cursor, terms: Crash) -> Settled:
    """Give every record that is due its verdict, within the transaction of the cursor."""
    cursor.execute(DUE, _horizon(terms))
    return Settled([_settle_one(cursor, row, terms) for row in cursor.fetchall()])


def _horizon(terms: Crash) -> dict[str, Any]:
    return {
        "own_before_s": OWN_BEFORE_S + WINDOW_S,
        "wait_s": terms.still_to_s + WINDOW_S,
        "patience_s": PATIENCE_S,
        "final_s": FINAL_S,
        "kept_days": KEPT_DAYS,
        "at_once": AT_ONCE,
    }


def _settle_one(cursor: Cursor, row: Row, terms: Crash) -> str:
    own = {**row, "before_s": OWN_BEFORE_S + WINDOW_S, "after_s": terms.still_to_s + WINDOW_S}
    cursor.execute(OWN, own)
    mine = [Window(**found) for found in cursor.fetchall()]
    around = seen(row["event_ms"], mine, _others(cursor, row, terms), terms)
    try:
        verdict = judge(orjson.loads(row["record"]), around, terms)
    except Exception as error:  # noqa: BLE001  whatever a record holds, the others get their verdicts
        verdict = Verdict(SUSPECT, (f"it cannot be judged: {type(error).__name__}: {error}",), {})
    stored = {
        "verdict": verdict.verdict,
        "reasons": orjson.dumps(verdict.reasons).decode(),
        "figures": orjson.dumps(verdict.figures).decode(),
    }
    cursor.execute(STORE, {**row, **stored})
    return verdict.verdict


def _others(cursor: Cursor, row: Row, terms: Crash) -> list[Window]:
    """Windows of other vehicles near the place; none where the record does not know its place."""
    if row["lat_deg"] is None or row["lon_deg"] is None:
        return []
    span = {"before_s": OTHERS_BEFORE_S + WINDOW_S, "after_s": OTHERS_AFTER_S}
    cursor.execute(OTHERS, {**row, **span, "reach_deg": terms.near_m * DEG_PER_M})
    return [Window(**found) for found in cursor.fetchall()]
