"""A road network as arrays, the file in which the stages of the stream find it, and the edge of a sample.

The network in use is copied from the database into the file ``roads.npz`` (see history.py): a stage
reads it where it runs, and again when the file has changed. A sample is on the edge that fits its position
and its course best, if it does so clearly. A street's two directions are one line here; the course tells
which of them it is. A raster over the network lists the lines near each of its squares, so a batch of
positions is matched by a few array operations.
"""

import io
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from infra.contract.signals import M_PER_DEG
from infra.settings.files import write_whole
from infra.settings.sections import Roads
from infra.settings.settings import Settings
from stream_jobs.frames.arrays import Flags, Floats, Ints
from stream_jobs.frames.lookup_files import Place, held, place_of

Reals = npt.NDArray[np.float32]
EdgeRow = tuple[int, str, float, float, list[list[float]]]
"""Edge id, class, limit [km/h], length [m], path [[lon, lat], ...] in degrees."""
NOT_CLEAR: Final = -1  # no course, or a second edge fits nearly as well
NO_EDGE: Final = -2  # no edge is near enough in this direction
ROADS_FILE: Final = "roads.npz"
SQUARE_M: Final = 25.0


@dataclass(frozen=True, slots=True)
class RoadNetwork:
    """Directed edges, [n_edges], and the points of their paths, one path after the other."""

    number: int  # of the network in the database
    edge_id: Ints
    road_class: npt.NDArray[np.str_]
    limit_kmh: Floats
    length_m: Floats
    first_point: Ints  # where each path begins, and the end of the last, [n_edges + 1]
    lat_deg: Floats
    lon_deg: Floats

    def parts(self) -> tuple[Ints, Ints]:
        """The points at which straight parts begin, and their edges."""
        of_point = np.repeat(np.arange(len(self.edge_id)), np.diff(self.first_point))
        begins = np.flatnonzero(of_point[1:] == of_point[:-1])
        return begins, of_point[begins]


def network_of(number: int, rows: Iterable[EdgeRow]) -> RoadNetwork:
    """The network of rows of odograph.road_edge; paths of fewer than two points are left out."""
    kept = sorted((row for row in rows if len(row[4]) > 1), key=lambda row: row[0])
    points = np.array([point for row in kept for point in row[4]], float).reshape(-1, 2)
    return RoadNetwork(
        number=number,
        edge_id=np.array([row[0] for row in kept], np.int64),
        road_class=np.array([row[1] for row in kept], np.str_),
        limit_kmh=np.array([row[2] for row in kept], float),
        length_m=np.array([row[3] for row in kept], float),
        first_point=np.cumsum([0, *(len(row[4]) for row in kept)]),
        lat_deg=points[:, 1],
        lon_deg=points[:, 0],
    )


def save(network: RoadNetwork, path: Path) -> None:
    """Write the file whole or not at all."""
    np.savez(file := io.BytesIO(), **{f.name: getattr(network, f.name) for f in fields(network)})
    write_whole(path, file.getbuffer())


def load(path: Path) -> RoadNetwork:
    """Read what ``save`` wrote."""
    with np.load(path) as found:
        arrays = {f.name: found[f.name] for f in fields(RoadNetwork)}
    return RoadNetwork(**arrays | {"number": int(arrays["number"])})


@dataclass(frozen=True, slots=True)
class RoadIndex:
    """Straight parts of streets, [n_parts], in metres from the network's corner, and the raster over them."""

    network: int
    edge_id: Ints
    lat_deg: float
    lon_deg: float
    east_m: float  # metres a degree
    lines: Reals  # begin and direction of each part, east and north, and its length, [5, n_parts]
    ahead: Ints  # the edge that leads along a part, and the one against it; -1: none
    back: Ints
    width: int
    height: int
    first: Ints  # where the parts of each square begin in ``parts``, [width * height + 1]
    parts: Ints
    fit: Roads


