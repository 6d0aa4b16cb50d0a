"""Pictures of our own: icons of the map, legends and small lines; no file and no address is fetched.

Nothing from a device goes in here.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final
from urllib.parse import quote

from dashboard.shared.theme import CONGESTION, LIMIT, SERIES, SEVERITIES, SPEED_BANDS, STATES, TONES, Mode

CELL_PX: Final = 64
_SIGNS: Final = tomllib.loads(Path(__file__).with_name("icons.toml").read_text())


def _svg(body: str, wide: int, high: int, box: str) -> str:
    size = f'width="{wide}" height="{high}" viewBox="{box}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{body}</svg>'


def _data_url(svg: str) -> str:
    return f"data:image/svg+xml,{quote(svg)}"


@lru_cache(maxsize=2)
def _icons(mode: Mode) -> dict[str, str]:
    signs = {name: _SIGNS[name] for name in STATES} | dict.fromkeys(SEVERITIES, _SIGNS["pin"])
    colours = STATES | SEVERITIES
    return {name: sign.format(c=colours[name], o=TONES[mode]["outline"]) for name, sign in signs.items()}


@lru_cache(maxsize=2)
def atlas(mode: Mode) -> tuple[str, dict[str, dict[str, int]]]:
    """All icons side by side as a ``data:`` URL, and where each lies: states centred, severities as pins."""
    icons, mapping = _icons(mode), {}
    for place, name in enumerate(icons):
        foot = CELL_PX if name in SEVERITIES else CELL_PX // 2
        mapping[name] = {"x": place * CELL_PX, "y": 0, "width": CELL_PX, "height": CELL_PX, "anchorY": foot}
    drawn = (f'<g transform="translate({100 * k})">{icon}</g>' for k, icon in enumerate(icons.values()))
    many = len(icons)
    return _data_url(_svg("".join(drawn), CELL_PX * many, CELL_PX, f"0 0 {100 * many} 100")), mapping


def mark() -> str:
    """The sign of the product, a dial, as SVG: a named icon would be fetched from outside."""
    return _svg(_SIGNS["mark"].format(c=STATES["moving"]), CELL_PX, CELL_PX, "0 0 100 100")


def wordmark(mode: Mode) -> str:
    """The sign with the name, as SVG."""
    ink = {"light": "#1d2733", "dark": "#dbe3ec"}[mode]
    look = f'x="40" y="23" font-family="sans-serif" font-size="20" font-weight="600" fill="{ink}"'
    sign = _SIGNS["mark"].format(c=STATES["moving"])
    body = f'<g transform="translate(0 1) scale(0.3)">{sign}</g><text {look}>Odograph</text>'
    return _svg(body, 150, 32, "0 0 150 32")


WIDE: Final = 100
HIGH: Final = 24  # of a small line, px
_ITEM: Final = "display:inline-flex;align-items:center;gap:5px;white-space:nowrap"
_LEGEND: Final = "display:flex;flex-wrap:wrap;gap:4px 16px;font-size:0.82rem;opacity:0.85"
_BANDS: Final = {
    "free": "free (over 90 % of {})",
    "slow": "slow (70-90 %)",
    "congested": "congested (50-70 %)",
    "severe": "severe (under 50 %)",
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
    icons = {state: _data_url(_svg(_icons(mode)[state], CELL_PX, CELL_PX, "0 0 100 100")) for state in labels}
    signs = (f'<img src="{icon}" width="17" height="17" alt="">' for icon in icons.values())
    return _legend(zip(signs, labels.values(), strict=True))


def congestion(bases: Sequence[str] = ("free flow",), unknown: str = "no free-flow speed yet") -> str:
    """The bands of the ratio of speeds to what they are judged by."""
    words = _BANDS | {"unknown": unknown}
    judged_by = ", else of ".join(bases)
    return _legend((_swatch(colour), words[band].format(judged_by)) for band, colour in CONGESTION.items())


def speeds() -> str:
    """The bands of a trace's speed."""
    return _legend((_swatch(colour), f"{label} km/h") for _, colour, label in SPEED_BANDS)


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
