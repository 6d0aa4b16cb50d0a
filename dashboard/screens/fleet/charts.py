"""The fleet's figures with their trend, and layers of its map: bubbles, the vehicle chosen. Pure."""

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pandas as pd
import pydeck as pdk

from dashboard.shared import pictures, text
from dashboard.shared.maps import address, dot, literal, placed
from dashboard.shared.text import Columns, Record, rows_of
from dashboard.shared.theme import SEVERITIES, STATES, rgba

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
    who = f"{text.severity(row['severity'])} · {text.whose(row).removeprefix('fleet: ')}"
    return f"{who} · {row['message']} · since {text.clock(row['opened_at'], zone, now)}"


CLUSTERS_PATH: Final = "/map/clusters"
"""Where the server of the pages serves the bubbles by map tile; ``at`` is the number of a result."""
MANY: Final = 1_000  # vehicles from which bubbles are drawn, and small signs from afar
APART_ZOOM: Final = 12  # from the next zoom on every vehicle is drawn by itself
CELLS: Final = 3  # bubbles along a tile's side, at most: a tile is 512 to 1024 px wide
CLUSTER_LEAST: Final = 10  # fewer vehicles than these in a cell are drawn one by one: no bubble
RADIUS_PX: Final = (11.0, 30.0)
FULL: Final = 1_500  # vehicles from which a bubble does not grow any more
POLE_DEG: Final = 85.0

Floats = npt.NDArray[np.float64]


def clusters(number: str, states: Sequence[str], seen: int) -> pdk.Layer:
    """Bubbles for places with many vehicles, by tiles that the browser asks for as the reader moves.

    ``seen`` clicks have been answered: with each the layer gets another name, which clears the map's choice;
    two bubbles of different tiles may have one place in their lists and would be taken for one.
    """
    tiles = {"min_zoom": 0, "max_zoom": APART_ZOOM, "visible_max_zoom": APART_ZOOM + 0.5, "tile_size": 512}
    disc: Any = {"get_point_radius": "properties.r", "point_radius_units": literal("pixels")}
    disc |= {"get_fill_color": "properties.c", "stroked": True, "get_line_color": "properties.k"}
    disc |= {"get_line_width": 2, "line_width_units": literal("pixels")}
    words: Any = {"get_text": "properties.n", "get_text_size": 12, "get_text_color": [255, 255, 255, 255]}
    words |= {"text_font_family": literal("sans-serif"), "text_font_weight": 600}
    return pdk.Layer(
        "TileLayer",
        address(f"{CLUSTERS_PATH}/{{z}}/{{x}}/{{y}}.json", number, states),
        id=f"clusters-{seen}",
        point_type=literal("circle+text"),
        pickable=True,
        **tiles,
        **disc,
        **words,
    )


def ring(fleet: pd.DataFrame, vehicle_id: str) -> list[pdk.Layer]:
    """A ring around the vehicle whose card is open; none where it has no position."""
    one = placed(fleet[fleet["vehicle_id"] == vehicle_id])
    rows = [{"lon": r["lon_deg"], "lat": r["lat_deg"]} for r in rows_of(one)]
    colour = [214, 36, 110, 255]
    return [dot(rows, "chosen", get_radius=24, filled=False, get_line_color=colour)] if rows else []


def tile(fleet: pd.DataFrame, zoom: int, column: int, row: int) -> dict[str, Any]:
    """The bubbles of one tile of the Web Mercator grid, GeoJSON; ``fleet`` as in fleet_latest."""
    located = placed(fleet)
    east, south = world(located["lon_deg"].to_numpy(float), located["lat_deg"].to_numpy(float))
    scale = 2.0**zoom
    inside = (np.floor(east * scale) == column) & (np.floor(south * scale) == row)
    within = (east[inside] * scale - column, south[inside] * scale - row)
    across, down = (np.minimum(np.floor(v * CELLS), CELLS - 1).astype(np.int64) for v in within)
    groups = (rows for _, rows in located[inside].groupby(across + CELLS * down, sort=True))
    bubbles = [_bubble(rows, zoom) for rows in groups if len(rows) >= CLUSTER_LEAST]
    return {"type": "FeatureCollection", "features": bubbles}


def world(lon_deg: Floats, lat_deg: Floats) -> tuple[Floats, Floats]:
    """Place on the Web Mercator square: 0 to 1 from west to east and from north to south."""
    lat = np.radians(np.clip(lat_deg, -POLE_DEG, POLE_DEG))
    return (lon_deg + 180) / 360, (1 - np.arcsinh(np.tan(lat)) / math.pi) / 2


def _bubble(rows: pd.DataFrame, zoom: int) -> dict[str, Any]:
    """A bubble at the middle of its vehicles: colour of the most common state, rim of the worst alert."""
    lon, lat = round(float(rows["lon_deg"].mean()), 5), round(float(rows["lat_deg"].mean()), 5)
    states = rows["state"].value_counts()
    alerted = int((rows["alerts"] > 0).sum())
    worst = next((s for s in SEVERITIES if (rows["severity"] == s).any()), None)
    listed = ", ".join(f"{count:,} {state}" for state, count in states.items())
    alerts = f"\n{alerted:,} with alerts, worst {worst}" if alerted else ""
    tip = f"{len(rows):,} vehicles\n{listed}{alerts}"
    return {
        "type": "Feature",
        "geometry": {"type": "Point", "coordinates": [lon, lat]},
        "properties": {
            "n": short(len(rows)),
            "r": round(radius_px(len(rows)), 1),
            "c": list(rgba(STATES[str(states.index[0])], 235)),
            "k": list(rgba(SEVERITIES[worst])) if worst else [255, 255, 255, 230],
            "tip": f"{tip}\nclick to look closer",
            "cluster": [lat, lon, zoom],
        },
    }


def radius_px(vehicles: int) -> float:
    """The area of a bubble grows with its vehicles, up to FULL."""
    low, high = RADIUS_PX
    return low + (high - low) * math.sqrt(min(vehicles, FULL) / FULL)


def short(count: int) -> str:
    """``87``, ``1.2k``, ``14k``."""
    if count < 1000:
        return str(count)
    return f"{count / 1000:.1f}k" if count < 9950 else f"{round(count / 1000)}k"
