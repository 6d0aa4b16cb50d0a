"""Readings as bars with their limits marked: small HTML of our own words and numbers. Pure."""

from __future__ import annotations

from html import escape
from typing import Final

from dashboard import text
from dashboard.gauges import Gauge, Limit, Reading, words
from dashboard.palette import SEVERITIES

CALM: Final = "#12937e"
_BAR: Final = "height:8px;border-radius:4px"


def picture(found: list[Reading]) -> str:
    """A bar a reading with its limits marked, and in words what it says: HTML of our own words."""
    style = "display:grid;grid-template-columns:repeat(auto-fill,minmax(250px,1fr));gap:10px 26px"
    return f'<div style="{style}">{"".join(map(_bar, found))}</div>'


def _bar(reading: Reading) -> str:
    gauge, worst = reading.gauge, reading.worst
    colour = CALM if worst is None else SEVERITIES[worst.severity]
    marks = "".join(_mark(gauge, limit) for limit in reading.limits)
    wide = _share(gauge, reading.value)
    value = text.number(reading.value, gauge.unit, gauge.digits)
    return (
        '<div style="font-size:0.85rem"><div style="display:flex;justify-content:space-between">'
        f"<span>{escape(gauge.label)}</span><b>{value}</b></div>"
        f'<div style="{_BAR};position:relative;background:rgba(128,140,155,0.25);margin:4px 0">'
        f'<div style="{_BAR};width:{wide:.1f}%;background:{colour}"></div>{marks}</div>'
        f'<div style="opacity:0.8">{escape(words(reading))}</div></div>'
    )


def _mark(gauge: Gauge, limit: Limit) -> str:
    place = _share(gauge, limit.value)
    style = f"position:absolute;top:-3px;left:{place:.1f}%;width:2px;height:14px"
    return f'<div style="{style};background:{SEVERITIES.get(limit.severity, CALM)}"></div>'


def _share(gauge: Gauge, value: float) -> float:
    return min(100.0, max(0.0, 100 * (value - gauge.low) / (gauge.high - gauge.low)))
