"""Which incident each alert belongs to, written within the transaction of the cursor that is handed in.

Alerts whose span is new wait with ``to_join``, whoever wrote them: this store, the batch layer, or a version
before there were incidents. Only what is near them in time is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from infra.contract.incidents import Causes, Piece, is_fleet, joined
from stream_jobs.events.rows import Cursor, Row, as_json

AT_ONCE: Final = 2000
_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtext('odograph incidents'))"
_ALERT: Final = """
SELECT a.alert_no, a.vehicle_id, a.rule, (extract(epoch FROM a.opened_at) * 1000)::bigint AS from_ms,
       (extract(epoch FROM a.last_at) * 1000)::bigint AS to_ms, a.first_alert_id, a.to_join,
       a.incident_no, i.incident_id, i.cause, i.incident_no IS NOT NULL AND i.vehicle_id IS NULL AS fleet
FROM odograph.alert a LEFT JOIN odograph.incident i USING (incident_no)
"""
_WAITING: Final = f"""
{_ALERT} WHERE a.to_join AND a.withdrawn_at IS NULL ORDER BY a.alert_no LIMIT %(most)s FOR UPDATE OF a
"""
_NEAR: Final = f"""
{_ALERT} WHERE a.vehicle_id = ANY(%(vehicles)s) AND i.cause = ANY(%(causes)s)
    AND a.last_at >= to_timestamp(%(low_ms)s / 1000.0) AND a.opened_at <= to_timestamp(%(high_ms)s / 1000.0)
    AND a.withdrawn_at IS NULL AND NOT a.to_join
UNION
{_ALERT} WHERE i.cause = ANY(%(fleets)s) AND a.withdrawn_at IS NULL AND NOT a.to_join
    AND a.opened_at BETWEEN to_timestamp(%(low_ms)s / 1000.0) AND to_timestamp(%(high_ms)s / 1000.0)
"""
_OPEN: Final = """
INSERT INTO odograph.incident (incident_id, vehicle_id, cause)
SELECT n.incident_id, n.vehicle_id, n.cause
FROM jsonb_to_recordset(%(rows)s) AS n(incident_id text, vehicle_id text, cause text)
RETURNING incident_no, incident_id
"""
_ASSIGN: Final = """
UPDATE odograph.alert a SET incident_no = n.incident_no, to_join = false
FROM jsonb_to_recordset(%(rows)s) AS n(alert_no bigint, incident_no bigint) WHERE a.alert_no = n.alert_no
"""
_TAKE_OVER: Final = tuple(
    statement.replace("GONE", "jsonb_to_recordset(%(rows)s) AS n(kept bigint, gone bigint)")
    for statement in (
        "UPDATE odograph.alert a SET incident_no = n.kept FROM GONE WHERE a.incident_no = n.gone",
        # Whoever is about to write a note on one that goes is waited for: the note moves along.
        "SELECT FROM odograph.incident i, GONE WHERE i.incident_no IN (n.kept, n.gone) FOR UPDATE OF i",
        "UPDATE odograph.incident_note o SET incident_no = n.kept FROM GONE WHERE o.incident_no = n.gone",
        """
UPDATE odograph.incident i SET assigned_to = coalesce(i.assigned_to, g.assigned_to)
FROM (SELECT n.kept, min(o.assigned_to) AS assigned_to
      FROM GONE JOIN odograph.incident o ON o.incident_no = n.gone GROUP BY n.kept) g
WHERE i.incident_no = g.kept
""",
        """
INSERT INTO odograph.incident_note (incident_no, kind, text)
SELECT kept, 'joined', 'took in ' || count(*) || ': ' || left(string_agg(gone::text, ', ' ORDER BY gone), 400)
FROM GONE GROUP BY kept
""",
        "DELETE FROM odograph.incident i USING GONE WHERE i.incident_no = n.gone",
    )
)
"""Incidents take others in: what was found, said and given moves along. Alerts first, as people lock them."""
_OF_FLEET: Final = """
WITH made AS (UPDATE odograph.incident SET vehicle_id = NULL
              WHERE incident_no = ANY(%(numbers)s) AND vehicle_id IS NOT NULL RETURNING incident_no)
