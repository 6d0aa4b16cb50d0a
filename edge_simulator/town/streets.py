"""The plan of a made-up city: streets as lines in metres around the centre, not yet a network.

A lattice is bent by smooth waves, drawn together towards the centre, thinned out by a river and parks, and
girdled by a motorway with ramps. Every polyline goes through the same bending, so streets stay smooth.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np

from edge_simulator.geo import Bools, Floats, Ints

CLASSES = ("motorway", "arterial", "collector", "residential")
MOTORWAY, ARTERIAL, COLLECTOR, RESIDENTIAL = range(4)

LINES = 29
RADIUS_M = 6200.0
POINTS = 4
RING_NODES = 44
RING_AT = 0.74
MAX_RAMP_M = 620.0


@dataclass(frozen=True, slots=True)
class Plan:
    """Streets as undirected links. ``path_m`` is [n_links, POINTS, 2] (east, north), ends at the nodes."""

    node_m: Floats
    link: Ints
    road_class: Ints
    limit_kmh: Ints
    path_m: Floats


def plan(rng: np.random.Generator) -> Plan:
    """The plan of one city, drawn from ``rng``."""
    turn_rad, lengths_m = rng.uniform(-0.4, 0.4), np.array([9000.0, 4300.0, 2300.0])
    amplitudes_m = lengths_m * np.array([0.040, 0.022, 0.012])
    waves = np.column_stack([amplitudes_m, lengths_m, rng.uniform(0, 2 * np.pi, (3, 2))])
    cos, sin = np.cos(turn_rad), np.sin(turn_rad)

    def bend(uv: Floats) -> Floats:
        """The map from lattice coordinates in -1..1 to metres."""
        u, v = uv[..., 0], uv[..., 1]
        pull = 0.66 + 0.34 * np.minimum((u * u + v * v), 1.4)
        x, y = RADIUS_M * u * pull, RADIUS_M * v * pull
        for amplitude, length, phase_x, phase_y in waves:
            x, y = (
                x + amplitude * np.sin(2 * np.pi * y / length + phase_x),
                y + amplitude * np.sin(2 * np.pi * x / length + phase_y),
            )
        return np.stack([x * cos - y * sin, x * sin + y * cos], axis=-1)

    grid = _grid(rng, bend)
    ring = _ring(rng, bend, first_node=len(grid.node_m))
    parts = grid, ring, _ramps(grid, ring)
    return _trimmed(Plan(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Plan))))


def _line_class(rng: np.random.Generator) -> Ints:
    """Class of each lattice line: arterials about every seventh, a collector between."""
    classes = np.full(LINES, RESIDENTIAL)
    start = int(rng.integers(1, 4))
    classes[start::6] = ARTERIAL
    classes[start + 3 :: 6] = COLLECTOR
    return classes


def _grid(rng: np.random.Generator, bend: Callable[[Floats], Floats]) -> Plan:
    columns, rows = _line_class(rng), _line_class(rng)
    step = 2 / (LINES - 1)
    jitter = rng.uniform(-0.24, 0.24, (LINES, LINES, 2)) * step
    jitter[columns != RESIDENTIAL, :, 0] *= 0.15
    jitter[:, rows != RESIDENTIAL, 1] *= 0.15
    axis = np.linspace(-1, 1, LINES)
    uv = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1) + jitter
    index = np.arange(LINES * LINES).reshape(LINES, LINES)
    along = np.column_stack([index[:, :-1].ravel(), index[:, 1:].ravel()])
    across = np.column_stack([index[:-1, :].ravel(), index[1:, :].ravel()])
    link = np.vstack([along, across])
    road_class = np.concatenate([np.repeat(columns, LINES - 1), np.tile(rows, LINES - 1)])
    flat = uv.reshape(-1, 2)
    share = np.linspace(0, 1, POINTS)[None, :, None]
    path = bend(flat[link[:, 0]][:, None] * (1 - share) + flat[link[:, 1]][:, None] * share)
    limit = np.select([road_class == ARTERIAL, road_class == COLLECTOR], [60, 50], 30)
    limit[(road_class == ARTERIAL) & (np.hypot(*path.mean(axis=1).T) < 2200)] = 50
    whole = Plan(bend(flat), link, road_class, limit, path)
    return _kept(whole, _open(rng, whole, flat))


def _open(rng: np.random.Generator, grid: Plan, uv: Floats) -> Bools:
    """Which links exist: inside the city's outline, not in a park, over the river only where bridges are."""
    middle = grid.path_m.mean(axis=1)
    minor = grid.road_class >= COLLECTOR
    angle = np.arctan2(uv[:, 1], uv[:, 0])
    outline = 1.08 + 0.07 * np.sin(3 * angle + rng.uniform(0, 6)) + 0.05 * np.sin(5 * angle)
    inside = np.hypot(uv[:, 0], uv[:, 1]) < outline
    keep: Bools = inside[grid.link[:, 0]] & inside[grid.link[:, 1]]
    phase, offset = rng.uniform(0, 6), rng.uniform(900, 1700)
    bank = grid.node_m[:, 0] - offset - 700 * np.sin(grid.node_m[:, 1] / 2100 + phase) > 0
    keep &= ~((bank[grid.link[:, 0]] != bank[grid.link[:, 1]]) & minor)
    for _ in range(4):
        distance_m, angle_rad = rng.uniform(1500, 4600), rng.uniform(0, 2 * np.pi)
        centre = distance_m * np.array([np.cos(angle_rad), np.sin(angle_rad)])
        keep &= ~((np.hypot(*(middle - centre).T) < rng.uniform(380, 760)) & minor)
    keep &= ~((grid.road_class == RESIDENTIAL) & (rng.random(len(keep)) < 0.09))
    return keep


