"""Maps and the traffic on them: frames in, deck out. Nothing is fetched from outside."""

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import h3
import numpy as np
import pandas as pd
import pydeck as pdk

from dashboard.shared import pictures, text
from dashboard.shared.text import Record, rows_of
from dashboard.shared.theme import CONGESTION, TONES, Mode, rgba
from infra.contract.signals import M_PER_DEG
from infra.settings.sections import Roads
from stream_jobs.roads.history import LEAST_AT_ALL

Point = tuple[float, float]  # longitude and latitude, degrees
Rows = str | list[Record]  # rows of a layer, or the address that the browser has them from

ROADS_PATH: Final = "/map/roads.json"
VEHICLES_PATH: Final = "/map/vehicles.json"
CELLS_PATH: Final = "/map/cells.json"
EDGES_PATH: Final = "/map/edges.json"
"""Where the server of the pages serves the rows of these layers; ``at`` is the number of a result."""
MAJOR_ROADS: Final = frozenset({"motorway", "trunk", "primary", "arterial"})
SMALL_PX: Final = 7  # of a vehicle's sign among thousands, from afar
PIN_PX: Final = 30
FADING_M: Final = 200  # of a pin that gets smaller with the map, m on the ground
ALPHA: Final = {"live": 150, "profile": 70, "none": 70}  # of traffic, by where its speed comes from
WORST_LAST: Final = ("unknown", "free", "slow", "congested", "severe")
WEDGES_KEPT: Final = 80_000
HALF_SECTOR_DEG: Final = 45.0
BREAK_S: Final = 60  # a trace is not drawn across a longer silence, s
JUMP_MPS: Final = 70.0  # nor where the ends are further apart than a car can drive: a position has jumped
JUMP_SLACK_M: Final = 100.0
CELL_RESOLUTION: Final = 9  # H3 resolution of road cells (serving.road_cell)
POSITION: Final = ["lat_deg", "lon_deg"]
ENDS: Final = (("south", "west"), ("north", "east"))  # of a road network, by the columns of its extent


class View(NamedTuple):
    """Where a map looks first. Equal views keep what the reader has moved to."""

    lat_deg: float
    lon_deg: float
    zoom: float


WORLD: Final = View(30.0, 10.0, 1.5)


def view_of(places: pd.DataFrame, size_px: tuple[int, int]) -> View | None:
    """The view that holds all rows that have a position, with a margin; None where there are none."""
    rows = placed(places)
    if rows.empty:
        return None
    (south, west), (north, east) = rows[POSITION].min(), rows[POSITION].max()
    (width_px, height_px), lat = size_px, (south + north) / 2
    wide = max(east - west, 0.004) * 1.08
    high = max(north - south, 0.004) * 1.08 / math.cos(math.radians(lat))
    zoom = math.log2(min(width_px / wide, height_px / high) * 360 / 512)
    return View(round(lat, 5), round((west + east) / 2, 5), round(min(max(zoom, 1.0), 16.0), 2))


def view_of_cells(cells: Iterable[str], size_px: tuple[int, int]) -> View | None:
    """The view that holds all H3 cells; None where there are none."""
    corners = [corner for cell in cells for corner in h3.cell_to_boundary(cell)]
    return view_of(pd.DataFrame(corners, columns=POSITION), size_px)


def view_of_roads(network: Record, frame: pd.DataFrame, size_px: tuple[int, int]) -> View | None:
    """The view that holds the road network, a row of ``queries.road_networks``.

    None where there is none, or none of the frame's rows lies on it: real drives may be elsewhere.
    """
    if not network.get("version"):
        return None
    (south, west), (north, east) = ends = [[network[y], network[x]] for y, x in ENDS]
    rows = placed(frame)
    there = rows["lat_deg"].between(south, north) & rows["lon_deg"].between(west, east)
    return None if len(rows) and not there.any() else view_of(pd.DataFrame(ends, columns=POSITION), size_px)


def view_of_traffic(network: Record, found: pd.DataFrame, size_px: tuple[int, int]) -> View | None:
    """The view that holds the road network where vehicles were seen on it, else the cells where they were."""
    cells = [] if "cell" not in found else list(set(found.loc[found["source"] != "profile", "cell"]))
    places = pd.DataFrame(map(h3.cell_to_latlng, cells), columns=POSITION)
    return view_of_roads(network, places, size_px) or view_of_cells(cells, size_px)


