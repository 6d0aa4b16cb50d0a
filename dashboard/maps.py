"""Maps: frames in, deck out. Style and roads are our own: nothing is fetched from outside."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import pandas as pd
import pydeck as pdk

from dashboard import icons
from dashboard.hexagons import wedge
from dashboard.palette import CONGESTION, TONES, Mode, rgba

Record = dict[str, Any]

ROADS_PATH: Final = "/map/roads.json"
"""Where the server of the pages serves the rows of the road layer."""
MAJOR_ROADS: Final = frozenset({"motorway", "trunk", "primary", "arterial"})
VEHICLE_LAYER: Final = "vehicles"
SMALL_PX: Final = 7
"""Of a vehicle's sign among thousands, from afar."""
PIN_PX: Final = 30
FADING_M: Final = 200
"""Of a pin that gets smaller with the map, m on the ground."""
ALPHA: Final = {"live": 150, "profile": 70, "none": 70}
"""Of traffic, by where its speed comes from."""


@dataclass(frozen=True, slots=True)
class View:
    """Where a map looks first. Equal views keep what the reader has moved to."""

    lat_deg: float
    lon_deg: float
    zoom: float


def view_of(
    lat_deg: Sequence[float], lon_deg: Sequence[float], width_px: int = 800, height_px: int = 520
) -> View:
    """The view that holds all points with a margin; raises ValueError where there are none."""
    south, north, west, east = min(lat_deg), max(lat_deg), min(lon_deg), max(lon_deg)
    lat = (south + north) / 2
    wide = max(east - west, 0.004) * 1.08
    high = max(north - south, 0.004) * 1.08 / math.cos(math.radians(lat))
    zoom = math.log2(min(width_px / wide, height_px / high) * 360 / 512)
    return View(round(lat, 5), round((west + east) / 2, 5), round(min(max(zoom, 1.0), 16.0), 2))


def ground(mode: Mode) -> str:
    """A map style of one flat colour, as an address that needs no network."""
    paint = {"background-color": TONES[mode].ground}
    layers = [{"id": "ground", "type": "background", "paint": paint}]
    return "data:application/json," + quote(json.dumps({"version": 8, "sources": {}, "layers": layers}))


def deck(layers: Iterable[pdk.Layer], view: View, mode: Mode) -> pdk.Deck:
    """A deck of these layers whose tooltip is plain text."""
    state = pdk.ViewState(
        latitude=view.lat_deg, longitude=view.lon_deg, zoom=view.zoom, min_zoom=1, max_zoom=19
    )
    style = {"fontSize": "12px", "padding": "6px 9px", "borderRadius": "6px", "whiteSpace": "pre"}
    return pdk.Deck(
        layers=list(layers),
        initial_view_state=state,
        map_provider=None,
        map_style=ground(mode),
        tooltip={"text": "{tip}", "style": style},
    )


def road_rows(edges: pd.DataFrame) -> list[Record]:
    """The road layer's data: a path and whether it is a major road."""
    return [
        {"p": [[round(x, 5), round(y, 5)] for x, y in path], "w": 3 if road_class in MAJOR_ROADS else 1}
        for path, road_class in zip(edges["path"], edges["road_class"], strict=True)
    ]


def roads(data: str | list[Record], mode: Mode) -> pdk.Layer:
    """The road network. ``data`` is rows or their address: an unchanged one is not fetched again."""
    tone = TONES[mode]
    major, minor = list(tone.road_major), list(tone.road_minor)
    return pdk.Layer(
        "PathLayer",
        data,
        id="roads",
        get_path="p",
        get_color=f"w > 1 ? {major} : {minor}",
        get_width="w",
        width_units=literal("pixels"),
        cap_rounded=True,
        joint_rounded=True,
        pickable=False,
    )


def road_address(version: str) -> str:
    """Where our own server has the road rows; it changes when they do, so a browser may keep them."""
    return f"{ROADS_PATH}?v={quote(version)}"


def vehicles(fleet: pd.DataFrame | str, mode: Mode, many: bool = False) -> pdk.Layer:
    """Every vehicle with a position: shape and colour are its state, an arrow points where it drives.

    ``fleet`` is rows or the address of ``vehicle_rows``; ``many`` makes small signs of them from afar.
    """
    sheet, mapping = icons.atlas(mode)
    return pdk.Layer(
        "IconLayer",
        fleet if isinstance(fleet, str) else vehicle_rows(fleet),
        id=VEHICLE_LAYER,
        icon_atlas=literal(sheet),
        icon_mapping=mapping,
        get_icon="icon",
        get_position="[lon, lat]",
        get_angle="angle",
        get_size=70,
        size_units=literal("meters"),
        size_min_pixels=SMALL_PX if many else 20,
        size_max_pixels=34,
        pickable=True,
        auto_highlight=True,
    )