def _ring(rng: np.random.Generator, bend: Callable[[Floats], Floats], first_node: int) -> Plan:
    count = RING_NODES * (POINTS - 1)
    angle = np.linspace(0, 2 * np.pi, count, endpoint=False)
    radius = RING_AT * (1 + 0.05 * np.sin(2 * angle + rng.uniform(0, 6)))
    curve = bend(np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1))
    first = np.arange(RING_NODES) * (POINTS - 1)
    path = curve[(first[:, None] + np.arange(POINTS)) % count]
    node = np.arange(RING_NODES)
    link = np.column_stack([node, (node + 1) % RING_NODES]) + first_node
    return Plan(curve[first], link, np.full(RING_NODES, MOTORWAY), np.full(RING_NODES, 100), path)


def _ramps(grid: Plan, ring: Plan) -> Plan:
    """Ramps from every second ring node to the nearest arterial junction, where one is near."""
    on_arterial = np.unique(grid.link[grid.road_class == ARTERIAL])
    ends = []
    for k in range(0, RING_NODES, 2):
        distance = np.hypot(*(grid.node_m[on_arterial] - ring.node_m[k]).T)
        if distance.min() < MAX_RAMP_M:
            ends.append((len(grid.node_m) + k, int(on_arterial[distance.argmin()])))
    link = np.array(ends)
    share = np.linspace(0, 1, POINTS)[None, :, None]
    start, stop = ring.node_m[link[:, 0] - len(grid.node_m)], grid.node_m[link[:, 1]]
    path = start[:, None] * (1 - share) + stop[:, None] * share
    return Plan(np.empty((0, 2)), link, np.full(len(link), ARTERIAL), np.full(len(link), 60), path)


def _kept(whole: Plan, keep: Bools) -> Plan:
    """The plan with only the links in ``keep``; nodes stay."""
    names = ("link", "road_class", "limit_kmh", "path_m")
    return replace(whole, **{name: getattr(whole, name)[keep] for name in names})


def _trimmed(whole: Plan) -> Plan:
    """The largest connected part without dead ends: no vehicle ever has to turn on the spot."""
    label = np.arange(len(whole.node_m))
    spread = label[:0]
    while not np.array_equal(label, spread):  # nodes take the least label of those they are joined with
        spread, label = label, label.copy()
        least = np.minimum(label[whole.link[:, 0]], label[whole.link[:, 1]])
        np.minimum.at(label, whole.link[:, 0], least)
        np.minimum.at(label, whole.link[:, 1], least)
    labels, sizes = np.unique(label[whole.link[:, 0]], return_counts=True)
    keep = label[whole.link[:, 0]] == labels[sizes.argmax()]
    while True:
        whole = _kept(whole, keep)
        degree = np.bincount(whole.link.ravel(), minlength=len(whole.node_m))
        keep = (degree[whole.link] > 1).all(axis=1)
        if keep.all():
            break
    used, link = np.unique(whole.link, return_inverse=True)
    return replace(whole, node_m=whole.node_m[used], link=link.reshape(-1, 2))
