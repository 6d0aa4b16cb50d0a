"""Small lines behind figures, as pictures of our own numbers; nothing from a device goes in here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from dashboard.palette import SERIES

WIDE: Final = 100
HIGH: Final = 24
_SVG: Final = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" preserveAspectRatio="none">'
    '<path d="{area}" fill="{colour}" opacity="0.14"/><path d="{line}" fill="none" stroke="{colour}" '
    'stroke-width="1.5" vector-effect="non-scaling-stroke"/></svg>'
)
_IMAGE: Final = (
    '<img src="data:image/svg+xml,{svg}" alt="{told}" style="display:block;width:100%;height:{high}px">'
)


def line(values: Sequence[float], told: str) -> str:
    """The values from the oldest to the newest over an axis that begins at 0: a small change looks small.

    ``told`` says in words what it is.
    """
    top = max(*values, 0.0) or 1.0
    step = WIDE / max(len(values) - 1, 1)
    points = [f"{k * step:.1f},{HIGH - 1 - (HIGH - 2) * max(v, 0.0) / top:.1f}" for k, v in enumerate(values)]
    path = "M" + " L".join(points)
    area = f"{path} L{WIDE},{HIGH} L0,{HIGH} Z"
    svg = _SVG.format(wide=WIDE, high=HIGH, area=area, line=path, colour=SERIES[0])
    return _IMAGE.format(svg=quote(svg), told=told, high=HIGH)


def empty() -> str:
    """The room of a line that there is none of."""
    return f'<div style="height:{HIGH}px"></div>'


def words(told: str) -> str:
    """Words of our own in the place of a line."""
    style = f"height:{HIGH}px;line-height:{HIGH}px;font-size:0.78rem;opacity:0.7;white-space:nowrap"
    return f'<div style="{style}">{told}</div>'
