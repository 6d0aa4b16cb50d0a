"""The two pictures as Streamlit components: scripts, style and words of our own, read from this folder.

Nothing of a device goes into them but as data, and their scripts write data as text only.
"""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import streamlit as st

from dashboard.shared.text import Record
from dashboard.shared.theme import CONGESTION, LIMIT, SERIES, TONES, Mode

HERE: Final = Path(__file__).parent
INK: Final[dict[Mode, dict[str, str]]] = {
    "light": {
        "ink": "#44515f",
        "grid": "#e3e8ee",
        "casing": "#ffffff",
        "cursor": "#b3135a",
        "end": "#44515f",
    },
    "dark": {"ink": "#a9b6c4", "grid": "#26303c", "casing": "#0b0f14", "cursor": "#ff7ab2", "end": "#5b6a7a"},
}


def tone(mode: Mode) -> Record:
    """Colours of map and chart in one of the two themes."""
    ground = TONES[mode]
    roads = {"ground": ground.ground, "major": _css(ground.road_major), "minor": _css(ground.road_minor)}
    return roads | INK[mode] | {"line": SERIES[0], "limit": LIMIT, "free": SERIES[2]}


def _css(colour: tuple[int, int, int, int]) -> str:
    return f"rgb({colour[0]}, {colour[1]}, {colour[2]})"


def bands() -> dict[str, str]:
    """Colour of each band of the speed ratio."""
    return dict(CONGESTION)


@lru_cache(maxsize=1)
def trip() -> Callable[..., Any]:
    """The picture of one trip; ``data`` as ``screens.trip`` makes it."""
    return _component("odograph_trip", "trip", ("trip.js",))


@lru_cache(maxsize=1)
def replay() -> Callable[..., Any]:
    """The player of a day; ``data`` as ``screens.replay`` makes it."""
    return _component("odograph_replay", "replay", ("timeline.js", "stretch.js", "stock.js", "replay.js"))


def _component(name: str, part: str, files: tuple[str, ...]) -> Callable[..., Any]:
    script = "\n".join((HERE / file).read_text() for file in ("common.js", "world.js", "map.js", *files))
    html, css = (HERE / f"{part}.html").read_text(), (HERE / "player.css").read_text()
    made: Callable[..., Any] = st.components.v2.component(name, html=html, css=css, js=script)
    return made
