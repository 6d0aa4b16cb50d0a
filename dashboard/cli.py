"""Command of the dashboard."""

from __future__ import annotations

from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add ``odograph dashboard``."""
    app.command()(dashboard)


def dashboard(
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="port on 127.0.0.1; default: the stack's own")
    ] = None,
) -> None:
    """Serve the web page (and /livez, /readyz, /metrics) on 127.0.0.1 until stopped."""
    from dashboard.server import HOST, serve
    from infra.contract import settings as contract

    chosen = port or contract.endpoints(contract.load()).http_ports["dashboard"]
    typer.echo(f"dashboard: http://{HOST}:{chosen}", err=True)
    serve(chosen)
