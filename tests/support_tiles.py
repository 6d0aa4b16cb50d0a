"""A small PMTiles file: areas and lines of a made-up land, cut into vector tiles."""

from __future__ import annotations

import gzip
import math
from collections.abc import Sequence
from pathlib import Path

from pmtiles.tile import Compression, TileType, zxy_to_tileid
from pmtiles.writer import write

EXTENT = 4096
MARGIN = 64
AREA, LINE = 3, 2
Box = tuple[float, float, float, float]
"""West, south, east, north, degrees."""


def write_tiles(path: Path, layers: dict[str, Box], deepest: int, attribution: str = "") -> None:
    """Each layer is a box and its diagonal; tiles from zoom 0 on wherever one of them lies."""
    metadata = {"vector_layers": [{"id": name} for name in layers], "attribution": attribution}
    west, south, east, north = (
        pick(box[k] for box in layers.values()) for k, pick in enumerate((min, min, max, max))
    )
    with write(str(path)) as writer:
        for zoom in range(deepest + 1):
            (left, top), (right, bottom) = (_world(*at, zoom) for at in ((west, north), (east, south)))
            for tile_id, x, y in sorted(
                (zxy_to_tileid(zoom, x, y), x, y)
                for x in range(int(left), int(right) + 1)
                for y in range(int(top), int(bottom) + 1)
            ):
                found = b"".join(_layer(name, box, zoom, x, y) for name, box in layers.items())
                writer.write_tile(tile_id, gzip.compress(found))
        header = {
            "tile_type": TileType.MVT,
            "tile_compression": Compression.GZIP,
            "min_lon_e7": int(west * 1e7),
            "min_lat_e7": int(south * 1e7),
            "max_lon_e7": int(east * 1e7),
            "max_lat_e7": int(north * 1e7),
            "center_zoom": 0,
            "center_lon_e7": 0,
            "center_lat_e7": 0,
        }
        writer.finalize(header, metadata)


def _world(lon: float, lat: float, zoom: int) -> tuple[float, float]:
    """Place in tiles of the zoom."""
    south = 0.5 - math.asinh(math.tan(math.radians(lat))) / (2 * math.pi)
    return (lon + 180) / 360 * 2**zoom, south * 2**zoom


def _layer(name: str, box: Box, zoom: int, x: int, y: int) -> bytes:
    west, south, east, north = box
    (left, top), (right, bottom) = _world(west, north, zoom), _world(east, south, zoom)
    across, down = (
        [min(max(round((v - tile) * EXTENT), -MARGIN), EXTENT + MARGIN) for v in ends]
        for ends, tile in (((left, right), x), ((top, bottom), y))
    )
    (w, e), (n, s) = across, down
    if w == e or n == s:
        return b""
    features = _feature(AREA, [(w, n), (e, n), (e, s), (w, s)]) + _feature(LINE, [(w, s), (e, n)])
    body = _field(15, 2) + _chunk(1, name.encode()) + features + _field(5, EXTENT)
    return _chunk(3, body)


def _feature(kind: int, points: Sequence[tuple[int, int]]) -> bytes:
    """Commands of the vector tile specification, 4.3: move, lines, and for an area close."""
    steps = [(bx - ax, by - ay) for (ax, ay), (bx, by) in zip([(0, 0), *points], points, strict=False)]
    zigzag = [[(v << 1) ^ (v >> 31) for v in step] for step in steps]
    commands = [1 | 1 << 3, *zigzag[0], 2 | len(points) - 1 << 3, *(v for step in zigzag[1:] for v in step)]
    commands += [7 | 1 << 3] if kind == AREA else []
    return _chunk(2, _field(3, kind) + _chunk(4, b"".join(map(_varint, commands))))


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def _field(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _chunk(number: int, body: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(body)) + body
