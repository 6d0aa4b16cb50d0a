"""One trip: its way coloured by speed over free flow, its speed under the same cursor, its events."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import fleet_queries, legends, live, maps, past, text, trip_path, trip_queries, trip_tables
from dashboard.player import components


def page(trip_id: str) -> None:
    """All of one trip; under way, it grows."""
    found = live.row(live.ask(trip_queries.trip, trip_id))
    if found is None:
        if live.AWAY not in st.session_state:
            live.nothing(
                "No trip has this number: a restated trip that begins at another time has another one."
            )
            back()
        return
    title(found)
    figures(found)
    start, end = found["started_at"], found["ended_at"]
    way(found, start, end)


def back() -> None:
    """The way to the list."""
    if st.button("All trips", icon=":material/arrow_back:", type="tertiary"):
        live.open_page("trips")


def title(found: dict[str, Any]) -> None:
    """Whose trip it is and when it was, with the ways to elsewhere."""
    zone = live.tz()
    words = [found["vehicle_id"], found["model"], found["powertrain"]]
    phase = {"open": "under way, up to", "provisional": "silent since"}.get(found["phase"], "to")
    often = {0: "", 1: "once"}.get(found["revision"], f"{found['revision']} times")
    restated = f" · restated {often} by the batch layer" if often else ""
    began, ended = (text.clock(found[name], zone) for name in ("started_at", "ended_at"))
    start = found["started_at"].astimezone(zone)
    address = {"day": f"{start:%Y-%m-%d}", "at": f"{start:%H:%M:%S}", "follow": found["vehicle_id"]}
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        back()
        with st.container(gap=None, width="stretch", key="words"):
            st.text(" · ".join(str(word) for word in words if word))
            st.caption(f"{began} {phase} {ended}{restated}")
        if st.button("Open the vehicle", icon=":material/directions_car:"):
            live.open_vehicle(found["vehicle_id"])
        if st.button("Replay it", icon=":material/replay:"):
            live.open_page("replay", **address)


def figures(found: dict[str, Any]) -> None:
    """The trip in numbers."""
    harsh = found["harsh_brake"] + found["harsh_accelerate"] + found["harsh_corner"]
    co2_g = found["co2_g"]
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
        "Unseen": text.number(found["unseen_m"] / 1000 if found["unseen_m"] else None, "km", 1),
    }
    with st.container(key="figures_trip"):
        for label, value in tiles.items():
            if value != text.NONE:
                st.metric(label, value, border=True)


def way(found: dict[str, Any], start: datetime, end: datetime) -> None:
    """Map and chart with their common cursor, and the list of what happened."""
    vehicle_id = found["vehicle_id"]
    points = past.ask(trip_queries.trip_points, vehicle_id, start, end)
    harsh = live.ask(trip_queries.harsh_events, vehicle_id, start, end)
    idle = live.ask(trip_queries.idle_episodes, vehicle_id, start, end)
    alerts = live.ask(trip_queries.trip_alerts, vehicle_id, start, end)
    stops = live.ask(trip_queries.stops_around, vehicle_id, start, end)
    if points is None or harsh is None or idle is None or alerts is None or stops is None:
        return
    pieces = trip_path.pieces(points)
    if pieces:
        marks = trip_path.marks(trip_path.halts(points), idle, harsh, alerts)
        draw(found["trip_id"], pieces, marks)
    else:
        live.nothing("No position of this trip is stored: its windows have gone, or had no place.")
    st.subheader("On the way", anchor=False)
    table = trip_tables.events(harsh, idle, stops, alerts, live.tz())
    if table.empty:
        st.caption("No harsh event, no idling, no alert, and no stop beside it.")
    else:
        st.dataframe(table, hide_index=True, placeholder=text.NONE, key="events", alt="Events of the trip")


def draw(trip_id: str, pieces: list[trip_path.Piece], marks: list[maps.Record]) -> None:
    """The picture; the cursor moves within the browser."""
    ratios = past.ask(
        trip_queries.speed_ratio,
        [p.cell for p in pieces],
        [p.sector for p in pieces],
        [p.speed_kmh for p in pieces],
    )
    network = live.row(live.ask_slowly(fleet_queries.road_networks)) or {}
    data = {
        "id": trip_id,
        "tone": components.tone(live.mode()),
        "bands": components.bands(),
        "zone": str(live.tz()),
        "roads": live.road_address(network),
        "path": trip_path.path(pieces, pd.DataFrame() if ratios is None else ratios),
        "marks": marks,
    }
    components.trip()(key="trip", data=data)
    st.html(legends.trip())
