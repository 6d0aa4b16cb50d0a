"""Trips: the list with its filters, and one trip with path and speed under one cursor, and its events."""

from __future__ import annotations

from datetime import date
from typing import Any, Final

import pandas as pd
import streamlit as st

from dashboard import player
from dashboard.query_cache import SLOW_S, ask, ask_large, ask_slowly, away
from dashboard.screens.trips import path, queries
from dashboard.shared import live, maps, pictures, text
from dashboard.shared import queries as shared_queries

SPANS_H: Final = {"24 h": 24, "7 days": 168, "30 days": 720, "1 year": 8784}
TABLE_PX: Final = 640
TABLE_ROWS: Final = 17
FORMATS: Final = {"%.1f": ("km", "l/100 km", "kWh/100 km"), "%.0f": ("Mean km/h", "Top km/h")}


def _vehicles(words: str) -> tuple[str, ...] | None:
    """The vehicles that the words of the address mean; None: all."""
    if not words:
        return None
    found = ask_slowly(shared_queries.find_vehicles, words)
    ids = () if found is None else tuple(str(v) for v in found["vehicle_id"])
    return (words,) if words in ids or not ids else ids


def _filters() -> tuple[tuple[str, ...] | None, int, date | None, str, bool]:
    """What ``queries.trips`` takes, kept in the address."""
    with live.toolbar():
        hint = "All; part of an id or model"
        words = st.text_input("Vehicle", key="vehicle", bind="query-params", placeholder=hint, width=230)
        span = live.choice("Begun within", SPANS_H, "span")
        day = st.date_input("or on the day", value=None, key="day", bind="query-params", width=160)
        harsh = st.toggle(
            "Harsh events only", key="harsh", bind="query-params", help="Braking, acceleration, cornering"
        )
    chosen = day if isinstance(day, date) else None
    return _vehicles(words.strip()), SPANS_H[span], chosen, str(live.tz()), bool(harsh)


def _several() -> None:
    """The trips of the filters, in figures and as a list; a click on a row opens the trip."""
    wanted = _filters()
    found = ask(queries.trips, *wanted)
    if found is None:
        return
    if found.empty:
        live.nothing("No trip matches: choose a longer span or another day.")
        return
    sums = live.row(ask_slowly(queries.trip_sums, *wanted))
    if sums is not None and sums["trips"]:
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
        live.figures("figures_trips", tiles, always=())
    more = f"The newest {len(found)} are listed. " if len(found) == queries.TRIP_LIMIT else ""
    st.caption(f"{more}Click a row to open the trip.")
    table = path.trips(found, live.tz(), live.now())
    height = live.height(len(table), TABLE_ROWS, TABLE_PX)
    cell = live.table(table, "trips", "Trips", FORMATS, height=height, on_select="rerun")
    if cell is not None:
        live.open_page("trips", trip=found["trip_id"].iloc[cell[0]])


def _one() -> None:
    """The trip of the address; under way, it grows."""
    found = live.row(ask(queries.trip, st.query_params["trip"]))
    if found is None:
        if not away():
            live.nothing(
                "No trip has this number: a restated trip that begins at another time has another one."
            )
            _back()
        return
    _title(found)
    _figures(found)
    _events(found)


def _back() -> None:
    if st.button("All trips", icon=":material/arrow_back:", type="tertiary"):
        live.open_page("trips")


def _title(found: dict[str, Any]) -> None:
    """Whose trip it is and when it was, with links to elsewhere."""
    zone = live.tz()
    words = [found["vehicle_id"], found["model"], found["powertrain"]]
    phase = {"open": "under way, up to", "provisional": "silent since"}.get(found["phase"], "to")
    often = {0: "", 1: "once"}.get(found["revision"], f"{found['revision']} times")
    restated = f" · restated {often} by the batch layer" if often else ""
    began, ended = (text.clock(found[name], zone) for name in ("started_at", "ended_at"))
    start = found["started_at"].astimezone(zone)
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        _back()
        with st.container(gap=None, width="stretch", key="words"):
            st.text(" · ".join(str(word) for word in words if word))
            st.caption(f"{began} {phase} {ended}{restated}")
        if st.button("Open the vehicle", icon=":material/directions_car:"):
            live.open_vehicle(found["vehicle_id"])
        if st.button("Replay it", icon=":material/replay:"):
            live.open_page(
                "replay", day=f"{start:%Y-%m-%d}", at=f"{start:%H:%M:%S}", follow=found["vehicle_id"]
            )


def _figures(found: dict[str, Any]) -> None:
    """The trip in numbers."""
    harsh = found["harsh_brake"] + found["harsh_accelerate"] + found["harsh_corner"]
    co2_g, unseen_m = found["co2_g"], found["unseen_m"]
    tiles = {
        "Distance": text.number(found["distance_m"] / 1000, "km", 1),
        "Took": text.duration(found["duration_s"]),
        "Mean speed": text.number(found["speed_mean_kmh"], "km/h"),
        "Top speed": text.number(found["speed_max_kmh"], "km/h"),
        "Idle": text.duration(found["idle_s"]),
        "Over the limit": text.duration(found["speeding_s"]),
        "Harsh events": text.number(harsh),
        "Litres/100 km": text.number(found["fuel_l_per_100km"], digits=1),
        "kWh/100 km": text.number(found["energy_kwh_per_100km"], digits=1),
        "CO₂": text.number(co2_g / 1000 if co2_g else None, "kg", 1),
        "Unseen": text.number(unseen_m / 1000 if unseen_m else None, "km", 1),
    }
    live.figures("figures_trip", tiles, always=())


def _events(found: dict[str, Any]) -> None:
    """Map and chart with their common cursor, and the list of what happened."""
    during = (found["vehicle_id"], found["started_at"], found["ended_at"])
    points = ask_large(queries.trip_points, *during)
    harsh = ask(queries.harsh_events, *during)
    idle = ask(queries.idle_episodes, *during)
    alerts = ask(queries.trip_alerts, *during)
    stops = ask(queries.stops_around, *during)
    if points is None or harsh is None or idle is None or alerts is None or stops is None:
        return
    pieces = path.pieces(points)
    if pieces:
        _draw(found["trip_id"], pieces, path.marks(path.halts(points), idle, harsh, alerts))
    else:
        live.nothing("No position of this trip is stored: its windows have gone, or had no place.")
    st.subheader("On the way", anchor=False)
    table = path.events(harsh, idle, stops, alerts, live.tz())
    if table.empty:
        st.caption("No harsh event, no idling, no alert, and no stop beside it.")
    else:
        live.table(table, "events", "Events of the trip")


def _draw(trip_id: str, pieces: list[path.Piece], marks: list[maps.Record]) -> None:
    """The picture; the cursor moves within the browser."""
    cells, sectors, speeds = (
        [p.cell for p in pieces],
        [p.sector for p in pieces],
        [p.speed_kmh for p in pieces],
    )
    ratios = ask_large(queries.speed_ratio, cells, sectors, speeds)
    data = {
        "id": trip_id,
        "tone": player.tone(live.mode()),
        "bands": player.bands(),
        "zone": str(live.tz()),
        "roads": live.road_address(live.network()),
        "path": path.path(pieces, pd.DataFrame() if ratios is None else ratios),
        "marks": marks,
    }
    player.trip()(key="trip", data=data)
    st.html(pictures.trip())


live.header("Trips")
live.part(_one if "trip" in st.query_params else _several, SLOW_S)
