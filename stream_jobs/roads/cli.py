"""The commands ``odograph eta`` and ``odograph traffic``."""

from datetime import UTC, datetime
from typing import Annotated, Final

import typer

from infra.clients.tables import aligned
from infra.contract.errors import ConfigError
from infra.settings.settings import endpoints, load
from infra.settings.values import moment_at

LAT_LIMIT, LON_LIMIT = 90, 180
COLUMNS: Final = {
    "place": ">", "congestion": ">", "source": ">", "speed_kmh": ".2f", "free_flow_kmh": ".2f",
    "travel_time_index": ".2f", "vehicles": "d",
}  # fmt: skip
"""What is told of a place, and how it is shown."""


def eta(
    vehicle: Annotated[str, typer.Argument(help="vehicle id")],
    to: Annotated[str, typer.Option(help="destination as LAT,LON in degrees")],
    json: Annotated[bool, typer.Option("--json", help="as JSON")] = False,
) -> None:
    """When a vehicle will be somewhere, by edge speeds of this hour of the week blended with live ones.

    The request is stored: odograph maintenance predicts it anew every minute until the vehicle is there, and
    serving.eta_quality shows how good predictions are. Exit 1: no database; 2: not on the known network.
    """
    import orjson

    from infra.clients.db import connected
    from stream_jobs.roads.history import Forecast, ask_for

    in_force = load()
    try:
        lat, lon = (float(part) for part in to.split(","))
    except ValueError as error:
        raise ConfigError(f"--to {to}: LAT,LON in degrees is wanted, as 48.137,11.575") from error
    if not (abs(lat) <= LAT_LIMIT and abs(lon) <= LON_LIMIT):
        raise ConfigError(f"--to {to}: latitude -90..90 and longitude -180..180 are wanted")
    with connected(endpoints(in_force).db_ingest_url) as database:
        found = Forecast(database, in_force).predict(database, vehicle, (lat, lon))
        number = ask_for(database, vehicle, (lat, lon), found)
    told = {
        "request": number, "vehicle_id": vehicle, "position_at": found.made_at.isoformat(),
        "arrival_at": found.arrival_at.isoformat(), "minutes": round(found.way.time_s / 60, 1),
        "distance_km": round(found.way.length_m / 1000, 2),
    }  # fmt: skip
    typer.echo(orjson.dumps(told) if json else aligned((name, str(value)) for name, value in told.items()))


def traffic(
    at: Annotated[str | None, typer.Option(help="moment as 2026-11-20T08:15Z", show_default="now")] = None,
    by: Annotated[str, typer.Option(help="edge or cell")] = "edge",
    limit: Annotated[int, typer.Option("-n", min=1, help="rows, worst first")] = 20,
    json: Annotated[bool, typer.Option("--json", help="as JSON lines")] = False,
) -> None:
    """Congestion in the five minutes up to a moment: the slowest places beside free flow."""
    import orjson

    from infra.clients.db import asked, sql_of

    settings, sql = load(), sql_of(__file__)
    if by not in ("edge", "cell"):
        raise ConfigError(f"--by {by}: edge or cell is wanted")
    values = {"at": datetime.now(UTC) if at is None else moment_at(at, "--at"), "limit": limit}
    statement = sql["slowest"].format(columns=", ".join(COLUMNS), places=sql[by])
    rows = asked(endpoints(settings).db_ingest_url, statement, values)
    if json:
        for row in rows:
            typer.echo(orjson.dumps(dict(zip(COLUMNS, row, strict=True))))
    else:
        typer.echo(aligned(rows, COLUMNS))