def deck(layers: Iterable[pdk.Layer], view: View, style: str) -> pdk.Deck:
    """A deck of these layers on the ground of the style at this address, whose tooltip is plain text."""
    tip = {"fontSize": "12px", "padding": "6px 9px", "borderRadius": "6px", "whiteSpace": "pre"}
    place = {"latitude": view.lat_deg, "longitude": view.lon_deg, "zoom": view.zoom}
    return pdk.Deck(
        layers=list(layers),
        initial_view_state=pdk.ViewState(**place, min_zoom=1, max_zoom=19),
        map_provider=None,
        map_style=style,
        tooltip={"text": "{tip}", "style": tip},
    )


def road_rows(edges: pd.DataFrame) -> list[Record]:
    """The road layer's data: a path and whether it is a major road."""
    return [
        {"p": [[round(x, 5), round(y, 5)] for x, y in path], "w": 3 if road_class in MAJOR_ROADS else 1}
        for path, road_class in zip(edges["path"], edges["road_class"], strict=True)
    ]


def roads(address: str, mode: Mode) -> pdk.Layer:
    """The road network by the address of ``road_rows``: an unchanged one is not fetched again."""
    major, minor = (list(rgba(TONES[mode][road])) for road in ("major", "minor"))
    colours = f"w > 1 ? {major} : {minor}"
    return _paths(address, "roads", "p", get_color=colours, get_width="w", pickable=False)


def address(path: str, number: str, states: Sequence[str] = ()) -> str:
    """Where the rows of a result are, only vehicles of these states."""
    return f"{path}?{urlencode({'at': number} | ({'states': ','.join(states)} if states else {}))}"


def vehicles(fleet: pd.DataFrame | str, mode: Mode, many: bool = False) -> pdk.Layer:
    """Vehicles (rows, or their address): shape and colour are the state; ``many``: small signs from afar."""
    data = fleet if isinstance(fleet, str) else vehicle_rows(fleet)
    size: Any = {"get_size": 70, "size_units": literal("meters"), "size_max_pixels": 34}
    size["size_min_pixels"] = SMALL_PX if many else 20
    return _icons(data, "vehicles", mode, get_angle="angle", auto_highlight=True, **size)


def vehicle_rows(fleet: pd.DataFrame) -> list[Record]:
    """A row a vehicle that has a position."""
    return [_vehicle(row, row["state"]) for row in rows_of(placed(fleet))]


def alert_pins(fleet: pd.DataFrame, mode: Mode, name: str = "alerts", fade: bool = False) -> pdk.Layer:
    """A pin over each vehicle with incidents, by the worst severity; ``fade``: small from afar."""
    rows = [_vehicle(row, row["severity"], "incidents") for row in rows_of(placed(fleet))]
    high, units = (FADING_M, "meters") if fade else (PIN_PX, "pixels")
    size: Any = {"get_size": high, "size_units": literal(units)}
    size |= {"size_min_pixels": SMALL_PX, "size_max_pixels": PIN_PX}
    return _icons(rows, name, mode, get_pixel_offset=[0, -9], **size)


def _vehicle(row: Record, icon: str, what: str = "alerts") -> Record:
    heading = row["heading_deg"] if icon == "moving" else None
    speed = "no speed" if row["speed_kmh"] is None else f"{row['speed_kmh']:.0f} km/h"
    lines = [row["vehicle_id"], row["model"], f"{row['state']}, {speed}"]
    if row["alerts"]:
        lines.append(f"{row['alerts']} active {what}, worst {row['severity']}")
    words = "\n".join(line for line in lines if line)  # of a device: no expression or template for the map
    return {
        "lon": row["lon_deg"],
        "lat": row["lat_deg"],
        "icon": icon,
        "angle": 0 if heading is None else round(-heading, 1),
        "vehicle_id": row["vehicle_id"],
        "tip": words.replace("@@", "@ @").replace("{", "(").replace("}", ")"),
    }


def congestion(cells: Rows) -> pdk.Layer:
    """Traffic by cell and direction, coloured by band: ``cell_rows``."""
    return polygons(cells, "congestion", get_fill_color="colour", stroked=False)


def cell_rows(cells: pd.DataFrame) -> list[Record]:
    """Cells with a known direction: each is its quarter of the hexagon."""
    return [
        _traffic(row, "", f"{row['vehicles']} vehicles: ", ALPHA[row["source"]])
        | {"polygon": [[round(x, 6), round(y, 6)] for x, y in wedge(row["cell"], row["heading_sector"])]}
        for row in rows_of(cells[cells["heading_sector"] >= 0])
    ]


def edges(data: Rows) -> pdk.Layer:
    """Traffic by directed road edge: ``edge_rows``."""
    return _paths(data, "edges", "path", get_color="colour", get_width=5, pickable=True, auto_highlight=True)


