"""Commands of the dashboard, and those that read what it shows."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal
from zoneinfo import ZoneInfo

import typer

from infra.clients.tables import rendered, table
from infra.contract.errors import ConfigError
from infra.settings.settings import endpoints, load
from infra.settings.values import moment_at

if TYPE_CHECKING:
    from psycopg import Connection

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

    settings = load()
    found = endpoints(settings, ("db_dashboard_url",))
    chosen = port or found.http_ports.get("dashboard", PORT)
    typer.echo(f"dashboard: {found.dashboard_scheme}://{settings.dashboard.address}:{chosen}", err=True)
    serve(chosen, found.dashboard_tls)


def report(
    day: Annotated[
        str | None, typer.Option(help="as 2026-11-20, in ODOGRAPH_TZ", show_default="today")
    ] = None,
    vehicle: Annotated[str | None, typer.Option(help="only this vehicle", show_default="the fleet")] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="file; - is standard output", show_default="odograph-DAY.html"),
    ] = None,
) -> None:
    """A day on a page: fleet, worst incidents, driving, health, routing, data quality; one HTML file.

    It needs no script and no network, and prints on A4.

    Exit codes: 0 fine; 1 nothing is stored of the day, or the database is away; 2 no day that has begun.
    """
    from dashboard.db import Database
    from dashboard.report.report import made
    from infra.sql import queries

    settings = load()
    day = day or str(datetime.now(ZoneInfo(settings.tz)).date())
    database = Database(lambda: endpoints(settings, ("db_dashboard_url",)).db_dashboard_url)
    html = made(database, day, vehicle, settings.tz)
    database.close()
    if vehicle is not None:
        url = endpoints(settings, ("db_dispatch_url",)).db_dispatch_url
        queries.note(url, "downloaded", vehicle, f"odograph report of {day}")
    file = output or Path(f"odograph-{day}{f'-{vehicle}' if vehicle else ''}.html")
    if str(file) == "-":
        typer.echo(html)
        return
    try:
        file.write_text(html)
    except OSError as error:
        raise ConfigError(f"--output {file}: {error.strerror}; name a file that can be written") from error
    typer.echo(f"report: {file}", err=True)


def trips(
    vehicle: Annotated[str | None, typer.Argument(help="vehicle id; none: all vehicles")] = None,
    since: Annotated[
        str | None, typer.Option("--from", help="as 2026-11-20T08:00, UTC", show_default="24 h before --to")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", help="as 2026-11-20T09:00, UTC", show_default="now")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="a JSON array on stdout")] = False,
    export: Annotated[
        Literal["gpx", "geojson"] | None, typer.Option(help="the tracks, each point with its time, on stdout")
    ] = None,
) -> None:
    """Trips of a vehicle or of all: begin, end, distance, duration, consumption, harsh events.

    A trip whose phase is open is under way; provisional: over because nothing more came.

    Exit codes: 0 fine; 1 the database is away; 2 a time that cannot be read.
    """
    import orjson
    from psycopg.rows import dict_row

    from infra.clients.db import connected, sql_of

    end = moment_at(until, "--to") if until else datetime.now(UTC)
    begin = moment_at(since, "--from") if since else end - timedelta(days=1)
    values = {"vehicle": vehicle, "since": begin, "until": end, "most": MOST}
    url = endpoints(load(), ("db_dashboard_url",)).db_dashboard_url
    with connected(url, row_factory=dict_row) as connection:
        rows = connection.execute(sql_of(__file__)["trips"].encode(), values).fetchall()[::-1]
        ways = None if export is None else _ways(connection, rows, export)
    if len(rows) == MOST:
        typer.echo(f"only the newest {MOST:,} trips of this span: an earlier --to has more", err=True)
    if ways is not None:
        typer.echo(ways)
    elif json:
        typer.echo(orjson.dumps(rows, option=orjson.OPT_INDENT_2).decode())
    else:
        told = table(*_SHOWN, rows=[[show(row) for show in _SHOWN.values()] for row in rows])
        typer.echo(rendered(told), nl=False)


def _ways(connection: "Connection[Any]", trips: list[dict[str, Any]], form: str) -> bytes:
    import pandas as pd

    from dashboard.screens.trips import path, queries
    from dashboard.shared import tracks

    def way(trip: dict[str, Any]) -> pd.DataFrame:
        during = (trip["vehicle_id"], trip["started_at"], trip["ended_at"])
        return path.track(trip, queries.trip_points(connection, *during, queries.WAY_MOST))

    found = [points for points in map(way, trips) if not points.empty]
    typer.echo(f"{len(found)} of {len(trips)} trips have positions that are stored", err=True)
    make = {"gpx": tracks.to_gpx, "geojson": tracks.to_geojson}[form]
    return make(pd.concat(found) if found else pd.DataFrame(columns=tracks.TRACK))


_SHOWN: Final[dict[str, Callable[[dict[str, Any]], object]]] = {
    "vehicle": itemgetter("vehicle_id"),
    "begin (UTC)": itemgetter("started_at"),
    "end": lambda row: f"{row['ended_at']:%H:%M:%S}",
    "km": lambda row: f"{row['distance_m'] / 1000:.2f}",
    "known %": lambda row: None if row["known_share"] is None else 100 * row["known_share"],
    "min": lambda row: row["duration_s"] / 60,
    "idle min": lambda row: row["idle_s"] / 60,
    "mean": itemgetter("speed_mean_kmh"),
    "max km/h": itemgetter("speed_max_kmh"),
    "l/100 km": itemgetter("fuel_l_per_100km"),
    "kWh/100 km": itemgetter("energy_kwh_per_100km"),
    "CO2 kg": lambda row: None if row["co2_g"] is None else row["co2_g"] / 1000,
    "harsh b/a/c": lambda row: f"{row['harsh_brake']}/{row['harsh_accelerate']}/{row['harsh_corner']}",
    "phase": itemgetter("phase"),
}
MOST: Final = 1000
