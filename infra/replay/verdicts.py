"""What a comparison found, kept for the dashboard: the last one of each run, a row a table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from infra.replay.compare import Verdict
from infra.replay.databases import Connection
from infra.replay.runs import Run

_KEPT: Final = """
INSERT INTO odograph.replay_verdict (run_id, table_name, place, compared_at, since, until, vehicles, changed,
    live_rows, run_rows, slices, slices_differing, rows_differing, by_column, first_difference)
VALUES (%(run_id)s, %(table)s, %(place)s, clock_timestamp(), %(since)s, %(until)s, %(vehicles)s, %(changed)s,
    %(live_rows)s, %(run_rows)s, %(slices)s, %(slices_differing)s, %(rows_differing)s, %(by_column)s,
    %(first)s)
"""
_GONE: Final = "DELETE FROM odograph.replay_verdict WHERE run_id = %s"


def keep(live: Connection, run: Run, found: Sequence[Verdict]) -> None:
    """Put these verdicts in the place of the run's former ones, in one transaction."""
    with live.transaction():
        forget(live, run)
        for place, verdict in enumerate(found):
            live.execute(_KEPT, _row(run, place, verdict))


def forget(live: Connection, run: Run) -> None:
    """A run that is dropped has no verdict."""
    live.execute(_GONE, (run.run_id,))


def _row(run: Run, place: int, verdict: Verdict) -> dict[str, object]:
    return {
        "run_id": run.run_id,
        "table": verdict.table,
        "place": place,
        "since": run.span.since,
        "until": run.span.until,
        "vehicles": None if run.whole_fleet else len(run.vehicles),
        "changed": run.changed(),
        "live_rows": verdict.live_rows,
        "run_rows": verdict.run_rows,
        "slices": verdict.slices,
        "slices_differing": verdict.slices_differing,
        "rows_differing": verdict.rows_differing,
        "by_column": json.dumps(dict(verdict.by_column)),
        "first": "; ".join(verdict.named) or (verdict.first and verdict.first.text()),
    }
