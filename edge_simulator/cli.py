"""The simulator's commands."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from edge_simulator import drives_cli, edr_cli, scenarios_cli
from edge_simulator.cycles_cli import cycles
from edge_simulator.simulate_cli import simulate


def register(app: typer.Typer) -> None:
    """Add the simulator's commands."""
    app.command("simulate")(simulate)
    app.add_typer(scenarios_cli.app, name="scenarios")
    drives_cli.register(app)
    app.command("cycles")(cycles)
    app.add_typer(edr_cli.app, name="edr")
    app.command("roads", hidden=True)(roads)


def roads(
    seed: Annotated[int, typer.Option(min=0, help="seed of the city")] = 1,
    lat: Annotated[float, typer.Option(help="latitude of the centre, deg")] = 48.137,
    lon: Annotated[float, typer.Option(help="longitude of the centre, deg")] = 11.575,
) -> None:
    """Print the simulated city's road edges, one JSON object a line."""
    import orjson

    from edge_simulator.town.roads import city

    names = ("edge_id", "road_class", "speed_limit_kmh", "length_m", "path")
    for row in city(seed, lat, lon).edges():
        sys.stdout.write(orjson.dumps(dict(zip(names, row, strict=True))).decode() + "\n")
