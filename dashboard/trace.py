"""The way of one vehicle on the map: frame in, layer out."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Final

import pandas as pd
import pydeck as pdk

from dashboard.maps import Record, literal, placed, rows_of
from dashboard.palette import STATES, rgba, speed_colour

NO_SPEED: Final = STATES["silent"]
BREAK_S: Final = 60
"""A trace is not drawn across a longer silence, s."""
JUMP_MPS: Final = 70.0
"""Nor where the two ends are further apart than a car can drive, m/s: a position has jumped."""
JUMP_SLACK_M: Final = 100.0
DEGREE_M: Final = 111_195.0
"""Length of a degree of latitude, m."""


def layer(points: pd.DataFrame) -> pdk.Layer:
    """The way of one vehicle in pieces coloured by speed; broken where it was silent or jumped."""
    return pdk.Layer(
        "LineLayer",
        _pieces(points),
        id="trace",
        get_source_position="from",
        get_target_position="to",
        get_color="colour",
        get_width=4,
        width_units=literal("pixels"),
        pickable=True,
    )


def _pieces(points: pd.DataFrame) -> list[Record]:
    rows = rows_of(placed(points))
    return [_piece(a, b) for a, b in pairwise(rows) if joined(a, b)]


def joined(a: Record, b: Record) -> bool:
    """Whether two places of a vehicle are drawn as one way: no long silence and no jump lies between."""
    elapsed_s = (b["window_start"] - a["window_start"]).total_seconds()
    north_m = (b["lat_deg"] - a["lat_deg"]) * DEGREE_M
    east_m = (b["lon_deg"] - a["lon_deg"]) * DEGREE_M * math.cos(math.radians(a["lat_deg"]))
    near = math.hypot(north_m, east_m) <= JUMP_MPS * elapsed_s + JUMP_SLACK_M
    return bool(near and elapsed_s <= max(BREAK_S, 3 * b["step_s"]))


def _piece(a: Record, b: Record) -> Record:
    speed = b["speed_mean_kmh"]
    colour = NO_SPEED if speed is None else speed_colour(speed)
    tip = f"{b['local_time']:%Y-%m-%d %H:%M:%S}\n" + ("no speed" if speed is None else f"{speed:.0f} km/h")
    return {
        "from": [a["lon_deg"], a["lat_deg"]],
        "to": [b["lon_deg"], b["lat_deg"]],
        "colour": list(rgba(colour)),
        "tip": tip,
    }