INSERT INTO odograph.incident_note (incident_no, kind, text)
SELECT incident_no, 'fleet', 'many vehicles at once: an incident of the fleet' FROM made
"""

Told = list[tuple[str, bytes]]
"""Keys and values for the topic ``incidents``."""


def join_waiting(cursor: Cursor, causes: Causes) -> Told:
    """Find the incident of each alert that waits, at most AT_ONCE; the store's word on those that changed."""
    cursor.execute(_LOCK, {})
    cursor.execute(_WAITING, {"most": AT_ONCE})
    waiting = cursor.fetchall()
    if not waiting:
        return []
    alerts = sorted([*waiting, *_near(cursor, causes, waiting)], key=lambda row: row["alert_no"])
    by_cause: dict[str, list[Row]] = {}
    for row in alerts:
        by_cause.setdefault(row["cause"] or causes.of(row["rule"]), []).append(row)
    told: Told = []
    for cause, rows in by_cause.items():
        told += _join(cursor, cause, rows, causes)
    return told


def _near(cursor: Cursor, causes: Causes, waiting: Sequence[Row]) -> list[Row]:
    """Alerts that have an incident and may be of one with these."""
    of = {row["cause"] or causes.of(row["rule"]) for row in waiting}
    reach_ms = max(max(causes.terms(cause).join_ms, causes.terms(cause).within_ms) for cause in of)
    cursor.execute(_NEAR, {
        "vehicles": sorted({row["vehicle_id"] for row in waiting}), "causes": sorted(of),
        "fleets": sorted(cause for cause in of if causes.terms(cause).vehicles is not None),
        "low_ms": min(row["from_ms"] for row in waiting) - reach_ms,
        "high_ms": max(row["to_ms"] for row in waiting) + reach_ms,
    })  # fmt: skip
    return cursor.fetchall()


def _join(cursor: Cursor, cause: str, rows: Sequence[Row], causes: Causes) -> Told:
    """The incidents of one cause, in the order of their numbers, then of their first alerts'."""
    numbers = {row["incident_id"]: row["incident_no"] for row in rows if row["incident_no"] is not None}
    waits = {row["alert_no"] for row in rows if row["to_join"]}
    ordered = sorted(
        rows, key=lambda row: (row["incident_no"] is None, row["incident_no"] or row["alert_no"])
    )
    pieces = [
        Piece(row["vehicle_id"], row["from_ms"], row["to_ms"], row["incident_id"] or row["first_alert_id"],
              row["fleet"], row["alert_no"])
        for row in ordered
    ]  # fmt: skip
    groups = [group for group in joined(pieces, causes.terms(cause)) if any(p.number in waits for p in group)]
    fresh = [group[0] for group in groups if group[0].incident_id not in numbers]
    opened = [{"incident_id": p.incident_id, "vehicle_id": p.vehicle_id, "cause": cause} for p in fresh]
    if opened:
        cursor.execute(_OPEN, {"rows": as_json(opened)})
        numbers |= {row["incident_id"]: row["incident_no"] for row in cursor.fetchall()}
    assigned, gone, told = list[Row](), list[Row](), Told()
    for group in groups:
        kept, of_fleet = group[0].incident_id, is_fleet(group)
        others = {p.incident_id for p in group} & numbers.keys() - {kept}
        gone += [{"kept": numbers[kept], "gone": numbers[other]} for other in others]
        new = [p for p in group if p.number in waits]
        assigned += [{"alert_no": p.number, "incident_no": numbers[kept]} for p in new]
        for vehicle in {p.vehicle_id for p in (group if others else new)}:
            mine = [p for p in group if p.vehicle_id == vehicle]
            span = min(p.from_ms for p in mine), max(p.to_ms for p in mine)
            told.append(Piece(vehicle, *span, kept, of_fleet).encode(cause))
    for statement in _TAKE_OVER if gone else ():
        cursor.execute(statement, {"rows": as_json(gone)})
    cursor.execute(_ASSIGN, {"rows": as_json(assigned)})
    cursor.execute(
        _OF_FLEET, {"numbers": [numbers[group[0].incident_id] for group in groups if is_fleet(group)]}
    )
    return told
