"""The figures of the fleet with their trend: rows in, tiles out. No SQL, no streamlit."""

from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

import pandas as pd

from dashboard.shared import pictures, text
from dashboard.shared.text import Columns, Record
from dashboard.shared.theme import SEVERITIES

TREND_LEAST: Final = 3  # minutes that make a trend
ALERTED: Final[Columns] = {  # vehicles with active incidents
    "Severity": ("severity", text.severity),
    "Vehicle": "vehicle_id",
    "Incidents": "alerts",
    "State": "state",
}


class Tile(NamedTuple):
    """One figure. ``trend``: a value a minute of the last hour; ``delta``: words in its place."""

    label: str
    value: str
    trend: list[float] | None = None
    delta: str | None = None
    help: str | None = None

    def line(self) -> str:
        """What stands below the figure, as HTML of our own words and numbers."""
        if self.delta is not None or self.trend is None:
            return pictures.no_line(self.delta or "")
        return pictures.line(self.trend, f"{self.label} in the last hour, by minute")


def tiles(now: Record, today: Record, hour: pd.DataFrame | None) -> list[Tile]:
    """Now (serving.fleet_figures), since midnight (serving.fleet_today), the last hour by minute."""
    shown = text.number
    on_road = None if now["moving"] is None else now["moving"] + now["idling"]
    since = f"Since midnight, {today.get('tz') or 'UTC'}"
    km, before_km = today.get("distance_km"), today.get("before_distance_km")
    more = None if km is None or before_km is None else f"{km - before_km:+,.0f} km to yesterday"
    idle = today.get("idle_share")
    idle_share = shown(None if idle is None else 100 * idle, "%", 1)
    unseen = f"{shown(now['unseen'])} not seen"
    burns = today.get("l_per_100km") is not None or today.get("kwh_per_100km") is None
    name, unit, what = ("l_per_100km", "l", "fuel") if burns else ("kwh_per_100km", "kWh", "energy")
    used, known = shown(today.get(name), digits=1), f"{since}, of vehicles whose {what} is known"
    return [
        Tile("Vehicles", shown(now["vehicles"]), delta=f"{shown(now['parked'])} parked"),
        Tile("Reporting", shown(now["reporting"]), trend(hour, "vehicles"), help="Within two minutes"),
        Tile("On the road", shown(on_road), trend(hour, "on_road"), help="Moving, or with the ignition on"),
        Tile("Idling", shown(now["idling"]), help="Standing with the ignition on"),
        Tile("Mean speed", shown(now["speed_moving_kmh"], "km/h", 1), trend(hour, "speed_moving_kmh")),
        Tile("Frames/s", shown(now["frames_per_s"]), trend(hour, "frames_per_s")),
        Tile("Driven today", shown(km, "km"), trend(hour, "distance_km"), more, since),
        Tile("Idle share", idle_share, trend(hour, "idle_share"), help=since),
        Tile(f"{unit}/100 km", used, trend(hour, name), help=known),
        Tile("Incidents", shown(now["incidents"]), delta=unseen, help="Active ones"),
    ]


def trend(hour: pd.DataFrame | None, column: str) -> list[float] | None:
    """The values there are; None below TREND_LEAST."""
    known = [] if hour is None else [float(v) for v in hour[column].dropna()]
    return known if len(known) >= TREND_LEAST else None


def severities(now: Record) -> str:
    """The active incidents by severity, in words."""
    words = " · ".join(f"{text.severity(name)} {now[name.lower()]}" for name in SEVERITIES)
    return f"Active incidents: {words} · not acknowledged: {now['unseen']}"


def incidents_of(fleet: pd.DataFrame, incidents: pd.DataFrame, least: str = "WARNING") -> pd.DataFrame:
    """The vehicles with incidents of their own of ``least`` or worse, with their ``severity`` and number.

    ``incidents`` come the worst first, and so do the vehicles; those of the whole fleet are no vehicle's own.
    """
    wanted = list(SEVERITIES)[: list(SEVERITIES).index(least) + 1]
    own = incidents[incidents["vehicle_id"].notna() & incidents["severity"].isin(wanted)]
    of = own.groupby("vehicle_id", sort=False)["severity"].agg(severity="first", alerts="size")
    there = fleet.drop(columns=["severity", "alerts"]).set_index("vehicle_id")
    return pd.DataFrame(of.join(there, how="inner").reset_index())


def of_fleet(row: Record, zone: ZoneInfo, now: pd.Timestamp) -> str:
    """An incident of the fleet in a line."""
    since = text.clock(row["opened_at"], zone, now)
    return (
        f"{text.severity(row['severity'])} · {row['vehicles']:,} vehicles · {row['message']} · since {since}"
    )
