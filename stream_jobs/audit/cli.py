"""The command ``odograph audit``."""

from __future__ import annotations

import time
from typing import Annotated, Literal

import typer

from infra.contract.errors import ConfigError
from infra.settings.settings import endpoints, load
from infra.settings.values import duration_ms


def audit(
    since: Annotated[str | None, typer.Option(help="only the last such time, as 90s, 15m, 1h [all]")] = None,
    day: Annotated[str | None, typer.Option(help="only a day of ODOGRAPH_TZ, as 2026-11-20 [all]")] = None,
    by: Annotated[Literal["vehicle"] | None, typer.Option(help="a line for each as well")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON on standard output, all of it")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="first wait until nothing is in flight")] = False,
    at_most: Annotated[
        str | None, typer.Argument(metavar="[DURATION]", help="of --wait: at most so long [60s]")
    ] = None,
) -> None:
    """Balance what was generated against what was archived and counted. Exit 1 if the residual is not 0.

    While data flows, frames that the slowest consumer of the log has not closed yet are in flight: they are
    counted in a line of their own and balanced by the next audit, or by --wait.

    What is missing is named: vehicle, boot and sequence numbers, offsets of the log, windows. A frame
    belongs to the time of its first sample. Without a simulator's word the gaps between sequence numbers
    tell. Vehicles whose identity two devices use at once are named too.
    """
    from stream_jobs.audit import report
    from stream_jobs.audit.run import audit as run_audit
    from stream_jobs.audit.scope import wanted

    if at_most is not None and not wait:
        raise ConfigError(f"{at_most}: a duration is wanted after --wait only")
    wait_s = duration_ms(at_most or "60s", "--wait") / 1000 if wait else 0.0
    settings = load()
    scope = wanted(since, day, settings.tz, time.time_ns() // 1_000_000)
    found = run_audit(settings, endpoints(settings), scope, wait_s)
    typer.echo(report.as_json(found) if as_json else report.as_text(found, by is not None, settings.tz))
    if found.residual != 0:
        raise typer.Exit(1)
