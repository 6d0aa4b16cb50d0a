"""The map's icons, drawn here: no file and no address is fetched."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from PIL import Image, ImageDraw

from dashboard.palette import SEVERITIES, STATES, TONES, Mode

CELL_PX: Final = 64
_SCALE: Final = 4
_UNIT: Final = CELL_PX * _SCALE / 100

Draw = ImageDraw.ImageDraw
Points = list[tuple[float, float]]


def _at(*numbers: float) -> list[float]:
    """Percent of the icon's cell in pixels of the enlarged drawing."""
    return [n * _UNIT for n in numbers]


def _polygon(draw: Draw, points: Points, colour: str, outline: str) -> None:
    scaled = [(x * _UNIT, y * _UNIT) for x, y in points]
    draw.polygon(scaled, fill=colour)
    draw.line([*scaled, scaled[0], scaled[1]], fill=outline, width=round(6 * _UNIT), joint="curve")


def _arrow(draw: Draw, colour: str, outline: str) -> None:
    _polygon(draw, [(50, 8), (80, 88), (50, 70), (20, 88)], colour, outline)


def _disc(draw: Draw, colour: str, outline: str) -> None:
    draw.ellipse(_at(16, 16, 84, 84), fill=colour, outline=outline, width=round(6 * _UNIT))


def _pause(draw: Draw, colour: str, outline: str) -> None:
    _disc(draw, colour, outline)
    draw.rectangle(_at(37, 34, 46, 66), fill="#ffffff")
    draw.rectangle(_at(54, 34, 63, 66), fill="#ffffff")


def _square(draw: Draw, colour: str, outline: str) -> None:
    draw.rounded_rectangle(
        _at(20, 20, 80, 80), radius=10 * _UNIT, fill=colour, outline=outline, width=round(6 * _UNIT)
    )


def _cross(draw: Draw, colour: str, outline: str) -> None:
    for shade, width in ((outline, 24), (colour, 13)):
        for line in ((27, 27, 73, 73), (27, 73, 73, 27)):
            draw.line(_at(*line), fill=shade, width=round(width * _UNIT))


def _ring(draw: Draw, colour: str, outline: str) -> None:
    draw.ellipse(_at(18, 18, 82, 82), outline=outline, width=round(22 * _UNIT))
    draw.ellipse(_at(22, 22, 78, 78), outline=colour, width=round(13 * _UNIT))


def _pin(draw: Draw, colour: str, outline: str) -> None:
    draw.polygon([(x * _UNIT, y * _UNIT) for x, y in ((24, 48), (76, 48), (50, 98))], fill=outline)
    draw.ellipse(_at(16, 4, 84, 72), fill=outline)
    draw.polygon([(x * _UNIT, y * _UNIT) for x, y in ((31, 52), (69, 52), (50, 89))], fill=colour)
    draw.ellipse(_at(22, 10, 78, 66), fill=colour)
    draw.rounded_rectangle(_at(45.5, 20, 54.5, 43), radius=4 * _UNIT, fill="#ffffff")
    draw.ellipse(_at(45, 47, 55, 57), fill="#ffffff")


_SHAPES: Final[dict[str, Callable[[Draw, str, str], None]]] = {
    "moving": _arrow,
    "idling": _pause,
    "parked": _square,
    "silent": _cross,
    "unknown": _ring,
}


def _icon(shape: Callable[[Draw, str, str], None], colour: str, outline: str) -> Image.Image:
    large = Image.new("RGBA", (CELL_PX * _SCALE, CELL_PX * _SCALE))
    shape(ImageDraw.Draw(large), colour, outline)
    return large.resize((CELL_PX, CELL_PX), Image.Resampling.LANCZOS)


def _icons(mode: Mode) -> dict[str, Image.Image]:
    outline = TONES[mode].outline
    states = {state: _icon(_SHAPES[state], colour, outline) for state, colour in STATES.items()}
    return states | {severity: _icon(_pin, colour, outline) for severity, colour in SEVERITIES.items()}


def _data_url(image: Image.Image) -> str:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


@lru_cache(maxsize=2)
def atlas(mode: Mode) -> tuple[str, dict[str, dict[str, int]]]:
    """All icons side by side as a ``data:`` URL, and where each lies: states centred, severities as pins."""
    icons = _icons(mode)
    sheet = Image.new("RGBA", (CELL_PX * len(icons), CELL_PX))
    for place, image in enumerate(icons.values()):
        sheet.paste(image, (place * CELL_PX, 0))
    mapping = {
        name: {
            "x": place * CELL_PX,
            "y": 0,
            "width": CELL_PX,
            "height": CELL_PX,
            "anchorY": CELL_PX if name in SEVERITIES else CELL_PX // 2,
        }
        for place, name in enumerate(icons)
    }
    return _data_url(sheet), mapping


@lru_cache(maxsize=2)
def single(mode: Mode) -> dict[str, str]:
    """Each icon alone as a ``data:`` URL, for legends."""
    return {name: _data_url(image) for name, image in _icons(mode).items()}


def mark(size_px: int = 64) -> Image.Image:
    """The sign of the product, a dial: as a picture, because a named icon would be fetched from outside."""
    large = Image.new("RGBA", (CELL_PX * _SCALE, CELL_PX * _SCALE))
    draw = ImageDraw.Draw(large)
    draw.rounded_rectangle(_at(2, 2, 98, 98), radius=22 * _UNIT, fill=STATES["moving"])
    draw.arc(_at(20, 22, 80, 82), 150, 390, fill="#ffffff", width=round(8 * _UNIT))
    draw.line(_at(50, 52, 68, 36), fill="#ffffff", width=round(8 * _UNIT))
    draw.ellipse(_at(43, 45, 57, 59), fill="#ffffff")
    return large.resize((size_px, size_px), Image.Resampling.LANCZOS)


def wordmark(mode: Mode) -> str:
    """The sign with the name, as SVG."""
    ink = {"light": "#1d2733", "dark": "#dbe3ec"}[mode]
    picture = _data_url(mark())
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" width="150" height="32" viewBox="0 0 150 32">'
        f'<image href="{picture}" width="30" height="30" y="1"/>'
        '<text x="40" y="23" font-family="sans-serif" font-size="20" font-weight="600" '
        f'fill="{ink}">Odograph</text></svg>'
    )
