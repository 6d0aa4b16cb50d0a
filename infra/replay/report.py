"""What the commands print of runs and of comparisons."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import typer

from infra.contract.errors import OdographError
from infra.contract.settings import endpoints, load
from infra.replay import databases, runs
from infra.replay.compare import Verdict
from infra.replay.promote import state_of
from infra.replay.runs import Run

COLUMNS_SHOWN = 6


def table_line(verdict: Verdict) -> str:
    """One table of a comparison."""
    if verdict.named:
        lines = "".join(f"\n{'':18} {line}" for line in verdict.named)
        records = f"{verdict.run_rows} records, {verdict.live_rows} in live too"
        return f"{verdict.table:18} left out   {records}{lines}"
    if verdict.equal:
        return f"{verdict.table:18} equal      {verdict.live_rows} rows in {verdict.slices} slices"
    most = sorted(verdict.by_column.items(), key=lambda item: (-item[1], item[0]))[:COLUMNS_SHOWN]
    columns = ", ".join(f"{name} {count}" for name, count in most)
    first = "" if verdict.first is None else f"\n{'':18} first: {verdict.first.text()}"
    return (
        f"{verdict.table:18} DIFFERENT  {verdict.live_rows} rows live, {verdict.run_rows} in the run; "
        f"{verdict.slices_differing} of {verdict.slices} slices, {verdict.rows_differing} rows looked at: "
        f"{columns}{first}"
    )


def teller(*, as_json: bool) -> Callable[[Verdict], None]:
    """What is called with each table as soon as it is compared."""
    return (lambda _: None) if as_json else lambda verdict: typer.echo(table_line(verdict))


def as_json(verdicts: Sequence[Verdict]) -> str:
    """A comparison for machines."""
    return json.dumps([asdict(v) | {"equal": v.equal} for v in verdicts], default=str) + "\n"


def listed(as_json: bool) -> str:
    """All runs of this home."""
    settings = load()
    rows = [_row(run, _promotion(run)) for run in runs.all_runs(settings.paths.home)]
    if as_json:
        return json.dumps(rows) + "\n"
    lines = [
        f"{r['run']:14} {r['state']:10} {r['read']:12} {r['since']} to {r['until']}  {r['source']}  "
        f"{r['records']} records  {r['vehicles']}  changed: {r['changed']}"
        for r in rows
    ]
    return "".join(f"{line}\n" for line in lines) or "no run\n"


def shown(run_id: str) -> str:
    """One run."""
    run = runs.load(load().paths.home, run_id)
    return json.dumps(asdict(run) | {"read": _promotion(run)}, indent=1) + "\n"


def _row(run: Run, promotion: str) -> dict[str, Any]:
    return {
        "run": run.run_id,
        "state": run.state,
        "read": promotion,
        "source": run.source,
        "since": run.span.since.isoformat(timespec="minutes"),
        "until": run.span.until.isoformat(timespec="minutes"),
        "records": run.records,
        "vehicles": "all" if run.whole_fleet else f"{len(run.vehicles)} vehicles",
        "changed": run.changed(),
        "feed_s": run.feed_s,
    }


def _promotion(run: Run) -> str:
    """Whether serving reads it."""
    try:
        with databases.connected(endpoints(load()).db_owner_url) as live:
            return state_of(live, run.run_id) or "not promoted"
    except OdographError:
        return "not known"  # the database is away
