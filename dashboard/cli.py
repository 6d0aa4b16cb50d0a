"""Commands of the dashboard, and those that read what it shows."""

from typing import Annotated

import typer

from dashboard.trips_cli import trips


def register(app: typer.Typer) -> None:
    """Add ``odograph dashboard`` and ``odograph trips``."""
    app.command()(dashboard)
    app.command()(trips)


def dashboard(
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="port; default: the stack's own")] = None,
) -> None:
    """Serve the web page (and /livez, /readyz, /metrics) until stopped."""
    from dashboard.server import serve
    from infra.settings import settings as contract

    settings = contract.load()
    chosen = port or contract.endpoints(settings).http_ports["dashboard"]
    typer.echo(f"dashboard: http://{settings.dashboard.address}:{chosen}", err=True)
    serve(chosen)
