"""What is done with a run that is there: compared, promoted, rolled back, dropped."""

from __future__ import annotations

from collections.abc import Callable

from infra import database_url
from infra.contract.errors import ConfigError
from infra.contract.settings import Settings, endpoints, load
from infra.replay import databases, promote, runs, work
from infra.replay.compare import Verdict
from infra.replay.runs import Run
from infra.replay.shadow import Shadow


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
