"""The place of a crash on the map."""

from __future__ import annotations

import pydeck as pdk

from dashboard.maps import literal
from dashboard.palette import SEVERITIES, TONES, Mode, rgba

RADIUS_PX = 9


def spot(lat_deg: float, lon_deg: float, mode: Mode) -> pdk.Layer:
    """A ringed dot; its size is of the screen, not of the ground."""
    return pdk.Layer(
        "ScatterplotLayer",
        [{"lon": lon_deg, "lat": lat_deg, "tip": f"{lat_deg:.5f}, {lon_deg:.5f}"}],
        id="spot",
        get_position="[lon, lat]",
        get_fill_color=list(rgba(SEVERITIES["CRITICAL"])),
        get_line_color=list(rgba(TONES[mode].outline)),
        get_radius=RADIUS_PX,
        radius_units=literal("pixels"),
        line_width_units=literal("pixels"),
        get_line_width=3,
        stroked=True,
        pickable=True,
    )
