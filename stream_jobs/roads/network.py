"""A road network as arrays, and the file in which the stages of the stream find it.

The network in use is copied from the database into ``<home>/lookups/roads.npz`` (see update.py): a stage
reads it where it runs, and again when the file has changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from stream_jobs.frames.arrays import Floats, Ints

FOLDER = "lookups"
FILE = "roads.npz"

EdgeRow = tuple[int, str, float, float, list[list[float]]]
"""Edge id, class, limit [km/h], length [m], path [[lon, lat], ...] in degrees."""


@dataclass(frozen=True, slots=True)
class RoadNetwork:
    """Directed edges, [n_edges], and the points of their paths, one path after the other."""

    number: int
    """Of the network in the database."""
    edge_id: Ints
    road_class: npt.NDArray[np.str_]
    limit_kmh: Floats
    length_m: Floats
    first_point: Ints
    """Where each path begins, and the end of the last, [n_edges + 1]."""
    lat_deg: Floats
    lon_deg: Floats

    def ends(self) -> tuple[Ints, Ints]:
        """The first and the last point of each edge."""
        return self.first_point[:-1], self.first_point[1:] - 1


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


def place_of(home: Path) -> Path:
    """Where the network in use lies."""
    return home.absolute() / FOLDER / FILE


def save(network: RoadNetwork, path: Path) -> None:
    """Write the file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with draft.open("wb") as file:
        np.savez(file, **{f.name: getattr(network, f.name) for f in fields(network)})
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def load(path: Path) -> RoadNetwork:
    """Read what ``save`` wrote."""
    with np.load(path) as found:
        arrays = {f.name: found[f.name] for f in fields(RoadNetwork)}
    return RoadNetwork(**arrays | {"number": int(arrays["number"])})


def version_of(path: Path) -> int | None:
    """Changes when the file does; None where there is none."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return None


@lru_cache(maxsize=4)
def loaded(path: Path, version: int) -> RoadNetwork:  # noqa: ARG001  the version is the key
    """The network of a version of the file, read once a process."""
    return load(path)
