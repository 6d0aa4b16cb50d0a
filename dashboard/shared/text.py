"""Values and cells as people read them: numbers, durations, times, severities, device text made harmless."""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import pandas as pd
from jinja2 import Environment, StrictUndefined, Template
from pandas.io.formats.style import Styler

from dashboard.shared.theme import SEVERITIES, SEVERITY_SIGNS
from infra.contract.messages import FLEET

Record = dict[str, Any]
Cell = Callable[..., Any]
Columns = Mapping[str, str | Cell | tuple[str, Cell] | tuple[str, Cell | None, str]]
"""A table as data: label -> the frame's column, what makes a cell of its value, and a number format (of
Streamlit); or what makes a cell of the whole row."""

NONE: Final = "—"
ONE, WHOLE, GROUPED = "%.1f", "%.0f", "localized"
"""Number formats: one digit, none, none with marks between thousands."""
DRIVE: Final = (
    "Start a fleet: `odograph simulate -c 100 --rate 100`; "
    "or recorded drives: `odograph replay --drives DIR`."
)
RAISE: Final = "A fault of a simulated vehicle makes one: `odograph simulate --fault overheating=1`."
"""What brings data, and what an incident: said where there is none."""
BY_SEVERITY: Final = ("Severity", SEVERITIES)
_MARKDOWN: Final = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~$:@])")


def rows_of(frame: pd.DataFrame) -> list[Record]:
    """The rows with None for what is missing: JSON knows no NaN."""
    names = [str(name) for name in frame.columns]
    whole = (frame[name].astype(object) for name in frame.columns)
    columns = [column.where(column.notna(), None).tolist() for column in whole]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def missing(value: Any) -> bool:
    """Whether a cell holds nothing: None, NaN or NaT."""
    return value is None or bool(pd.isna(value))


def number(value: Any, unit: str = "", digits: int = 0) -> str:
    """``1,234 km``; a dash where there is no value."""
    if missing(value):
        return NONE
    return f"{float(value):,.{digits}f}" + (f" {unit}" if unit else "")


