"""The figures of the fleet with their trend: rows in, tiles out. No SQL, no streamlit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from dashboard import sparks, text

FEWEST: Final = 3
"""Minutes that make a trend."""


@dataclass(frozen=True, slots=True)
class Tile:
    """One figure. ``trend``: a value a minute of the last hour; ``delta``: words in its place."""

    label: str
    value: str
    trend: list[float] | None = None
    delta: str | None = None
    help: str | None = None

    def line(self) -> str:
        """What stands below the figure, as HTML of our own words and numbers."""
        if self.delta is not None:
            return sparks.words(self.delta)
        if self.trend is None:
            return sparks.empty()
        return sparks.line(self.trend, f"{self.label} in the last hour, by minute")


def tiles(now: dict[str, Any], today: dict[str, Any], hour: pd.DataFrame | None) -> list[Tile]:
    """Now (serving.fleet_figures), since midnight (serving.fleet_today), the last hour by minute."""
    shown = text.number
    on_road = None if now["moving"] is None else now["moving"] + now["idling"]
    return [
        Tile("Vehicles", shown(now["vehicles"]), delta=f"{shown(now['parked'])} parked"),
        Tile("Reporting", shown(now["reporting"]), trend(hour, "vehicles"), help="Within two minutes"),
        Tile("On the road", shown(on_road), trend(hour, "on_road"), help="Moving, or with the ignition on"),
        Tile("Idling", shown(now["idling"]), help="Standing with the ignition on"),
        Tile("Mean speed", shown(now["speed_moving_kmh"], "km/h", 1), trend(hour, "speed_moving_kmh")),
        Tile("Frames/s", shown(now["frames_per_s"]), trend(hour, "frames_per_s")),
        Tile(
            "Driven today",
            shown(today.get("distance_km"), "km"),
            trend(hour, "distance_km"),
            _against(today),
            _since(today),
        ),
        Tile("Idle share", share(today.get("idle_share")), trend(hour, "idle_share"), help=_since(today)),
        _consumption(today, hour),
        Tile("Active alerts", shown(now["alerts_active"]), delta=_unseen(now)),
    ]


def _consumption(today: dict[str, Any], hour: pd.DataFrame | None) -> Tile:
    """Litres, or kilowatt-hours where nothing burns fuel."""
    burns = today.get("l_per_100km") is not None or today.get("kwh_per_100km") is None
    name, label = ("l_per_100km", "l/100 km") if burns else ("kwh_per_100km", "kWh/100 km")
    told = f"{_since(today)}, of vehicles whose {'fuel' if burns else 'energy'} is known"
    return Tile(label, text.number(today.get(name), digits=1), trend(hour, name), help=told)


def trend(hour: pd.DataFrame | None, column: str) -> list[float] | None:
    """The values there are; None below FEWEST."""
    known = [] if hour is None else [float(v) for v in hour[column].dropna()]
    return known if len(known) >= FEWEST else None


def share(value: Any) -> str:
    """0.123 as ``12.3 %``."""
    return text.number(None if text.missing(value) else 100 * value, "%", 1)


def _since(today: dict[str, Any]) -> str:
    return f"Since midnight, {today.get('tz') or 'UTC'}"


def _against(today: dict[str, Any]) -> str | None:
    """How much more than the day before up to this time of day."""
    now_km, then_km = today.get("distance_km"), today.get("before_distance_km")
    if now_km is None or then_km is None:
        return None
    return f"{now_km - then_km:+,.0f} km to yesterday"


def _unseen(now: dict[str, Any]) -> str:
    return f"{text.number(now['alerts_unacknowledged'])} not seen"
