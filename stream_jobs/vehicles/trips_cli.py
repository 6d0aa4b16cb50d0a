"""The command ``odograph trips``."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

import typer
from psycopg.rows import dict_row

from infra.clients.db import connected

LAST_S = 86_400


def trips(
    vehicle: Annotated[str | None, typer.Argument(help="vehicle id; none: all vehicles")] = None,
    since: Annotated[
        str | None, typer.Option("--from", help="as 2026-11-20T08:00, UTC [24 h before --to]")
    ] = None,
    until: Annotated[str | None, typer.Option("--to", help="as 2026-11-20T09:00, UTC [now]")] = None,
    json: Annotated[bool, typer.Option("--json", help="a JSON array on stdout")] = False,
) -> None:
    """Trips of a vehicle or of all: begin, end, way, time, consumption, harsh events.

    A trip whose phase is open is under way; provisional: over because nothing more came.

    Exit codes: 0 fine; 1 the database is away; 2 a time that cannot be read.
    """
    import orjson

    from infra.settings.settings import endpoints, load
    from stream_jobs.vehicles.trips_cli import stored_trips

    end = _time(until, "--to") or datetime.now(UTC)
    begin = _time(since, "--from") or end - timedelta(seconds=LAST_S)
    rows = stored_trips(endpoints(load()).db_dashboard_url, vehicle, begin, end)
    if json:
        typer.echo(orjson.dumps(rows, option=orjson.OPT_INDENT_2).decode())
    else:
        _show(rows)


def _time(text: str | None, option: str) -> datetime | None:
    from infra.contract.errors import ConfigError

    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(f"{option} {text!r} is no time; write it as 2026-11-20T08:00") from error
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


def _show(rows: list[dict[str, Any]]) -> None:
    from infra.clients.tables import rendered, table

    headings = ("vehicle", "begin (UTC)", "end", "km", "min", "idle min", "mean", "max km/h")
    more = ("l/100 km", "kWh/100 km", "CO2 kg", "harsh b/a/c", "phase")
    typer.echo(rendered(table(*headings, *more, rows=map(_cells, rows))), nl=False)


def _cells(row: dict[str, Any]) -> list[str]:
    co2_kg = None if row["co2_g"] is None else row["co2_g"] / 1000
    return [
        row["vehicle_id"],
        f"{row['started_at']:%Y-%m-%d %H:%M:%S}",
        f"{row['ended_at']:%H:%M:%S}",
        f"{row['distance_m'] / 1000:.2f}",
        f"{row['duration_s'] / 60:.1f}",
        f"{row['idle_s'] / 60:.1f}",
        _number(row["speed_mean_kmh"]),
        _number(row["speed_max_kmh"]),
        _number(row["fuel_l_per_100km"]),
        _number(row["energy_kwh_per_100km"]),
        _number(co2_kg),
        f"{row['harsh_brake']}/{row['harsh_accelerate']}/{row['harsh_corner']}",
        row["phase"],
    ]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


MOST: Final = 1000
_TRIPS: Final = """
SELECT vehicle_id, trip_id, phase, started_at, ended_at, distance_m, unseen_m, duration_s, moving_s, standing_s, idle_s,
       halts, speed_mean_kmh, speed_max_kmh, speeding_s, fuel_l, fuel_l_per_100km, energy_kwh, energy_kwh_per_100km,
       co2_g, harsh_brake, harsh_accelerate, harsh_corner, start_lat_deg, start_lon_deg, end_lat_deg, end_lon_deg,
       start_h3_r7, end_h3_r7, revision
FROM serving.trip
WHERE (%(vehicle)s::text IS NULL OR vehicle_id = %(vehicle)s)
  AND started_at < %(until)s AND ended_at >= %(since)s
ORDER BY started_at DESC LIMIT %(most)s
"""  # noqa: E501  a list of columns


def stored_trips(url: str, vehicle: str | None, since: datetime, until: datetime) -> list[dict[str, Any]]:
    """Trips that lie in [since, until) at least in part, oldest first; of many the newest MOST.

    Raises ServiceError.
    """
    values = {"vehicle": vehicle, "since": since, "until": until, "most": MOST}
    with connected(url, row_factory=dict_row) as connection:
        return connection.execute(_TRIPS, values).fetchall()[::-1]
