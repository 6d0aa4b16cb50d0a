"""The two pictures as Streamlit components: scripts, style and words of our own, read from this folder.

Nothing of a device goes into them but as data, and their scripts write data as text only.
"""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import streamlit as st

from dashboard.shared.text import Record
from dashboard.shared.theme import LIMIT, SERIES, TONES, Mode

HERE: Final = Path(__file__).parent
SCRIPTS: Final = {"trip": ("trip.js",), "replay": ("timeline.js", "stretch.js", "stock.js", "replay.js")}
DECK_SCALE: Final = (
    f"<script>(() => {{{''.join((HERE / f).read_text() for f in ('scale.js', 'deck_scale.js'))}}})()</script>"
)
"""Draws a scale bar on each map of a page."""


def tone(mode: Mode) -> Record:
    """Colours of map and chart in one of the two themes."""
    return TONES[mode] | {"line": SERIES[0], "limit": LIMIT, "free": SERIES[2]}


@lru_cache
def component(part: str) -> Callable[..., Any]:
    """The picture of one ``trip``, or the player of a day (``replay``); ``data`` as its page makes it."""
    files = ("common.js", "scale.js", "world.js", "ground.js", "map.js", *SCRIPTS[part])
    script = "\n".join((HERE / file).read_text() for file in files)
    html, css = (HERE / f"{part}.html").read_text(), (HERE / "player.css").read_text()
    made: Callable[..., Any] = st.components.v2.component(f"odograph_{part}", html=html, css=css, js=script)
    return made
