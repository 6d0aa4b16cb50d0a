"""The database's side of the scorecard: truth, alerts, trips, harsh events and verdicts of one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import psycopg
from psycopg.rows import dict_row

from infra.clients.db import connected
from infra.contract.errors import ConfigError
from load_tests.score.card import Found, Happened
from load_tests.score.events import Claim, Truth

MARGIN_MS: Final = 10_000
"""Claims up to so long after a run's end are judged; silence then is nobody's fault."""
_TRUTH: Final = """
SELECT kind, what, vehicle_id, (extract(epoch FROM from_time) * 1000)::bigint AS from_ms,
       (extract(epoch FROM full_time) * 1000)::bigint AS full_ms,
       (extract(epoch FROM to_time) * 1000)::bigint AS to_ms, details
FROM odograph.truth WHERE run_id = %s ORDER BY from_time, truth_id
"""
_LAST: Final = "SELECT run_id FROM odograph.truth GROUP BY run_id ORDER BY max(from_time) DESC LIMIT 1"
_VEHICLES: Final = """
SELECT DISTINCT vehicle_id FROM odograph.vehicle_window
WHERE window_start BETWEEN to_timestamp(%(from_ms)s / 1000.0) AND to_timestamp(%(to_ms)s / 1000.0)
EXCEPT SELECT vehicle_id FROM odograph.truth WHERE run_id <> %(run_id)s
UNION SELECT vehicle_id FROM odograph.truth WHERE run_id = %(run_id)s
"""
_SPAN: Final = """
 vehicle_id = ANY(%(vehicles)s)
  AND {column} BETWEEN to_timestamp(%(from_ms)s / 1000.0) AND to_timestamp(%(to_ms)s / 1000.0)
"""


@dataclass(frozen=True, slots=True)
class _Source:
    """A table of claims: which columns say what, when from, when to, and what people are told."""

    table: str
    what: str
    begin: str
    end: str
    label: str
    where: str = "true"
    incident: str = "NULL::bigint"

    def query(self) -> str:
        """All claims of some vehicles in a span of time."""
        return f"""
            SELECT {self.what} AS what, vehicle_id,
                   (extract(epoch FROM {self.begin}) * 1000)::bigint AS from_ms,
                   (extract(epoch FROM coalesce({self.end}, {self.begin})) * 1000)::bigint AS to_ms,
                   {self.label} AS label, {self.incident} AS incident
            FROM {self.table} WHERE {self.where} AND {_SPAN.format(column=self.begin)} ORDER BY 3, 2, 1
        """


ALARMS: Final = _Source(
    "odograph.alert",
    "rule",
    "opened_at",
    "last_at",
    "format('%%s value %%s limit %%s', severity, value, limit_value)",
    "withdrawn_at IS NULL",
    "incident_no",
)
TRIPS: Final = _Source(
    "odograph.trip", "'trip'", "started_at", "ended_at", "format('%%s, %%s m', phase, round(distance_m))"
)
HARSH: Final = _Source(
    "odograph.harsh_event", "kind", "began_at", "ended_at", "format('%%s g at %%s km/h', peak_g, speed_kmh)"
)
VERDICTS: Final = _Source("odograph.crash_verdict", "'crash'", "event_time", "event_time", "crash_id",
                          "verdict = 'confirmed'")  # fmt: skip


def read(url: str, run_id: str | None) -> tuple[Happened, Found]:
    """A run, or the one with the newest event of truth; without clones. Raises ConfigError, ServiceError."""
    with connected(url, row_factory=dict_row) as connection:
        name = run_id or _last(connection)
        rows = connection.execute(_TRUTH, (name,)).fetchall()
        if not rows:
            raise ConfigError(f"{name}: no truth of it is in the database; odograph truth load {name}")
        happened = sorted_in(name, rows)
        return happened, _found(connection, happened)


def sorted_in(run_id: str, rows: Sequence[dict[str, Any]]) -> Happened:
    """Truth by kind. A run's end is where what still went on was cut, else the last thing told."""
    kinds: dict[str, list[Truth]] = {}
    for row in rows:
        kinds.setdefault(row["kind"], []).append(_truth(row))
    spans = [*kinds.get("trip", []), *kinds.get("stop", [])]
    cut = [truth.to_ms or 0 for truth in spans if not truth.details.get("whole", True)]
    told = [truth.to_ms or truth.from_ms for truths in kinds.values() for truth in truths]
    end_ms = max(cut or told)
    begin_ms = min((truth.from_ms for truth in spans), default=0)
    ran = {(t.what, t.vehicle_id, t.from_ms): t.details for t in kinds.get("engine", [])}
    broken = [
        replace(t, details={**t.details, **ran.get((t.what, t.vehicle_id, t.from_ms), {})})
        for t in kinds.get("fault", [])
    ]  # fmt: skip
    outages = [
        replace(truth, what="outage", details={**truth.details, "lasts_s": _length_s(truth, end_ms)})
        for truth in kinds.get("outage", [])
    ]
    return Happened(
        run_id=run_id,
        end_ms=end_ms,
        faults=[*broken, *kinds.get("code", []), *outages, *kinds.get("clone", [])],
        trips=[_with_ends(trip, begin_ms, end_ms) for trip in kinds.get("trip", [])],
        stops=kinds.get("stop", []),
        harsh=kinds.get("harsh", []),
        harsh_near=kinds.get("harsh_near", []),
        untrue=[*kinds.get("clone", []), *kinds.get("clock", [])],
        clones=kinds.get("clone", []),
    )


