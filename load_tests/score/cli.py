"""The command ``odograph score``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(score)


def score(
    run: Annotated[str | None, typer.Option("--run", help="run or day", show_default="as --last")] = None,
    last: Annotated[bool, typer.Option("--last", help="the run with the newest event of truth")] = False,
    min_: Annotated[
        float, typer.Option("--min", min=0, max=1, help="recall and precision wanted of each detector")
    ] = 0.95,
    hits: Annotated[Path | None, typer.Option(help="what counts as a hit", show_default="hits.yaml")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="list every miss and false claim")] = False,
    json: Annotated[bool, typer.Option("--json", help="the card as JSON on stdout")] = False,
) -> None:
    """What the service found against what a simulator run says really happened (odograph truth load).

    A line a detector: recall, precision, delay from the begin of what happened (s of event time).

    Exit codes: 0 each is good enough; 1 one is not, or no database; 2 no such run.
    """
    from infra.contract.errors import ConfigError
    from infra.settings import settings
    from load_tests.score import report

    if last and run is not None:
        raise ConfigError("--run and --last: give one of them")
    in_force = settings.load()
    found = report.made(in_force, run, hits)
    typer.echo(report.as_json(found, min_) if json else report.as_text(found, min_, verbose))
    if found.failed(min_):
        raise typer.Exit(1)
