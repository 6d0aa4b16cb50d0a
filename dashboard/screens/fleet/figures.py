"""The figures of the fleet with their trend: rows in, tiles out. No SQL, no streamlit."""

from typing import Final, NamedTuple

import pandas as pd

from dashboard.shared import pictures, text
from dashboard.shared.text import Columns, Record
from dashboard.shared.theme import SEVERITIES

TREND_LEAST: Final = 3  # minutes that make a trend
ALERTED: Final[Columns] = {  # vehicles with active alerts
    "Severity": ("severity", text.severity),
    "Vehicle": "vehicle_id",
    "Alerts": "alerts",
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
    unseen = f"{shown(now['alerts_unacknowledged'])} not seen"
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
        Tile("Active alerts", shown(now["alerts_active"]), delta=unseen),
    ]


def trend(hour: pd.DataFrame | None, column: str) -> list[float] | None:
    """The values there are; None below TREND_LEAST."""
    known = [] if hour is None else [float(v) for v in hour[column].dropna()]
    return known if len(known) >= TREND_LEAST else None


def severities(now: Record) -> str:
    """The active alerts by severity, in words."""
    counts = {"CRITICAL": now["alerts_critical"]} | {s: now[s.lower()] for s in list(SEVERITIES)[1:]}
    words = " · ".join(f"{text.severity(name)} {n}" for name, n in counts.items())
    return f"Active alerts: {words} · not acknowledged: {now['alerts_unacknowledged']}"
