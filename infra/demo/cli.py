"""The command ``odograph demo``."""

import sys
import time
from functools import partial
from typing import Annotated

import typer

from infra.settings.settings import load

UNATTENDED_S = 90.0


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(demo)


def demo(
    vehicles: Annotated[int, typer.Option("-c", "--vehicles", min=1, help="vehicles")] = 500,
    rate: Annotated[float, typer.Option(min=0.1, help="frames/s of the whole fleet")] = 500.0,
    seed: Annotated[int, typer.Option(min=0, help="seed of the city and its fleet")] = 1,
    duration_s: Annotated[
        float | None,
        typer.Option(min=1, help="how long to drive, s", show_default="until Ctrl-C; 90 without a terminal"),
    ] = None,
) -> None:
    """Run the whole pipeline with a fleet, then print its ledger. Exit 1 if the residual is not 0."""
    from infra.demo.run import Fleet, ledger_text, run

    if duration_s is None and not sys.stdout.isatty():
        duration_s = UNATTENDED_S
    fleet = Fleet(vehicles, rate, seed, f"demo-{time.time_ns() // 1_000_000}", duration_s, roads=True)
    ledger = run(load(), fleet, partial(typer.echo, err=True), typer.echo)
    typer.echo(ledger_text(ledger))
    if ledger.residual != 0:
        raise typer.Exit(1)
