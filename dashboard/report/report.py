"""A day's report: one HTML file without a script, for screen and paper. Frames in, sections, HTML out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import pandas as pd

from dashboard.db import Database
from dashboard.report import queries
from dashboard.screens.routing.queries import road_hours
from dashboard.screens.vehicle import charts as vehicle_charts
from dashboard.shared import text
from dashboard.shared.text import NONE, ONE, WHOLE, Columns, Record, number
from dashboard.shared.theme import SEVERITIES
from infra.contract.errors import ConfigError, ServiceError
from infra.settings.values import day_ms

LISTED: Final = 20  # rows of a table, the worst; the dashboard and its files have all
HIGH_PX: Final = 100
TEMPLATE: Final = Path(__file__).with_name("report.html")


class EmptyDayError(ServiceError):
    """Nothing was stored of the day."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table as words, numbers on the ``right``; without a row its title is the sentence that says so."""

    title: str
    heads: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    right: Sequence[bool] = ()


Bars = Sequence[tuple[str, str, float | None]]
"""A value an hour: its label, the value in words, and its height, px; None: not known."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the report: figures and bars by their titles, tables."""

    title: str
    figures: Mapping[str, str] = field(default_factory=dict)
    bars: Mapping[str, Bars] = field(default_factory=dict)
    tables: Sequence[Table] = ()


INCIDENTS: Final[Columns] = {
    "Severity": ("severity", text.severity),
    "No": ("incident_no", str),
    "Vehicle": text.whose,
    "Cause": "cause",
    "Message": "message",
    "Opened": ("opened_at", text.minute),
    "Closed": ("closed_at", text.minute),
    "Alerts": "alerts",
    "Acknowledged by": ("acknowledged_by", text.known),
    "Assigned to": ("assigned_to", text.known),
}
DRIVING: Final[Columns] = {
    "Vehicle": "vehicle_id",
    "Model": ("model", text.known),
    "Trips": "trips",
    "km": ("distance_km", float, ONE),
    "Driven": ("moving_s", text.duration),
    "Idled": ("idle_s", text.duration),
    "Over the limit": ("speeding_s", text.duration),
    "Braking": "brake",
    "Accelerating": "accelerate",
    "Cornering": "corner",
    "Score": ("score", float, WHOLE),
}
TRENDS: Final[Columns] = {"Vehicle": "vehicle_id", **vehicle_charts.TRENDS, "As of": ("as_of", text.minute)}
CODES: Final[Columns] = {"Vehicle": "vehicle_id", **vehicle_charts.CODES}
ROADS: Final[Columns] = {
    "Road": "road",
    "Class": ("road_class", text.known),
    "Lost by all": ("delay_s", text.duration),
    "Time over free flow": ("travel_time_index", float, "%.2f"),
    "km/h": ("speed_kmh", float, WHOLE),
    "Free flow, km/h": ("free_flow_kmh", float, WHOLE),
    "Free flow by": "free_flow_basis",
    "km driven": ("distance_km", float, ONE),
}
REJECTED: Final[Columns] = {
    "What": "kind",
    "Reason": ("reason", text.known),
    "Frames": "frames",
    "Not repaired": ("open", float, WHOLE),
}


def made(database: Database, asked: str, vehicle: str | None, tz: str) -> str:
    """The report of a day (``2026-11-20`` in zone ``tz``), of one vehicle or the fleet, as HTML.

    Raises ConfigError for what is no day or has not begun, EmptyDayError where nothing is stored of it,
    ServiceError.
    """
    zone = ZoneInfo(tz)
    now = datetime.now(zone)
    since, until = (datetime.fromtimestamp(ms / 1000, zone) for ms in day_ms(asked, "the day", tz))
    if since > now:
        raise ConfigError(f"the day {asked} has not begun in {tz}: there is nothing to report yet")
    ask, day, of_day = database.run, since.date(), (since, until, vehicle)
    hours, driven = ask(queries.hours, *of_day), ask(queries.driving, *of_day)
    found = ask(queries.incidents, *of_day)
    if driven.empty and found.empty:
        raise EmptyDayError(
            f"nothing is stored of {vehicle or 'any vehicle'} on {day} ({tz}). Data is summed up within a "
            "minute of its arrival; which days are stored: the page Replay, or odograph trips --from"
        )
    sections = [
        fleet(hours, driven, of_hours(since, until)),
        incidents(found, zone),
        driving(driven, zone),
        health(ask(queries.trends, vehicle), ask(queries.codes, *of_day), zone),
    ]
    if vehicle is None:
        sections.append(routing(ask(road_hours, day), ask(queries.roads, day), of_hours(since, until), zone))
    counted = text.rows_of(ask(queries.ledger, *of_day))[0]
    sections.append(quality(counted, ask(queries.rejected, *of_day), zone))
    whole = "" if now >= until else f", up to {now:%H:%M}"
    title = f"{vehicle or 'Fleet'}, {day:%A} {day}{whole}"
    return rendered(title, f"Times in {tz}. Made {now:%Y-%m-%d %H:%M} by Odograph.", sections)


def of_hours(since: datetime, until: datetime) -> pd.DatetimeIndex:
    """The begins of the hours of a local day: 23 to 25."""
    return pd.date_range(since, until, freq="h", inclusive="left")