def _truth(row: dict[str, Any]) -> Truth:
    return Truth(row["what"], row["vehicle_id"], row["from_ms"], row["to_ms"], row["full_ms"], row["details"])


def _length_s(truth: Truth, end_ms: int) -> float:
    return ((end_ms if truth.to_ms is None else truth.to_ms) - truth.from_ms) / 1000


def _with_ends(trip: Truth, begin_ms: int, end_ms: int) -> Truth:
    """A trip that is not whole went on at the run's begin, at its end, or both."""
    whole = trip.details.get("whole", True)
    ends = {"begun": whole or trip.from_ms > begin_ms, "ended": whole or (trip.to_ms or end_ms) < end_ms}
    return replace(trip, details={**trip.details, **ends})


def _last(connection: psycopg.Connection[dict[str, Any]]) -> str:
    row = connection.execute(_LAST).fetchone()
    if row is None:
        raise ConfigError("no truth is in the database; odograph truth load RUN puts a run's there")
    return str(row["run_id"])


def _found(connection: psycopg.Connection[dict[str, Any]], happened: Happened) -> Found:
    told = [*happened.faults, *happened.trips, *happened.stops, *happened.harsh, *happened.harsh_near]
    span = {
        "run_id": happened.run_id,
        "from_ms": min((truth.from_ms for truth in told), default=happened.end_ms),
        "to_ms": happened.end_ms + MARGIN_MS,
    }
    vehicles = [row["vehicle_id"] for row in connection.execute(_VEHICLES, span)]
    within = span | {"vehicles": vehicles}
    return Found(
        alarms=_claims(connection, ALARMS, within) or [],
        trips=_claims(connection, TRIPS, within),
        harsh=_claims(connection, HARSH, within),
        confirmed=_claims(connection, VERDICTS, within),
        clones=[],
    )


def _claims(
    connection: psycopg.Connection[dict[str, Any]], source: _Source, within: dict[str, Any]
) -> list[Claim] | None:
    """None where the table is not there."""
    row = connection.execute("SELECT to_regclass(%s) IS NOT NULL AS there", (source.table,)).fetchone()
    if row is None or not row["there"]:
        return None
    return [Claim(**found) for found in connection.execute(source.query().encode(), within)]
