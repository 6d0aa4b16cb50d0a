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


def vehicle() -> str | None:
    """The vehicle whose trips are listed, kept in the address; None: all."""
    known = live.ask_slowly(fleet_queries.vehicle_ids)
    ids = [] if known is None else list(known["vehicle_id"])
    wanted = st.query_params.get("vehicle")
    if wanted and wanted not in ids:
        ids.insert(0, wanted)
    chosen: str | None = st.selectbox(
        "Vehicle", ids, index=ids.index(wanted) if wanted else None, placeholder="All vehicles", width=230
    )
    if chosen != wanted:
        if chosen:
            st.query_params["vehicle"] = chosen
        else:
            st.query_params.pop("vehicle", None)
    return chosen


def filters() -> tuple[str | None, int, date | None, str, bool]:
    """What ``trip_queries.trips`` takes, kept in the address."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium", key="toolbar"):
        whose = vehicle()
        span = st.segmented_control(
            "Begun within", list(SPANS_H), default="24 h", required=True, key="span", bind="query-params"
        )
        day = st.date_input("or on the day", value=None, key="day", bind="query-params", width=160)
        harsh = st.toggle(
            "Harsh events only", key="harsh", bind="query-params", help="Braking, acceleration, cornering"
        )
    chosen = day if isinstance(day, date) else None
    return whose, SPANS_H[span], chosen, str(live.tz()), bool(harsh)


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


live.header("Trips")
if "trip" in st.query_params:
    st.fragment(trip.page, run_every=live.every(live.SLOW_S))(st.query_params["trip"])
else:
    st.fragment(listing, run_every=live.every(live.SLOW_S))(filters())