def fleet(hours: pd.DataFrame, driven: pd.DataFrame, of: pd.DatetimeIndex) -> Section:
    """Who reported, how long and how far."""
    measured = ["distance_km", "moving_s", "idle_s", "fuel_l", "energy_kwh"]
    sums = driven[measured].astype(float).sum(min_count=1)
    figures = {
        "Vehicles": number(len(driven)),
        "Distance": number(sums["distance_km"], "km", 1),
        "Driven": text.duration(sums["moving_s"]),
        "Idled": text.duration(sums["idle_s"]),
        "Fuel": number(sums["fuel_l"], "l", 1),
        "Traction energy": number(sums["energy_kwh"], "kWh", 1),
        "Frames": number(driven["frames"].sum()),
    }
    by_hour = {
        "Driven by hour, km": bars(hours, "bucket", "distance_km", of, 1),
        "Vehicles that reported, by hour": bars(hours, "bucket", "vehicles", of),
    }
    return Section("Fleet", figures, bars=by_hour)


def incidents(found: pd.DataFrame, zone: ZoneInfo) -> Section:
    """What was open on the day, the worst first."""
    listed = [table("The worst", found, INCIDENTS, zone, "No incident was open on this day.")]
    if found.empty:
        return Section("Incidents", tables=listed)
    counts = found["severity"].value_counts()
    by_severity = {text.severity(name): number(counts[name]) for name in SEVERITIES if name in counts}
    unseen = {"Not acknowledged": number(found["acknowledged_by"].isna().sum())}
    return Section("Incidents", {"Incidents": number(len(found)), **by_severity, **unseen}, tables=listed)


def driving(driven: pd.DataFrame, zone: ZoneInfo) -> Section:
    """Trips, idling and harsh events, by vehicle."""
    figures = {
        "Trips": number(driven["trips"].sum()),
        "Harsh braking": number(driven["brake"].sum()),
        "Harsh acceleration": number(driven["accelerate"].sum()),
        "Harsh cornering": number(driven["corner"].sum()),
        "Over the limit": text.duration(driven["speeding_s"].astype(float).sum(min_count=1)),
    }
    title, none = "By vehicle, most harsh events first", "No vehicle has driven."
    return Section("Driving", figures, tables=[table(title, driven, DRIVING, zone, none)])


def health(trends: pd.DataFrame, codes: pd.DataFrame, zone: ZoneInfo) -> Section:
    """What is wearing out, as known when the report was made, and the day's trouble codes."""
    none = "No signal heads for its threshold."
    heading = table("Heading for a threshold, as known now", trends, TRENDS, zone, none)
    none = "No trouble code was open on this day."
    return Section("Health", tables=[heading, table("Trouble codes", codes, CODES, zone, none)])


def routing(hours: pd.DataFrame, roads: pd.DataFrame, of: pd.DatetimeIndex, zone: ZoneInfo) -> Section:
    """Delay by hour and by road, against free flow."""
    title = "Time over that at free flow, by hour"
    drawn = {title: bars(hours, "hour", "travel_time_index", of, 2)} if len(hours) else {}
    none = "No delay is known: free-flow speeds are still being learned, or all was free."
    listed = table("Where most time was lost", roads, ROADS, zone, none)
    return Section("Routing", bars=drawn, tables=[listed])


def quality(ledger: Record, rejected: pd.DataFrame, zone: ZoneInfo) -> Section:
    """The ledger of the day, and what came late or was refused."""
    names = ("generated", "counted", "late", "quarantined", "duplicate", "dead", "missing", "residual")
    figures = {name.capitalize(): number(ledger[name]) for name in names} if ledger["hours"] else {}
    unknown = Table("The ledger has no hour of this day: nothing to note, or not audited yet.")
    none = "Nothing that was received on this day was late or refused."
    listed = table("Received on this day", rejected, REJECTED, zone, none)
    return Section("Data quality", figures, tables=[listed] if figures else [unknown, listed])


def bars(found: pd.DataFrame, at: str, column: str, of: pd.DatetimeIndex, digits: int = 0) -> Bars:
    """A bar for each hour of the day; an hour without a row has none."""
    hour = of.searchsorted(pd.to_datetime(found[at], utc=True), side="right") - 1  # that it begins in
    values = found[column].astype(float).set_axis(hour).reindex(range(len(of)))
    top = values.max()
    high = [None if pd.isna(value) else round(HIGH_PX * value / top, 1) if top else 0.0 for value in values]
    words = [number(value, digits=digits) for value in values]
    return list(zip([f"{hour:%H}" for hour in of], words, high, strict=True))


def table(title: str, found: pd.DataFrame, columns: Columns, zone: ZoneInfo, none: str) -> Table:
    """The first rows in these columns, as words; the title says where there are more; ``none``: no row."""
    if found.empty:
        return Table(none)
    shown = text.table(found.head(LISTED), columns, zone)
    more = f" ({LISTED} of {len(found):,})" if len(found) > LISTED else ""
    looks = [of[2] if isinstance(of, tuple) and len(of) == 3 else "" for of in columns.values()]
    rows = [[_words(v, look) for v, look in zip(row, looks, strict=True)] for row in shown.values]
    right = [bool(pd.api.types.is_numeric_dtype(shown[name])) for name in shown]
    return Table(title + more, list(columns), rows, right)


def _words(value: Any, look: str) -> str:
    if text.missing(value):
        return NONE
    return look % value if look else value if isinstance(value, str) else number(value)


def rendered(title: str, about: str, sections: Sequence[Section]) -> str:
    """The file; all words are escaped."""
    return text.template(TEMPLATE).render(title=title, about=about, sections=sections, high_px=HIGH_PX)
