"""The ledger of the batch layer's runs: what was asked for, how far it is, what it changed."""

from __future__ import annotations

from dataclasses import asdict, astuple, dataclass, fields
from datetime import datetime
from typing import Final

from stream_jobs.app.database import Connection, execute, fetch
from stream_jobs.reprocess.plan import Span, moment

_OPEN: Final = """
SELECT run_no, (extract(epoch FROM done_until) * 1000)::bigint FROM odograph.recompute_run
WHERE kind = %(kind)s AND finished_at IS NULL AND vehicle_id IS NOT DISTINCT FROM %(vehicle)s
  AND from_at = %(from)s AND until_at = %(until)s ORDER BY run_no DESC LIMIT 1
"""
_BEGIN: Final = """
INSERT INTO odograph.recompute_run (kind, from_at, until_at, vehicle_id, late_until)
VALUES (%(kind)s, %(from)s, %(until)s, %(vehicle)s, %(late_until)s) RETURNING run_no
"""
COMMAND, NIGHTLY = "command", "nightly"


@dataclass(frozen=True, slots=True)
class Counts:
    """What a run changed; names as in odograph.recompute_run."""

    late_frames: int = 0
    vehicle_windows: int = 0
    place_windows: int = 0
    orphaned: int = 0
    vehicles: int = 0
    journeys: int = 0
    alerts_added: int = 0
    alerts_changed: int = 0
    alerts_withdrawn: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


_FINISH: Final = (
    "UPDATE odograph.recompute_run SET finished_at = now() WHERE run_no = %(run_no)s "  # noqa: S608  own names
    f"RETURNING {', '.join(field.name for field in fields(Counts))}"
)


@dataclass(frozen=True, slots=True)
class Run:
    """A run under way: windows that begin before ``done_until_ms`` are restated already."""

    run_no: int
    span: Span
    done_until_ms: int | None


def begin(connection: Connection, kind: str, span: Span, late_until: datetime | None = None) -> Run:
    """A new run, or the unfinished one of the same kind, span and vehicle."""
    values = {
        "kind": kind, "from": moment(span.from_ms), "until": moment(span.until_ms),
        "vehicle": span.vehicle_id, "late_until": late_until,
    }  # fmt: skip
    found = fetch(connection, _OPEN, values)
    if found:
        return Run(found[0][0], span, found[0][1])
    return Run(int(fetch(connection, _BEGIN, values)[0][0]), span, None)


def add(connection: Connection, run: Run, counts: Counts, done_ms: int | None) -> None:
    """Add to the counts in the transaction that changed something; windows before ``done_ms`` are done."""
    changed = {name: n for name, n in asdict(counts).items() if n}
    sets = [f"{name} = {name} + %({name})s" for name in changed]
    if done_ms is not None:
        sets.append("done_until = to_timestamp(%(done_ms)s / 1000.0)")
    if sets:
        statement = f"UPDATE odograph.recompute_run SET {', '.join(sets)} WHERE run_no = %(run_no)s"  # noqa: S608
        execute(connection, statement, {**changed, "run_no": run.run_no, "done_ms": done_ms})


def finish(connection: Connection, run: Run) -> Counts:
    """The run is over; what it changed in all, also before it was killed."""
    return Counts(*fetch(connection, _FINISH, {"run_no": run.run_no})[0])
