"""The command ``odograph drill``."""

from __future__ import annotations

from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(drill)


def drill(
    name: Annotated[str, typer.Argument(help="a drill's name, or: list, all, cluster, mutants")],
    rate: Annotated[
        float | None, typer.Option(min=1, help="frames/s", show_default="the drill's own")
    ] = None,
    duration: Annotated[
        str | None, typer.Option(help="length of the load, as 90s", show_default="the drill's own")
    ] = None,
    times: Annotated[
        int | None, typer.Option(min=1, help="how often the fault is put in", show_default="the drill's own")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="seed of the fleet and of the moments")] = 1,
    mutant: Annotated[
        str | None, typer.Option(help="a defect to put into the bridge or the jobs: the drill must fail")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="leave the drill's home as it is")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON on standard output")] = False,
) -> None:
    """Put a real fault into real parts and say whether what must hold holds.

    A drill starts services and a bridge of its own in a home below the one in force, and stops them again. It
    compares what the simulator wrote before publishing with what lies in Kafka. `cluster` runs those of
    several hosts, c1 and so on, and ends with one table. With `mutants` every drill runs with each defect it
    is made to see, and each must FAIL.

    Exit codes: 0 every invariant held; 1 one did not, or a mutant was not seen; 2 wrong usage.
    """
    from load_tests.drills import runner
    from load_tests.drills.verdict import table

    if name == "list":
        typer.echo("\n".join(runner.listed()))
        return
    verdicts = runner.carried_out(
        name,
        runner.Wanted(rate, duration, seed, mutant, keep, times),
        lambda text: typer.echo(text, err=True),
    )
    told = []
    for verdict in verdicts:
        told.append(verdict)
        typer.echo(verdict.as_json() if as_json else "\n".join(verdict.lines()))
    if len(told) > 1 and not as_json:
        typer.echo(table(told))
    if not all(verdict.seen if name == "mutants" else verdict.passed for verdict in told):
        raise typer.Exit(1)
