"""Commands of the dashboard, and those that read what it shows."""

from datetime import datetime
from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo

import typer

from dashboard.trips_cli import trips
from infra.contract.errors import ConfigError
from infra.settings import settings as contract
from infra.settings.settings import endpoints, load

PORT = 8501  # where neither the settings nor a stack name one


def register(app: typer.Typer) -> None:
    """Add ``odograph dashboard``, ``odograph report`` and ``odograph trips``."""
    for command in (dashboard, report, trips):
        app.command()(command)


def dashboard(
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="port; default: the stack's own")] = None,
) -> None:
    """Serve the web page (and /livez, /readyz, /metrics) until stopped."""
    from dashboard.server import serve

    settings = contract.load()
    found = contract.endpoints(settings, ("db_dashboard_url",))
    chosen = port or found.http_ports.get("dashboard", PORT)
    address = f"{found.dashboard_scheme}://{settings.dashboard.address}:{chosen}"
    typer.echo(f"dashboard: {address}", err=True)
    serve(chosen, found.dashboard_tls)


def report(
    day: Annotated[str | None, typer.Option(help="as 2026-11-20, in ODOGRAPH_TZ [today]")] = None,
    vehicle: Annotated[str | None, typer.Option(help="only this vehicle [the fleet]")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="file; - is standard output [odograph-DAY.html]")
    ] = None,
) -> None:
    """A day on a page: fleet, worst incidents, driving, health, routing, data quality; one HTML file.

    It needs no script and no network, and prints on A4.

    Exit codes: 0 fine; 1 nothing is stored of the day, or the database is away; 2 no day that has begun.
    """
    from dashboard.db import Database
    from dashboard.report.report import made

    settings = load()
    day = day or str(datetime.now(ZoneInfo(settings.tz)).date())
    database = Database(lambda: endpoints(settings, ("db_dashboard_url",)).db_dashboard_url)
    with database.connection() as connection:
        html = made(connection, day, vehicle, settings.tz)
    database.close()
    file = output or Path(f"odograph-{day}{f'-{vehicle}' if vehicle else ''}.html")
    if str(file) == "-":
        typer.echo(html)
        return
    try:
        file.write_text(html)
    except OSError as error:
        raise ConfigError(f"--output {file}: {error.strerror}; name a file that can be written") from error
    typer.echo(f"report: {file}", err=True)
