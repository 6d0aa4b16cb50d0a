"""Values and cells as people read them: numbers, durations, times, severities, device text made harmless."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

import pandas as pd
from pandas.io.formats.style import Styler

from dashboard.shared.theme import SEVERITIES, SEVERITY_SIGNS

Columns = Mapping[str, str | tuple[str, Callable[..., Any]]]
"""Label of a table's column -> the frame's column, perhaps with what makes its cells."""

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
    same_day = now is not None and there.date() == now.astimezone(tz).date()
    return there.strftime("%H:%M:%S %Z" if same_day else "%Y-%m-%d %H:%M:%S %Z")


def clocks(moments: Iterable[Any], tz: ZoneInfo, now: datetime | None = None) -> list[str]:
    """``clock`` of each."""
    return [clock(at, tz, now) for at in moments]


def table(frame: pd.DataFrame, columns: Columns, tz: ZoneInfo, now: datetime | None = None) -> pd.DataFrame:
    """The columns as people read them; cells by ``clock`` are times of ``tz``, those by ``float`` numbers."""
    made: dict[str, Any] = {}
    for label, column in columns.items():
        name, cell = column if isinstance(column, tuple) else (column, None)
        values = frame[name]
        if cell is clock:
            made[label] = clocks(values, tz, now)
        elif cell is float:
            made[label] = values.astype(float)
        else:
            made[label] = values if cell is None else [cell(value) for value in values]
    return pd.DataFrame(made)


def known(value: Any) -> Any:
    """The value, or a dash where there is none."""
    return NONE if missing(value) else value


def mib(size: Any) -> float:
    """Bytes in MiB."""
    return float("nan") if missing(size) else float(size) / 2**20


def local(frame: pd.DataFrame, tz: ZoneInfo, *columns: str) -> pd.DataFrame:
    """UTC columns as wall-clock times of ``tz`` without a zone: charts draw them as they are."""
    turned = {c: pd.to_datetime(frame[c], utc=True).dt.tz_convert(tz).dt.tz_localize(None) for c in columns}
    return frame.assign(**turned)


def plain(value: Any) -> str:
    """Text of a device with every Markdown sign escaped: no link, image or HTML can come of it."""
    return NONE if missing(value) else _MARKDOWN.sub(r"\\\1", str(value).replace("\n", " "))


def severity(value: object) -> str:
    """A severity as sign and word, so that colour is not alone."""
    return NONE if missing(value) else f"{SEVERITY_SIGNS[str(value)]} {value}"


def tinted(frame: pd.DataFrame, column: str = "Severity", colours: Mapping[str, str] = SEVERITIES) -> Styler:
    """The table with the cells of a column, sign and word, in the colours of their words."""

    def tint(shown: object) -> str:
        colour = colours.get(str(shown).partition(" ")[2])
        return f"color: {colour}; font-weight: 600" if colour else ""

    return frame.style.map(tint, subset=[column])


def worst_first(fleet: pd.DataFrame) -> pd.DataFrame:
    """The vehicles with active alerts, the worst first."""
    order = list(SEVERITIES)
    return fleet[fleet["alerts"] > 0].sort_values(
        ["severity", "alerts"],
        key=lambda column: column.map(order.index) if column.name == "severity" else -column,
        kind="stable",
    )


def messages(frame: pd.DataFrame) -> list[str]:
    """Messages of alerts; of a crash with the verdict on it, where there is one."""
    verdicts = frame["verdict"] if "verdict" in frame else [None] * len(frame)
    return [
        f"{m} ({v})" if isinstance(v, str) else m for m, v in zip(frame["message"], verdicts, strict=True)
    ]
