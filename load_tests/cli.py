"""The commands ``odograph bench`` and ``odograph drill``."""

from __future__ import annotations

import json as jsons
import time
from dataclasses import asdict
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the commands."""
    from load_tests.drills import cli as drills

    app.command()(bench)
    drills.register(app)


def bench(
    rate: Annotated[float, typer.Option(min=1, help="frames/s of the whole fleet")] = 500.0,
    vehicles: Annotated[
        int | None, typer.Option("-c", "--vehicles", help="vehicles [as many as frames/s]")
    ] = None,
    duration_s: Annotated[float, typer.Option(min=5, help="measured time, s")] = 120.0,
    warm_up_s: Annotated[float, typer.Option(min=0, help="time before measuring, s")] = 60.0,
    seed: Annotated[int, typer.Option(min=0, help="seed of the fleet")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="JSON on standard output")] = False,
) -> None:
    """Load the whole pipeline at a fixed rate and print what it carried. Exit 1 if it did not keep up."""
    from infra.contract.settings import load
    from infra.demo.fleet import Fleet
    from load_tests.bench import measure

    run_id = f"bench-{time.time_ns() // 1_000_000}"
    fleet = Fleet(vehicles or round(rate), rate, seed, run_id, link={}, faults=())
    card = measure(load(), fleet, warm_up_s, duration_s, lambda text: typer.echo(text, err=True))
    table = asdict(card) | {"flat": card.flat}
    lines = (f"{name:>18}  {value}" for name, value in table.items())
    typer.echo(jsons.dumps(table, indent=1) if as_json else "\n".join(lines))
    if not card.flat or card.residual != 0:
        raise typer.Exit(1)
