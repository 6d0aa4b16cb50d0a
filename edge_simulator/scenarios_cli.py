"""The commands ``odograph scenarios list|show|faults|check``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Ready scenarios for odograph simulate --scenario.")


@app.command("list")
def list_() -> None:
    """Names and titles of the ready scenarios."""
    from edge_simulator import scenario_file

    for name in scenario_file.ready():
        sys.stdout.write(f"{name:16} {scenario_file.load(name, {}).title}\n")


@app.command()
def show(name: Annotated[str, typer.Argument(help="a ready scenario")]) -> None:
    """Print a ready scenario: a start for one of your own."""
    from edge_simulator import scenario_file
    from infra.contract.errors import ConfigError

    path = scenario_file.ready().get(name)
    if path is None:
        raise ConfigError(f"{name}: no such scenario; there are {', '.join(scenario_file.ready())}")
    sys.stdout.write(path.read_text())


@app.command()
def faults() -> None:
    """Kinds of faults for --fault: who can have each, what changes, which rule should find it."""
    from edge_simulator.faults.kinds import markdown_table

    sys.stdout.write(markdown_table() + "\n")


@app.command()
def check(file: Annotated[str, typer.Argument(help="a ready scenario or a YAML file")]) -> None:
    """Check a scenario whole and say what it comes to. Exit 2 with the first thing that is wrong."""
    from edge_simulator import setting_out
    from infra.settings import settings

    found = setting_out.read(file, settings.load(), {})
    length = "until stopped" if found.frames_per_vehicle is None else f"{found.span_ms / 1000:g} s"
    every = f"every {found.cadence.interval_ms} ms, {found.full_rate:g} frames/s"
    sys.stdout.write(f"{found.vehicles} vehicles, {every}, {length}\n")