def counted(count: int, what: str) -> str:
    """``1 record``, ``1,234 records``."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def duration(seconds: Any) -> str:
    """``45 s``, ``12 min``, ``3 h 05 min``, ``2 d 4 h``, ``10.0 years``; a dash where there is no value."""
    if missing(seconds):
        return NONE
    s = max(0, round(float(seconds)))
    if s < 120:
        return f"{s} s"
    if s < 7200:
        return f"{s // 60} min"
    if s < 172_800:
        return f"{s // 3600} h {s % 3600 // 60:02d} min"
    years = s / (365.25 * 86_400)
    return f"{s // 86_400} d {s % 86_400 // 3600} h" if years < 2 else f"{years:.1f} years"


def clock(at: Any, tz: ZoneInfo, now: datetime | None = None) -> str:
    """``14:03:22 CET``, with the day before it where that is not the day of ``now``."""
    if missing(at):
        return NONE
    there = pd.Timestamp(at).tz_convert(tz)
    same_day = now is not None and there.date() == now.astimezone(tz).date()
    return there.strftime("%H:%M:%S %Z" if same_day else "%Y-%m-%d %H:%M:%S %Z")


def minute(at: Any, tz: ZoneInfo, _: datetime | None = None) -> str:
    """``2026-11-20 08:30``."""
    return NONE if missing(at) else f"{pd.Timestamp(at).tz_convert(tz):%Y-%m-%d %H:%M}"


def moment(at: Any, tz: ZoneInfo, _: datetime | None = None) -> str:
    """``2026-11-20 08:30:00 CET``: a time whose day is always named."""
    return clock(at, tz)


def table(frame: pd.DataFrame, columns: Columns, tz: ZoneInfo, now: datetime | None = None) -> pd.DataFrame:
    """The columns as people read them; cells by ``clock``, ``minute`` and ``moment`` are times of ``tz``."""
    rows = rows_of(frame) if any(callable(column) for column in columns.values()) else []
    made: dict[str, Any] = {}
    for label, column in columns.items():
        if callable(column):
            made[label] = [column(row) for row in rows]
            continue
        name, cell = (column, None) if isinstance(column, str) else column[:2]
        if cell in (clock, minute, moment):
            made[label] = [cell(at, tz, now) for at in frame[name]]
        elif cell is float:
            made[label] = frame[name].astype(float)
        else:
            made[label] = frame[name] if cell is None else [cell(value) for value in frame[name]]
    return pd.DataFrame(made)


def known(value: Any) -> Any:
    """The value, or a dash where there is none."""
    return NONE if missing(value) else value


def divided(by: float) -> Callable[[Any], float]:
    """Cells in a larger unit: metres in km, bytes in MiB."""
    return lambda value: float("nan") if missing(value) else float(value) / by


def wall(at: Any, tz: ZoneInfo) -> pd.Timestamp:
    """A moment as wall-clock time of ``tz`` without a zone: charts draw it as it is."""
    return pd.Timestamp(at).tz_convert(tz).tz_localize(None)


def local(frame: pd.DataFrame, tz: ZoneInfo, column: str) -> pd.DataFrame:
    """The frame with a UTC column as wall-clock times of ``tz``."""
    there = pd.to_datetime(frame[column], utc=True).dt.tz_convert(tz)
    return frame.assign(**{column: there.dt.tz_localize(None)})


def plain(value: Any) -> str:
    """Text of a device with every Markdown sign escaped: no link, image or HTML can come of it."""
    return NONE if missing(value) else _MARKDOWN.sub(r"\\\1", str(value).replace("\n", " "))


def joined(*parts: Any) -> str:
    """The words that are known, between dots."""
    return " · ".join(str(part) for part in parts if part)


def severity(value: object) -> str:
    """A severity as sign and word, so that colour is not alone."""
    return NONE if missing(value) else f"{SEVERITY_SIGNS[str(value)]} {value}"


def tinted(frame: pd.DataFrame, column: str, colours: Mapping[str, str]) -> Styler:
    """The table with the cells of a column in the colours of their words, or of those behind a sign."""

    def tint(shown: object) -> str:
        colour = colours.get(str(shown)) or colours.get(str(shown).partition(" ")[2])
        return f"color: {colour}; font-weight: 600" if colour else ""

    return frame.style.map(tint, subset=[column])


def vehicle(now: Record, moment: pd.Timestamp) -> dict[str, str]:
    """The figures of a vehicle's newest state, a row of serving.fleet_latest, at this moment."""
    # a gauge pressure made comparable (20 °C) is a little below none in a tyre that is flat and warm
    tyre_kpa = None if now["tyre_min_kpa20"] is None else max(0.0, now["tyre_min_kpa20"])
    return {
        "State": now["state"],
        "Last seen": f"{duration((moment - now['event_time']).total_seconds())} ago",
        "Speed": number(now["speed_kmh"], "km/h"),
        "Limit": number(now["speed_limit_kmh"], "km/h"),
        "Odometer": number(divided(1000)(now["odometer_m"]), "km"),
        "Coolant": number(now["coolant_c"], "°C", 1),
        "12 V system": number(now["battery_v"], "V", 2),
        "Lowest tyre": number(tyre_kpa, "kPa"),
        "Fuel": number(now["fuel_level_pct"], "%"),
        "Charge": number(now["soc_pct"], "%", 1),
        "Active alerts": number(now["alerts"]),
    }


@cache
def template(file: Path) -> Template:
    """A file of HTML; what is put into it is escaped."""
    return Environment(autoescape=True, undefined=StrictUndefined).from_string(file.read_text())


def named(vehicle_id: str) -> str:
    """The vehicle of an alert, which may be about the fleet as such."""
    return "fleet" if vehicle_id == FLEET else vehicle_id


def whose(row: Mapping[Any, Any]) -> str:
    """The vehicle of an incident; of one of the fleet how many, if it is not of the fleet as such."""
    if not missing(row["vehicle_id"]):
        return str(row["vehicle_id"])
    return "fleet" if row["vehicles"] == 1 else f"fleet: {row['vehicles']:,} vehicles"


def message(row: Record) -> Any:
    """Of an alert; of a crash with the verdict on it, where there is one."""
    return f"{row['message']} ({row['verdict']})" if row.get("verdict") else row["message"]
