"""Trips: the list with its filters, and one trip with its way and its speed."""

from __future__ import annotations

from datetime import date
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import fleet_queries, live, text, trip_queries, trip_tables
from dashboard.screens import trip

SPANS_H = {"24 h": 24, "7 days": 168, "30 days": 720, "1 year": 8784}
TABLE_PX = 640
TABLE_ROWS = 17


def vehicles(words: str) -> tuple[str, ...] | None:
    """The vehicles that the words of the address mean; None: all."""
    if not words:
        return None
    found = live.ask_slowly(fleet_queries.find_vehicles, words)
    ids = () if found is None else tuple(str(v) for v in found["vehicle_id"])
    return (words,) if words in ids or not ids else ids


def filters() -> tuple[tuple[str, ...] | None, int, date | None, str, bool]:
    """What ``trip_queries.trips`` takes, kept in the address."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium", key="toolbar"):
        words = st.text_input(
            "Vehicle",
            key="vehicle",
            bind="query-params",
            placeholder="All; part of an id or model",
            width=230,
        )
        span = st.segmented_control(
            "Begun within", list(SPANS_H), default="24 h", required=True, key="span", bind="query-params"
        )
        day = st.date_input("or on the day", value=None, key="day", bind="query-params", width=160)
        harsh = st.toggle(
            "Harsh events only", key="harsh", bind="query-params", help="Braking, acceleration, cornering"
        )
    chosen = day if isinstance(day, date) else None
    return vehicles(words.strip()), SPANS_H[span], chosen, str(live.tz()), bool(harsh)


def figures(wanted: tuple[Any, ...]) -> None:
    """All trips of the filters in numbers."""
    sums = live.row(live.ask_slowly(trip_queries.trip_sums, *wanted))
    if sums is None or not sums["trips"]:
        return
    tiles = {
        "Trips": text.number(sums["trips"]),
        "Vehicles": text.number(sums["vehicles"]),
        "Distance": text.number(sums["distance_km"], "km"),
        "Time": text.duration(sums["duration_s"]),
        "Idle share": text.number(sums["idle_pct"], "%", 1),
        "Litres/100 km": text.number(sums["fuel_l_per_100km"], digits=1),
        "kWh/100 km": text.number(sums["energy_kwh_per_100km"], digits=1),
        "Harsh/100 km": text.number(sums["harsh_per_100km"], digits=1),
    }
    with st.container(key="figures_trips"):
        for label, value in tiles.items():
            if value != text.NONE:
                st.metric(label, value, border=True)


def listing(wanted: tuple[Any, ...]) -> None:
    """The trips; a click on a row opens the trip."""
    found = live.ask(trip_queries.trips, *wanted)
    if found is None:
        return
    if found.empty:
        live.nothing("No trip matches: choose a longer span or another day.")
        return
    figures(wanted)
    more = f"The newest {len(found)} are listed. " if len(found) == trip_queries.TRIP_LIMIT else ""
    st.caption(f"{more}Click a row to open the trip.")
    table = trip_tables.trips(found, live.tz(), pd.Timestamp.now(tz="UTC"))
    one = st.column_config.NumberColumn(format="%.1f")
    chosen = st.dataframe(
        table,
        hide_index=True,
        placeholder=text.NONE,
        height="content" if len(table) <= TABLE_ROWS else TABLE_PX,
        key="trips",
        on_select="rerun",
        selection_mode="single-cell",
        alt="Trips",
        column_config={
            "km": one,
            "l/100 km": one,
            "kWh/100 km": one,
            "Mean km/h": st.column_config.NumberColumn(format="%.0f"),
            "Top km/h": st.column_config.NumberColumn(format="%.0f"),
        },
    )
    for place, _ in chosen["selection"]["cells"]:
        live.open_page("trips", trip=found["trip_id"].iloc[place])


def one() -> None:
    """The trip of the address."""
    trip.page(st.query_params["trip"])


def several() -> None:
    """The trips of the filters."""
    listing(filters())


live.header("Trips")
live.part(one if "trip" in st.query_params else several, live.SLOW_S)
