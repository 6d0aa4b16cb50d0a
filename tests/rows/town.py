"""The town and its fleet of 40: names, states, streets, places."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

from psycopg.types.json import Jsonb

Row = dict[str, Any]

WINDOWS = 360
CENTRE = (49.0069, 8.4037)
ROVER = "TESTRVER000000001"
ROVER_START = datetime(2021, 3, 29, 8, 0, tzinfo=UTC)
HOSTILE_MODEL = '<b onclick="x()">b</b> ![i](http://198.51.100.1/i.png) @@=({s}'
STATES = ["moving"] * 24 + ["idling"] * 6 + ["parked"] * 6 + ["silent"] * 3 + ["unknown"]
MODELS = (
    ("Corolla 1.8", "petrol", "car"),
    ("Sprinter 316", "diesel", "van"),
    ("Leaf 24 kWh", "electric", "car"),
    ("Actros 1845", "diesel", "heavy"),
    ("Model 3", "electric", "car"),
)


def vehicle_id(n: int) -> str:
    """The n-th vehicle of the fleet, from 0."""
    return f"TESTFLEET{n:08d}"


def roads() -> list[Row]:
    """A bent grid of 14 x 10 crossings, about 250 m apart; every fourth street is an arterial."""
    columns, rows = 14, 10
    edges = []
    for r in range(rows):
        for c in range(columns):
            if c + 1 < columns:
                edges.append((_crossing(c, r), _crossing(c + 1, r), r % 4 == 1))
            if r + 1 < rows:
                edges.append((_crossing(c, r), _crossing(c, r + 1), c % 4 == 2))
    return [
        {
            "network": "town",
            "edge_id": n,
            "road_class": "primary" if major else "residential",
            "speed_limit_kmh": 60.0 if major else 30.0,
            "length_m": 250.0,
            "path": Jsonb([list(a), list(b)]),
        }
        for n, (a, b, major) in enumerate(edges)
    ]


def _crossing(column: int, row: int) -> tuple[float, float]:
    east = (column - 6.5) * 0.0035 + 0.0007 * math.sin(row * 0.9)
    north = (row - 4.5) * 0.0023 + 0.0004 * math.sin(column * 0.8)
    return round(CENTRE[1] + east, 6), round(CENTRE[0] + north, 6)


def ends(edge: Row) -> tuple[list[float], list[float]]:
    a, b = edge["path"].obj
    return a, b


def place(edges: list[Row], n: int, share: float) -> tuple[float, float, float]:
    """Latitude, longitude and heading of a vehicle that has driven ``share`` of its street."""
    a, b = ends(edges[(n * 29 + 7) % len(edges)])
    east = (b[0] - a[0]) * math.cos(math.radians(a[1]))
    heading = math.degrees(math.atan2(east, b[1] - a[1])) % 360
    return round(a[1] + (b[1] - a[1]) * share, 6), round(a[0] + (b[0] - a[0]) * share, 6), round(heading, 1)
