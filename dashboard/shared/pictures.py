"""Pictures of our own: icons of the map, legends and small lines; no file and no address is fetched.

Nothing from a device goes in here.
"""

import base64
import io
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final
from urllib.parse import quote

from PIL import Image, ImageDraw

from dashboard.shared.theme import CONGESTION, LIMIT, SERIES, SEVERITIES, STATES, TONES, Mode, speed_labels

CELL_PX: Final = 64
_LARGE_PX: Final = 4 * CELL_PX
_UNIT: Final = _LARGE_PX / 100
WHITE: Final = "#ffffff"


def _at(*numbers: float) -> list[float]:
    """Percent of the icon's cell in pixels of the enlarged drawing."""
    return [n * _UNIT for n in numbers]


def _icon(kind: str, colour: str, outline: str) -> Image.Image:
    large = Image.new("RGBA", (_LARGE_PX, _LARGE_PX))
    draw, rim = ImageDraw.Draw(large), round(6 * _UNIT)
    match kind:
        case "moving":  # an arrow
            points = [(x * _UNIT, y * _UNIT) for x, y in ((50, 8), (80, 88), (50, 70), (20, 88))]
            draw.polygon(points, fill=colour)
            draw.line([*points, *points[:2]], fill=outline, width=rim, joint="curve")
        case "idling":  # the sign of a pause on a disc
            draw.ellipse(_at(16, 16, 84, 84), fill=colour, outline=outline, width=rim)
            draw.rectangle(_at(37, 34, 46, 66), fill=WHITE)
            draw.rectangle(_at(54, 34, 63, 66), fill=WHITE)
        case "parked":  # a square
            draw.rounded_rectangle(_at(20, 20, 80, 80), 10 * _UNIT, fill=colour, outline=outline, width=rim)
        case "silent":  # a cross
            for shade, width in ((outline, 24), (colour, 13)):
                for line in ((27, 27, 73, 73), (27, 73, 73, 27)):
                    draw.line(_at(*line), fill=shade, width=round(width * _UNIT))
        case "unknown":  # a ring
            draw.ellipse(_at(18, 18, 82, 82), outline=outline, width=round(22 * _UNIT))
            draw.ellipse(_at(22, 22, 78, 78), outline=colour, width=round(13 * _UNIT))
        case _:  # a pin with an exclamation mark
            draw.polygon(_at(24, 48, 76, 48, 50, 98), fill=outline)
            draw.ellipse(_at(16, 4, 84, 72), fill=outline)
            draw.polygon(_at(31, 52, 69, 52, 50, 89), fill=colour)
            draw.ellipse(_at(22, 10, 78, 66), fill=colour)
            draw.rounded_rectangle(_at(45.5, 20, 54.5, 43), 4 * _UNIT, fill=WHITE)
            draw.ellipse(_at(45, 47, 55, 57), fill=WHITE)
    return large.resize((CELL_PX, CELL_PX), Image.Resampling.LANCZOS)


def _icons(mode: Mode) -> dict[str, Image.Image]:
    return {kind: _icon(kind, colour, TONES[mode].outline) for kind, colour in (STATES | SEVERITIES).items()}


def _data_url(image: Image.Image) -> str:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


@lru_cache(maxsize=2)
def atlas(mode: Mode) -> tuple[str, dict[str, dict[str, int]]]:
    """All icons side by side as a ``data:`` URL, and where each lies: states centred, severities as pins."""
    icons, mapping = _icons(mode), {}
    sheet = Image.new("RGBA", (CELL_PX * len(icons), CELL_PX))
    for place, (name, image) in enumerate(icons.items()):
        sheet.paste(image, (place * CELL_PX, 0))
        foot = CELL_PX if name in SEVERITIES else CELL_PX // 2
        mapping[name] = {"x": place * CELL_PX, "y": 0, "width": CELL_PX, "height": CELL_PX, "anchorY": foot}
    return _data_url(sheet), mapping


@lru_cache(maxsize=2)
def single(mode: Mode) -> dict[str, str]:
    """Each icon alone as a ``data:`` URL, for legends."""
    return {name: _data_url(image) for name, image in _icons(mode).items()}


def mark() -> Image.Image:
    """The sign of the product, a dial: as a picture, because a named icon would be fetched from outside."""
    large = Image.new("RGBA", (_LARGE_PX, _LARGE_PX))
    draw = ImageDraw.Draw(large)
    draw.rounded_rectangle(_at(2, 2, 98, 98), radius=22 * _UNIT, fill=STATES["moving"])
    draw.arc(_at(20, 22, 80, 82), 150, 390, fill=WHITE, width=round(8 * _UNIT))
    draw.line(_at(50, 52, 68, 36), fill=WHITE, width=round(8 * _UNIT))
    draw.ellipse(_at(43, 45, 57, 59), fill=WHITE)
    return large.resize((CELL_PX, CELL_PX), Image.Resampling.LANCZOS)


