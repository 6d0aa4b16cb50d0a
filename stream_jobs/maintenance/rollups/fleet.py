"""The fleet by minute: what all vehicles' minutes give together, made with them. Pure; SQL as text."""

from __future__ import annotations

from typing import Final

from stream_jobs.maintenance.rollups.columns import DISTANCE, ENERGY, FUEL, MS


def _whole(name: str, steps: int, where: str = "") -> str:
    """Sum of a column over whole steps: the order of vehicles cannot change a bit."""
    only = f" FILTER (WHERE {where})" if where else ""
    return f"sum(round({name} * {steps})::bigint){only}::double precision / {steps}"


SOURCES: Final[dict[str, str]] = {
    "vehicles": "count(*)",
    "moving": "count(*) FILTER (WHERE moving_s > 0)",
    "on_road": "count(*) FILTER (WHERE moving_s > 0 OR idle_s > 0)",
    "frames": "sum(frames)",
    "samples": "sum(samples)",
    "distance_m": _whole("distance_m", DISTANCE),
    "moving_s": _whole("moving_s", MS),
    "idle_s": _whole("idle_s", MS),
    "fuel_l": _whole("fuel_l", FUEL),
    "fuel_distance_m": _whole("distance_m", DISTANCE, "fuel_l IS NOT NULL"),
    "energy_kwh": _whole("energy_kwh", ENERGY),
    "energy_distance_m": _whole("distance_m", DISTANCE, "energy_kwh IS NOT NULL"),
}
"""Column of odograph.fleet_minute -> SQL over the vehicles' rows of the minute."""


def roll_up_fleet() -> str:
    """The due minutes of the fleet, made anew from the vehicles'; parameters ``since``, ``until``."""
    names, sources = ", ".join(SOURCES), ", ".join(SOURCES.values())
    changes = ", ".join(f"{name} = excluded.{name}" for name in SOURCES)
    return (
        f"INSERT INTO odograph.fleet_minute (minute, {names}) "  # noqa: S608  names of this package
        f"SELECT m.bucket, {sources} "
        "FROM (SELECT DISTINCT bucket FROM rollup_due WHERE unit = 'minute') d "
        "JOIN odograph.vehicle_minute m ON m.bucket = d.bucket "
        "WHERE m.bucket >= %(since)s AND m.bucket < %(until)s "
        "GROUP BY m.bucket ORDER BY m.bucket "
        f"ON CONFLICT (minute) DO UPDATE SET {changes}"
    )