def edge_rows(found: pd.DataFrame) -> list[Record]:
    """Edges with a known band, the worst last: where two directions share a line it is the worse one's."""
    known = found.sort_values("congestion", key=lambda c: c.map(WORST_LAST.index), kind="stable")
    return [
        _traffic(row, " in five minutes", "", min(255, ALPHA[row["source"]] + 90))
        | {"path": [[round(x, 5), round(y, 5)] for x, y in row["path"]]}
        for row in rows_of(known)
    ]


def _traffic(row: Record, when_live: str, before_usual: str, alpha: int) -> Record:
    """Colour and words of a cell or edge; paler where it tells what is usual, or of few vehicles."""
    words = {
        "live": f"{row['vehicles']} vehicles{when_live}",
        "profile": f"{before_usual}as usual at this hour of the week",
        "none": f"{row['vehicles']} vehicles: too few to be sure",
    }[row["source"]]
    ratio = "not judged" if row["speed_ratio"] is None else f"{row['speed_ratio']:.0%} of {row['basis']}"
    return {
        "colour": list(rgba(CONGESTION[row["congestion"]], alpha)),
        "tip": f"{row['congestion']}: {row['speed_kmh']:.0f} km/h, {ratio}\n{words}",
    }


def polygons(data: Rows, name: str, **options: Any) -> pdk.Layer:
    """Areas by their ``polygon``."""
    return pdk.Layer("PolygonLayer", data, id=name, get_polygon="polygon", pickable=True, **options)


def dot(rows: list[Record], name: str, **options: Any) -> pdk.Layer:
    """Ringed dots at ``lon``, ``lat``; their size is of the screen, not of the ground."""
    px: Any = {"radius_units": literal("pixels"), "get_line_width": 3, "line_width_units": literal("pixels")}
    return pdk.Layer(
        "ScatterplotLayer", rows, id=name, get_position="[lon, lat]", stroked=True, **px, **options
    )


def _icons(data: Rows, name: str, mode: Mode, **options: Any) -> pdk.Layer:
    sheet, mapping = pictures.atlas(mode)
    icons: Any = {"icon_atlas": literal(sheet), "icon_mapping": mapping, "get_icon": "icon"}
    return pdk.Layer("IconLayer", data, id=name, get_position="[lon, lat]", pickable=True, **icons, **options)


def _paths(data: Rows, name: str, path: str, **options: Any) -> pdk.Layer:
    look: Any = {"width_units": literal("pixels"), "cap_rounded": True, "joint_rounded": True}
    return pdk.Layer("PathLayer", data, id=name, get_path=path, **look, **options)


def literal(value: str) -> pdk.types.String:
    """A literal for the map's JSON, where a bare string would be read as an expression."""
    return pdk.types.String(value, quote_type="")


