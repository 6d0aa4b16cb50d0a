"""Values as people read them: numbers with units, durations, local times, device text made harmless."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

import pandas as pd

NONE: Final = "—"
_MARKDOWN: Final = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~$:@])")


def missing(value: Any) -> bool:
    """Whether a cell holds nothing: None, NaN or NaT."""
    return value is None or bool(pd.isna(value))


def number(value: Any, unit: str = "", digits: int = 0) -> str:
    """``1,234 km``; a dash where there is no value."""
    if missing(value):
        return NONE
    return f"{float(value):,.{digits}f}" + (f" {unit}" if unit else "")


def duration(seconds: Any) -> str:
    """``45 s``, ``12 min``, ``3 h 05 min``, ``2 d 4 h``; a dash where there is no value."""
    if missing(seconds):
        return NONE
    s = max(0, round(float(seconds)))
    if s < 120:
        return f"{s} s"
    if s < 7200:
        return f"{s // 60} min"
    if s < 172_800:
        return f"{s // 3600} h {s % 3600 // 60:02d} min"
    return f"{s // 86_400} d {s % 86_400 // 3600} h"


def clock(at: Any, tz: ZoneInfo, now: datetime | None = None) -> str:
    """``14:03:22 CET``, with the day before it where that is not the day of ``now``."""
    if missing(at):
        return NONE
    there = pd.Timestamp(at).tz_convert(tz)
    same_day = now is not None and there.date() == pd.Timestamp(now).tz_convert(tz).date()
    return there.strftime("%H:%M:%S %Z" if same_day else "%Y-%m-%d %H:%M:%S %Z")


def local(frame: pd.DataFrame, tz: ZoneInfo, *columns: str) -> pd.DataFrame:
    """The frame with UTC columns as wall-clock times of ``tz`` without a zone: charts draw them as they
    are.
    """
    turned = {c: pd.to_datetime(frame[c], utc=True).dt.tz_convert(tz).dt.tz_localize(None) for c in columns}
    return frame.assign(**turned)


def plain(value: Any) -> str:
    """Text of a device with every Markdown sign escaped: no link, image or HTML can come of it."""
    return NONE if missing(value) else _MARKDOWN.sub(r"\\\1", str(value).replace("\n", " "))