def index_of(net: RoadNetwork, fit: Roads) -> RoadIndex:
    """The index of a network of at least one edge; ``fit``: the settings that say how an edge is judged."""
    east_m = M_PER_DEG * float(np.cos(np.radians(net.lat_deg.mean())))
    south = float(net.lat_deg.min()) - fit.match_radius_m / M_PER_DEG
    west = float(net.lon_deg.min()) - fit.match_radius_m / east_m
    x, y = (net.lon_deg - west) * east_m, (net.lat_deg - south) * M_PER_DEG
    stands, back_of = _streets(net)
    begins, edge = net.parts()
    dx, dy = x[begins + 1] - x[begins], y[begins + 1] - y[begins]
    length = np.hypot(dx, dy)
    chosen = stands[edge] & (length > 0)
    begins, edge, dx, dy, length = begins[chosen], edge[chosen], dx[chosen], dy[chosen], length[chosen]
    width, height = (int((v.max() + fit.match_radius_m) // SQUARE_M) + 1 for v in (x, y))
    lines = np.column_stack([x[begins], y[begins], dx / length, dy / length, length])
    first, parts = _raster(lines, width, height, fit.match_radius_m)
    return RoadIndex(
        network=net.number, edge_id=net.edge_id, lat_deg=south, lon_deg=west, east_m=east_m,
        lines=np.ascontiguousarray(lines.T, np.float32), ahead=edge, back=back_of[edge], width=width,
        height=height, first=first, parts=parts, fit=fit,
    )  # fmt: skip


def match(index: RoadIndex, lat_deg: Floats, lon_deg: Floats, heading_deg: Floats, course: Flags) -> Ints:
    """The edge (its place in ``edge_id``) of each sample, or NOT_CLEAR, or NO_EDGE; ``course``: is known."""
    x = ((lon_deg - index.lon_deg) * index.east_m).astype(np.float32)
    y = ((lat_deg - index.lat_deg) * M_PER_DEG).astype(np.float32)
    column, row = (np.floor(v / SQUARE_M).astype(np.int64) for v in (x, y))
    inside = (column >= 0) & (column < index.width) & (row >= 0) & (row < index.height)
    square = np.where(inside, row * index.width + column, 0)
    first = index.first[square]
    count = np.where(inside, index.first[square + 1] - first, 0)
    found = np.full(len(lat_deg), NO_EDGE)
    near = np.flatnonzero(course & (count > 0))
    if len(near):
        turn = np.radians(heading_deg[near]).astype(np.float32)
        edge = _best(index, x[near], y[near], np.sin(turn), np.cos(turn), first[near], count[near])
        found[near] = edge
    return np.where(course, found, NOT_CLEAR)


def _best(index: RoadIndex, x: Reals, y: Reals, east: Reals, north: Reals, first: Ints, count: Ints) -> Ints:
    """Positions with at least one candidate each: the candidates are ``parts[first : first + count]``.

    The cost is (distance / sigma_m)^2 + (angle / sigma_deg)^2, roughly; beyond the greatest distance or angle
    an edge is no candidate, and the best one must be better than the next by the margin.
    """
    begins = np.cumsum(count) - count
    of = np.repeat(np.arange(len(count)), count)
    part = index.parts[np.arange(len(of)) + (first - begins)[of]]
    x0, y0, ux, uy, length = index.lines.take(part, axis=1)
    dx, dy = x[of] - x0, y[of] - y0
    along = np.clip(dx * ux + dy * uy, 0, length)
    off2 = (dx - along * ux) ** 2 + (dy - along * uy) ** 2
    cosine = east[of] * ux + north[of] * uy
    edge = np.where(cosine >= 0, index.ahead[part], index.back[part])
    fit, slant = index.fit, 1 - np.abs(cosine)
    turned = slant * np.float32(2 / np.radians(fit.match_sigma_deg) ** 2)
    cost = off2 / np.float32(fit.match_sigma_m**2) + turned
    widest = 1 - np.cos(np.radians(fit.match_angle_deg))
    cost[(off2 > fit.match_radius_m**2) | (slant > widest) | (edge < 0)] = np.inf
    least = np.minimum.reduceat(cost, begins)
    at = np.flatnonzero(cost == least[of])
    best = at[np.flatnonzero(np.diff(of[at], prepend=-1))]
    chosen = edge[best]
    cost[edge == chosen[of]] = np.inf
    second = np.minimum.reduceat(cost, begins)
    with np.errstate(invalid="ignore"):
        clear = second - least >= fit.match_margin
    return np.where(np.isinf(least), NO_EDGE, np.where(clear, chosen, NOT_CLEAR))


def _streets(net: RoadNetwork) -> tuple[Flags, Ints]:
    """Which edges stand for their street, and the edge that leads back along it, -1 where there is none."""
    seen: dict[tuple[tuple[float, float], ...], int] = {}
    stands, back = np.ones(len(net.edge_id), np.bool_), np.full(len(net.edge_id), -1)
    for edge in range(len(net.edge_id)):
        span = slice(net.first_point[edge], net.first_point[edge + 1])
        path = tuple(zip(net.lat_deg[span].tolist(), net.lon_deg[span].tolist(), strict=True))
        other = seen.get(path[::-1])
        if other is not None and back[other] < 0:
            stands[edge], back[other] = False, edge
        seen[path] = edge
    return stands, back


def _raster(lines: Floats, width: int, height: int, radius_m: float) -> tuple[Ints, Ints]:
    """For each square the parts that come within ``radius_m`` of any point in it."""
    reach = radius_m + SQUARE_M / 2**0.5
    x, y, ux, uy, length = lines.T
    ends = np.stack([x, x + ux * length]), np.stack([y, y + uy * length])
    from_place = np.floor([(v.min(axis=0) - reach) / SQUARE_M for v in ends]).astype(np.int64)
    to_place = np.floor([(v.max(axis=0) + reach) / SQUARE_M for v in ends]).astype(np.int64)
    low, high = np.maximum(from_place, 0), np.minimum(to_place, [[width - 1], [height - 1]])
    across, up = high - low + 1
    count = across * up
    part = np.repeat(np.arange(len(lines)), count)
    place = np.arange(len(part)) - np.repeat(np.cumsum(count) - count, count)
    column, row = low[0][part] + place % across[part], low[1][part] + place // across[part]
    dx, dy = (column + 0.5) * SQUARE_M - x[part], (row + 0.5) * SQUARE_M - y[part]
    along = np.clip(dx * ux[part] + dy * uy[part], 0, length[part])
    near = (dx - along * ux[part]) ** 2 + (dy - along * uy[part]) ** 2 <= reach**2
    square, part = (row * width + column)[near], part[near]
    order = np.argsort(square, kind="stable")
    first = np.searchsorted(square[order], np.arange(width * height + 1))
    return first, part[order]


@dataclass(frozen=True, slots=True)
class RoadLookup:
    """Where the network in use lies, and how samples are matched to it."""

    place: Place
    fit: Roads

    def index(self) -> RoadIndex | None:
        """The index of the network as it is now, built once a version of it; None where there is none."""
        return held(self.place, ROADS_FILE, _index, self.fit)


def _index(path: Path, fit: Roads) -> RoadIndex | None:
    net = load(path) if path.exists() else None
    return index_of(net, fit) if net is not None and len(net.edge_id) else None


def lookup_of(settings: Settings) -> RoadLookup | None:
    """The lookup that the settings ask for; None where windows by edge are off."""
    roads = settings.roads
    return RoadLookup(place_of(settings), roads) if roads.edges else None