def placed(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows that have a position: nothing is drawn at 0, 0."""
    return frame.dropna(subset=POSITION)


def offset_m(a: Record, b: Record) -> Point:
    """From one place to another, m to the east and to the north."""
    east_m = (b["lon_deg"] - a["lon_deg"]) * M_PER_DEG * math.cos(math.radians(a["lat_deg"]))
    return east_m, (b["lat_deg"] - a["lat_deg"]) * M_PER_DEG


def sector_of(heading_deg: float | None) -> int:
    """0 north, 1 east, 2 south, 3 west, as road cells have them; -1 where there is no heading."""
    return -1 if heading_deg is None else int((heading_deg + 45) // 90 % 4)


def joined(a: Record, b: Record) -> bool:
    """Whether two places of a vehicle are drawn as one line: no long silence and no jump lies between."""
    elapsed_s = (b["window_start"] - a["window_start"]).total_seconds()
    near = math.hypot(*offset_m(a, b)) <= JUMP_MPS * elapsed_s + JUMP_SLACK_M
    return bool(near and elapsed_s <= max(BREAK_S, 3 * b["step_s"]))


@lru_cache(maxsize=WEDGES_KEPT)
def wedge(cell: str, sector: int) -> tuple[Point, ...]:
    """The quarter of an H3 cell (0 north, 1 east, 2 south, 3 west): its centre, then clockwise."""
    lat, lon = h3.cell_to_latlng(cell)
    east_per_north = math.cos(math.radians(lat))
    corners = [((x - lon) * east_per_north, y - lat) for y, x in h3.cell_to_boundary(cell)]
    first_deg = sector * 2 * HALF_SECTOR_DEG - HALF_SECTOR_DEG
    clockwise_deg = ((math.degrees(math.atan2(x, y)) - first_deg) % 360 for x, y in corners)
    turns = sorted(turn for turn in clockwise_deg if 0 < turn < 2 * HALF_SECTOR_DEG)
    rim = [_rim(corners, first_deg + turn) for turn in (0.0, *turns, 2 * HALF_SECTOR_DEG)]
    return ((lon, lat), *((lon + x / east_per_north, lat + y) for x, y in rim))


def _rim(corners: list[Point], bearing_deg: float) -> Point:
    """Where a ray from the centre leaves the convex polygon around it: at the first of the sides' lines."""
    dx, dy = math.sin(math.radians(bearing_deg)), math.cos(math.radians(bearing_deg))
    reaches = []
    for (ax, ay), (bx, by) in pairwise([*corners, corners[0]]):
        across = dx * (by - ay) - dy * (bx - ax)
        if across:
            reaches.append((ax * by - ay * bx) / across)
    reach = min(along for along in reaches if along > 0)
    return dx * reach, dy * reach


PLAIN_KMH: Final = 50.0
FREE, LIMIT, PLAIN = "free flow", "the speed limit", f"{PLAIN_KMH:.0f} km/h"
BASES: Final = (FREE, LIMIT, PLAIN)

Limits = Mapping[tuple[str, int], float]  # speed limit of each road cell and direction, km/h


def limits_of(edges: pd.DataFrame) -> dict[tuple[str, int], float]:
    """The limit in each cell and direction: harmonic mean by length; a piece is where its middle is."""
    sums: dict[tuple[str, int], tuple[float, float]] = {}
    for path, limit_kmh in zip(edges["path"], edges["speed_limit_kmh"].astype(float), strict=True):
        if not limit_kmh > 0:
            continue
        for (ax, ay), (bx, by) in pairwise(path):
            east_m, north_m = offset_m({"lat_deg": ay, "lon_deg": ax}, {"lat_deg": by, "lon_deg": bx})
            cell = h3.latlng_to_cell((ay + by) / 2, (ax + bx) / 2, CELL_RESOLUTION)
            key = (cell, sector_of(math.degrees(math.atan2(east_m, north_m))))
            far_m, known = math.hypot(east_m, north_m), sums.get(key, (0.0, 0.0))
            sums[key] = (known[0] + far_m, known[1] + far_m / limit_kmh)
    return {key: far_m / time for key, (far_m, time) in sums.items() if time > 0}


def judged(found: pd.DataFrame, limits: Limits) -> pd.DataFrame:
    """Cells or edges with ``basis``, what each speed is judged by; those without free flow are judged anew.

    Of these a speed that few vehicles were seen with is judged too: in the first hours there is no other.
    """
    known, basis = found["free_flow_kmh"].astype(float), pd.Series(FREE, index=found.index)
    if "cell" in found:
        keys = zip(found["cell"], found["heading_sector"].astype(int), strict=True)
        limit = pd.Series([limits.get(key) for key in keys], index=found.index, dtype=float)
        basis = basis.where(known.notna(), LIMIT).where(known.notna() | limit.notna(), PLAIN)
        known = known.fillna(limit).fillna(PLAIN_KMH)
    else:
        basis = basis.mask(found["free_flow_basis"] == "limit", LIMIT)
    ratio = found["speed_ratio"].astype(float).where(basis == FREE, found["speed_kmh"].astype(float) / known)
    bands = [ratio.isna(), ratio > 0.9, ratio > 0.7, ratio >= 0.5]  # as odograph.road_band
    names = np.select(bands, ["unknown", "free", "slow", "congested"], "severe")
    return found.assign(basis=basis, speed_ratio=ratio, congestion=names)


def learning(found: pd.DataFrame, first_at: datetime, roads: Roads, now: datetime) -> str:
    """How much of free flow is known, and when the rest will be; traffic is stored since ``first_at``.

    Empty where all of it is known.
    """
    total, known = len(found), int((found["basis"] == FREE).sum())
    if known == total:
        return ""
    takes_s, every = LEAST_AT_ALL * 300 + roads.history_s, text.duration(roads.history_s)
    left_s = takes_s - (now - first_at).total_seconds()
    when = f"of a place about {text.duration(takes_s)} after vehicles began to use it"
    if not known and left_s > 0:
        when = f"the first in about {text.duration(left_s)}"
    return (
        f"Free-flow speed is known of {known:,} of {total:,} places ({known / total:.0%}). It takes speeds "
        f"of {LEAST_AT_ALL} five-minute spans and is computed every {every}: {when}."
    )
