"""The commands ``odograph truth load|list`` and ``odograph fleet set|lend|list``."""

from typing import Annotated

import typer

from infra.contract.downlink import Fleets
from infra.settings import settings
from infra.settings.values import duration_ms, vehicle_id

fleet_app = typer.Typer(no_args_is_help=True, help="Whose vehicles are whose, for readers of the dashboard.")
truth_app = typer.Typer(no_args_is_help=True, help="Ground truth of simulated runs, in the database.")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(truth_app, name="truth")
    app.add_typer(fleet_app, name="fleet")


@truth_app.command("load")
def load(run_id: Annotated[str, typer.Argument(help="a run or a generated day")]) -> None:
    """Put a run's truth.jsonl into the table; again is fine. Exit 1: no database; 2: no such run."""
    from infra.sql import truth

    in_force = settings.load()
    path = truth.find(in_force.paths.home, run_id)
    count = truth.load(settings.endpoints(in_force, ("db_ingest_url",)).db_ingest_url, run_id, path)
    typer.echo(f"{count} rows of truth from {run_id}")


@truth_app.command("list")
def list_(run_id: Annotated[str | None, typer.Argument(help="one run", show_default="all")] = None) -> None:
    """What runs say happened, counted by kind."""
    from infra.sql import truth

    for row in truth.counts(settings.endpoints(settings.load()).db_dashboard_url, run_id):
        span = f"{row.first:%Y-%m-%d %H:%M:%S} .. {row.last:%H:%M:%S}Z"
        typer.echo(f"{row.run_id:28} {row.kind:8} {row.what:20} {row.count:8d}  {span}")


@fleet_app.command("set")
def give(
    fleet: Annotated[str, typer.Argument(help="as the sign-in names it; '' takes vehicles out of theirs")],
    vehicles: Annotated[list[str], typer.Argument(help="VINs")],
) -> None:
    """Put vehicles into a fleet: who signs in for it sees these and nothing else. Each is in one fleet."""
    from infra.sql import tenants

    vehicles = [*dict.fromkeys(vehicle_id(one) if fleet else one for one in vehicles)]
    in_force = settings.load()
    known = tenants.give(settings.endpoints(in_force, ("db_owner_url",)).db_owner_url, fleet, vehicles)
    Fleets.write(in_force.paths.home, known)
    typer.echo(f"{len(vehicles)} vehicles: {fleet or 'in no fleet'}")


@fleet_app.command("lend")
def lend(
    driver: Annotated[str, typer.Argument(help="as the sign-in names a person with the role driver")],
    vehicle: Annotated[str, typer.Argument(help="VIN")],
    for_: Annotated[str, typer.Option("--for", help="how long from now on, as 8h")] = "8h",
) -> None:
    """Let a driver look at one vehicle for a while."""
    from infra.sql import tenants

    wanted = driver, vehicle_id(vehicle), duration_ms(for_, "--for") / 1000
    tenants.lend(settings.endpoints(settings.load(), ("db_owner_url",)).db_owner_url, *wanted)
    typer.echo(f"{vehicle}: lent to {driver} for {for_}")


@fleet_app.command("list")
def fleets() -> None:
    """The fleets and how many vehicles each has."""
    from infra.sql import queries

    rows = queries.fleets(settings.endpoints(settings.load(), ("db_ingest_url",)).db_ingest_url)
    typer.echo("\n".join(f"{name:40} {count:8d} vehicles" for name, count in rows) or "no fleets")