def wordmark(mode: Mode) -> str:
    """The sign with the name, as SVG."""
    ink = {"light": "#1d2733", "dark": "#dbe3ec"}[mode]
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" width="150" height="32" viewBox="0 0 150 32">'
        f'<image href="{_data_url(mark())}" width="30" height="30" y="1"/>'
        '<text x="40" y="23" font-family="sans-serif" font-size="20" font-weight="600" '
        f'fill="{ink}">Odograph</text></svg>'
    )


WIDE: Final = 100
HIGH: Final = 24  # of a small line, px
_ITEM: Final = "display:inline-flex;align-items:center;gap:5px;white-space:nowrap"
_LEGEND: Final = "display:flex;flex-wrap:wrap;gap:4px 16px;font-size:0.82rem;opacity:0.85"
_BANDS: Final = {
    "free": "free (over 90 % of free flow)",
    "slow": "slow (70-90 %)",
    "congested": "congested (50-70 %)",
    "severe": "severe (under 50 %)",
    "unknown": "no free-flow speed yet",
}


def _legend(items: Iterable[tuple[str, str]]) -> str:
    spans = (f'<span style="{_ITEM}">{sign}{label}</span>' for sign, label in items)
    return f'<div style="{_LEGEND}">{"".join(spans)}</div>'


def _sign(look: str) -> str:
    return f'<span style="{look};display:inline-block"></span>'


def _swatch(colour: str) -> str:
    return _sign(f"width:14px;height:8px;border-radius:2px;background:{colour}")


def states(mode: Mode, counts: Mapping[str, int] | None = None) -> str:
    """Each state with its icon; with ``counts`` of vehicles those states that have some."""
    labels = {state: state for state in STATES}
    if counts is not None:
        labels = {state: f"{state} {counts[state]:,}" for state in STATES if counts.get(state)}
    icons = single(mode)
    return _legend(
        (f'<img src="{icons[state]}" width="17" height="17" alt="">', label)
        for state, label in labels.items()
    )


def congestion() -> str:
    """The bands of the speed ratio."""
    return _legend((_swatch(colour), _BANDS[band]) for band, colour in CONGESTION.items())


def speeds() -> str:
    """The bands of a trace's speed."""
    return _legend((_swatch(colour), f"{label} km/h") for label, colour in speed_labels().items())


def trip() -> str:
    """The lines and signs of a trip's chart; the bands are those of the map."""
    lines = {"speed": f"solid {SERIES[0]}", "limit": f"dashed {LIMIT}", "free flow": f"dotted {SERIES[2]}"}
    signs = {"A": "begin", "B": "end", "▼▲↷": "harsh braking, acceleration, cornering"}
    signs |= {"■": "stood", "‖": "idled", "!": "alert"}
    items = [(_sign(f"width:20px;border-top:2px {line}"), label) for label, line in lines.items()]
    return congestion() + _legend(items + [(f"<b>{sign}</b>", label) for sign, label in signs.items()])


def line(values: Sequence[float], alt: str) -> str:
    """The values, oldest first, over an axis that begins at 0; ``alt`` is the alternative text."""
    top = max(*values, 0.0) or 1.0
    step = WIDE / max(len(values) - 1, 1)
    points = [f"{k * step:.1f},{HIGH - 1 - (HIGH - 2) * max(v, 0.0) / top:.1f}" for k, v in enumerate(values)]
    path = "M" + " L".join(points)
    svg = quote(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {HIGH}" preserveAspectRatio="none">'
        f'<path d="{path} L{WIDE},{HIGH} L0,{HIGH} Z" fill="{SERIES[0]}" opacity="0.14"/>'
        f'<path d="{path}" fill="none" stroke="{SERIES[0]}" stroke-width="1.5" '
        'vector-effect="non-scaling-stroke"/></svg>'
    )
    look = f"display:block;width:100%;height:{HIGH}px"
    return f'<img src="data:image/svg+xml,{svg}" alt="{alt}" style="{look}">'


def no_line(words: str = "") -> str:
    """Words of our own, or nothing, in the place of a line."""
    style = f"height:{HIGH}px;line-height:{HIGH}px;font-size:0.78rem;opacity:0.7;white-space:nowrap"
    return f'<div style="{style}">{words}</div>'
