"""Legends of the maps as small HTML of our own words and colours; nothing from a device goes in here."""

from __future__ import annotations

from collections.abc import Mapping

from dashboard import icons
from dashboard.palette import CONGESTION, LIMIT, SERIES, STATES, Mode, speed_labels

_ITEM = '<span style="display:inline-flex;align-items:center;gap:5px;white-space:nowrap">{sign}{label}</span>'
_ROW = '<div style="display:flex;flex-wrap:wrap;gap:4px 16px;font-size:0.82rem;opacity:0.85">{items}</div>'


def states(mode: Mode, counts: Mapping[str, int] | None = None) -> str:
    """Each state with its icon and how many vehicles are in it; a state without vehicles is left out.

    Without ``counts``: all states.
    """
    signs = icons.single(mode)
    items = [
        (f'<img src="{signs[state]}" width="17" height="17" alt="">', _counted(state, counts))
        for state in STATES
        if counts is None or counts.get(state)
    ]
    return _row(items)


def _counted(state: str, counts: Mapping[str, int] | None) -> str:
    return state if counts is None else f"{state} {counts[state]:,}"


def congestion() -> str:
    """The bands of the speed ratio."""
    words = {
        "free": "free (over 90 % of free flow)",
        "slow": "slow (70-90 %)",
        "congested": "congested (50-70 %)",
        "severe": "severe (under 50 %)",
        "unknown": "no free-flow speed yet",
    }
    return _row([(_swatch(colour), words[band]) for band, colour in CONGESTION.items()])


def speeds() -> str:
    """The bands of a trace's speed."""
    return _row([(_swatch(c), f"{label} km/h") for label, c in speed_labels().items()])


def _swatch(colour: str) -> str:
    style = f"width:14px;height:8px;border-radius:2px;background:{colour};display:inline-block"
    return f'<span style="{style}"></span>'


def _row(items: list[tuple[str, str]]) -> str:
    return _ROW.format(items="".join(_ITEM.format(sign=sign, label=label) for sign, label in items))


def trip() -> str:
    """The lines of a trip's chart; the bands are those of the map."""
    lines = {"speed": (SERIES[0], "solid"), "limit": (LIMIT, "dashed"), "free flow": (SERIES[2], "dotted")}
    items = [(_stroke(colour, kind), label) for label, (colour, kind) in lines.items()]
    items += [
        (_sign("A"), "begin"),
        (_sign("B"), "end"),
        (_sign("▼▲↷"), "harsh braking, acceleration, cornering"),
    ]
    items += [(_sign("■"), "stood"), (_sign("‖"), "idled"), (_sign("!"), "alert")]
    return congestion() + _row(items)


def _stroke(colour: str, kind: str) -> str:
    style = f"width:20px;border-top:2px {kind} {colour};display:inline-block"
    return f'<span style="{style}"></span>'


def _sign(sign: str) -> str:
    return f"<b>{sign}</b>"
