"""What is done with runs that are there: told, compared, promoted, rolled back, dropped."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import typer

from infra.clients import database_url
from infra.contract.errors import ConfigError, OdographError
from infra.settings.settings import Settings, endpoints, load
from stream_jobs.replay import databases, promote, runs, work
from stream_jobs.replay.compare import Verdict, table_line
from stream_jobs.replay.runs import Run
from stream_jobs.replay.shadow import Shadow


def listed(*, as_json: bool) -> str:
    """All runs of this home."""
    rows = [_row(run, _promotion(run)) for run in runs.all_runs(load().paths.home)]
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
            return promote.state_of(live, run.run_id) or "not promoted"
    except OdographError:
        return "not known"  # the database is away


def teller(*, as_json: bool) -> Callable[[Verdict], None]:
    """What is called with each table as soon as it is compared."""
    return (lambda _: None) if as_json else lambda verdict: typer.echo(table_line(verdict))


def as_json(verdicts: Sequence[Verdict]) -> str:
    """A comparison for machines."""
    return json.dumps([asdict(v) | {"equal": v.equal} for v in verdicts], default=str) + "\n"


def compare_all(run_id: str, show: Callable[[Verdict], None]) -> list[Verdict]:
    """All tables of a run and the live ones."""
    settings = load()
    run = _done(settings, run_id)
    return work.compared(endpoints(settings), run, lambda table: table.compared, show)


def promote_run(run_id: str) -> str:
    """Promote a run; what is read now. Raises ConfigError where it is not done."""
    settings = load()
    run, addresses = _done(settings, run_id), endpoints(settings)
    own_url = database_url.with_name(addresses.db_owner_url, run.database)
    with databases.connected(addresses.db_owner_url) as live, databases.connected(own_url) as own:
        copied = promote.promote(live, own, run)
    whose = "all vehicles" if run.whole_fleet else f"{len(run.vehicles)} vehicles"
    return (
        f"promoted: {run_id} is read from {run.span.since:%Y-%m-%d %H:%M}Z to "
        f"{run.span.until:%Y-%m-%d %H:%M}Z for {whose} ({copied} rows copied)"
    )


def roll_back(run_id: str) -> str:
    """Roll a promotion back."""
    settings = load()
    runs.load(settings.paths.home, run_id)
    with databases.connected(endpoints(settings).db_owner_url) as live:
        promote.rollback(live, run_id)
    return f"rolled back: {run_id} is not read any more; promoting it again needs no replay"


def drop_run(run_id: str) -> str:
    """Remove all of a run."""
    settings = load()
    run, addresses = runs.load(settings.paths.home, run_id), endpoints(settings)
    with runs.held(settings.paths.home, run_id):
        with databases.connected(addresses.db_owner_url) as live:
            promote.forget(live, run)
        Shadow(run, settings, addresses, {}).drop()
    return f"dropped: {run_id}"


def _done(settings: Settings, run_id: str) -> Run:
    run = runs.load(settings.paths.home, run_id)
    if run.state not in ("done", "verified", "different"):
        raise ConfigError(
            f"run {run_id} is not done ({run.state}): its command with --run {run_id} again goes on with it"
        )
    return run
