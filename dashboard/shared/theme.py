"""How the pages look, in light and dark; colours for colour-blind readers, a sign or text beside each."""

import tomllib
from pathlib import Path
from typing import Any, Final, Literal

import pandas as pd

Mode = Literal["light", "dark"]
Rgba = tuple[int, int, int, int]


TONES: Final[dict[Mode, dict[str, str]]] = {
    "light": {"ground": "#eef1f4", "major": "#b6bfca", "minor": "#d5dbe2", "outline": "#ffffff",
              "ink": "#44515f", "grid": "#e3e8ee", "cursor": "#b3135a", "end": "#44515f"},
    "dark": {"ground": "#12171e", "major": "#4a5563", "minor": "#2e3641", "outline": "#0b0f14",
             "ink": "#a9b6c4", "grid": "#26303c", "cursor": "#ff7ab2", "end": "#5b6a7a"},
}  # fmt: skip
"""Colours of maps (ground, major and minor roads, what outlines signs) and of our own pictures, by theme."""

STATES: Final[dict[str, str]] = {  # state of a vehicle -> its colour; the icon's shape says the same
    "moving": "#1a7fd0",
    "idling": "#e69f00",
    "parked": "#6b7a8c",
    "silent": "#9aa5b1",
    "unknown": "#b58ac8",
}

SEVERITIES: Final = {"CRITICAL": "#d6246e", "MAJOR": "#d9482b", "MINOR": "#ee8a1d", "WARNING": "#d9ad00"}
"""Severity -> its colour, the worst first."""

SEVERITY_SIGNS: Final = {"CRITICAL": "▲", "MAJOR": "◆", "MINOR": "■", "WARNING": "●"}

CONGESTION: Final[dict[str, str]] = {  # band of the speed ratio -> its colour, light to dark as it gets worse
    "free": "#4fa3a5",
    "slow": "#e3c65b",
    "congested": "#e5792e",
    "severe": "#8f2257",
    "unknown": "#9aa5b1",
}

SPEED_BANDS: Final[tuple[tuple[float, str, str], ...]] = (
    (20, "#8a55c9", "0-20"),
    (40, "#3b7dd4", "20-40"),
    (60, "#1fa59b", "40-60"),
    (90, "#84bd42", "60-90"),
    (float("inf"), "#eeb40a", "90+"),
)
"""Upper bound in km/h (exclusive), colour of a trace's piece, label; hue and lightness change with speed."""

SERIES: Final[tuple[str, ...]] = ("#1a7fd0", "#e0761b", "#12937e", "#b5559f")
"""Colours of a chart's lines in order."""

LIMIT: Final = "#8794a3"


def rgba(colour: str, alpha: int = 255) -> Rgba:
    """``#rrggbb`` as four numbers 0..255."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16), alpha


def speed_colour(speed_kmh: float) -> str:
    """The colour of a speed."""
    return next(colour for bound, colour, _ in SPEED_BANDS if speed_kmh < bound)


STYLE: Final = Path(__file__).with_name("style.css")
"""What the options cannot say: margins, the grid of figures, no fading while a part is updated."""


def options() -> dict[str, Any]:
    """Streamlit's options of theme.toml, by their whole names."""
    theme = tomllib.loads(Path(__file__).with_name("theme.toml").read_text())
    named = pd.json_normalize({"theme": theme}).to_dict("records")[0]
    colours = {"theme.chartCategoricalColors": list(SERIES)}
    return {str(name): value for name, value in named.items()} | colours