def vehicle_rows(fleet: pd.DataFrame) -> list[Record]:
    """A row a vehicle that has a position."""
    return [_vehicle(row) for row in rows_of(placed(fleet))]


def alert_pins(fleet: pd.DataFrame, mode: Mode, name: str = "alerts", fade: bool = False) -> pdk.Layer:
    """A pin over each vehicle with active alerts, by the worst severity; ``fade``: small from afar."""
    sheet, mapping = icons.atlas(mode)
    alerted = placed(fleet[fleet["alerts"] > 0])
    rows = [
        {
            "lon": r["lon_deg"],
            "lat": r["lat_deg"],
            "icon": r["severity"],
            "vehicle_id": r["vehicle_id"],
            "tip": _tip(r),
        }
        for r in rows_of(alerted)
    ]
    return pdk.Layer(
        "IconLayer",
        rows,
        id=name,
        icon_atlas=literal(sheet),
        icon_mapping=mapping,
        get_icon="icon",
        get_position="[lon, lat]",
        get_pixel_offset=[0, -9],
        get_size=FADING_M if fade else PIN_PX,
        size_units=literal("meters" if fade else "pixels"),
        size_min_pixels=SMALL_PX,
        size_max_pixels=PIN_PX,
        pickable=True,
    )


def congestion(cells: pd.DataFrame | str) -> pdk.Layer:
    """Traffic by cell and direction, coloured by band; ``cells`` or the address of ``cell_rows``."""
    return pdk.Layer(
        "PolygonLayer",
        cells if isinstance(cells, str) else cell_rows(cells),
        id="congestion",
        get_polygon="polygon",
        get_fill_color="colour",
        stroked=False,
        pickable=True,
    )


def cell_rows(cells: pd.DataFrame) -> list[Record]:
    """Cells with a known direction: each is its quarter of the hexagon."""
    return [_wedge(row) for row in rows_of(cells[cells["heading_sector"] >= 0])]


def _vehicle(row: Record) -> Record:
    heading = row["heading_deg"] if row["state"] == "moving" else None
    return {
        "lon": row["lon_deg"],
        "lat": row["lat_deg"],
        "icon": row["state"],
        "angle": 0 if heading is None else round(-heading, 1),
        "vehicle_id": row["vehicle_id"],
        "tip": _tip(row),
    }


def _tip(row: Record) -> str:
    speed = "no speed" if row["speed_kmh"] is None else f"{row['speed_kmh']:.0f} km/h"
    lines = [row["vehicle_id"], row["model"], f"{row['state']}, {speed}"]
    if row["alerts"]:
        lines.append(f"{row['alerts']} active, worst {row['severity']}")
    return _inert("\n".join(line for line in lines if line))


def literal(value: str) -> pdk.types.String:
    """A literal for the map's JSON, where a bare string would be read as an expression."""
    return pdk.types.String(value, quote_type="")


def _inert(text: str) -> str:
    """Text of a device that the map's JSON reader cannot take for an expression or a template."""
    return text.replace("@@", "@ @").replace("{", "(").replace("}", ")")


def _wedge(row: Record) -> Record:
    """A cell's quarter in one direction; paler where it tells what is usual, or too few to tell."""
    told = {
        "live": f"{row['vehicles']} vehicles",
        "profile": f"{row['vehicles']} vehicles: as usual at this hour of the week",
        "none": f"{row['vehicles']} vehicles: too few to tell",
    }[row["source"]]
    ratio = (
        "no free-flow speed yet" if row["speed_ratio"] is None else f"{row['speed_ratio']:.0%} of free flow"
    )
    return {
        "polygon": [[round(x, 6), round(y, 6)] for x, y in wedge(row["cell"], row["heading_sector"])],
        "colour": list(rgba(CONGESTION[row["congestion"]], ALPHA[row["source"]])),
        "tip": f"{row['congestion']}: {row['speed_kmh']:.0f} km/h, {ratio}\n{told}",
    }


def placed(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows that have a position: nothing is drawn at 0, 0."""
    return frame.dropna(subset=["lat_deg", "lon_deg"])


def rows_of(frame: pd.DataFrame) -> list[Record]:
    """The rows with None for what is missing: JSON knows no NaN."""
    names = [str(name) for name in frame.columns]
    columns = [_plain(frame[name]) for name in frame.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _plain(column: pd.Series) -> list[Any]:
    whole = column.astype(object)
    filled: list[Any] = whole.where(whole.notna(), None).tolist()
    return filled
