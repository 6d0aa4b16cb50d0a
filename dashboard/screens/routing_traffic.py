"""Traffic at a moment of a stored day: the map under a time slider, and the day by hour."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import (
    fleet_layers,
    fleet_queries,
    legends,
    live,
    maps,
    past,
    routing_charts,
    routing_maps,
    routing_queries,
    text,
)

MAP_PX = 520
MAP_WIDE = 1200
STEP = timedelta(minutes=5)
VIEW = "routing_view"


def page() -> None:
    """All of it."""
    span = live.row(live.ask_slowly(routing_queries.road_span))
    if span is None:
        return
    if span["last_at"] is None:
        live.nothing("No traffic is stored yet: it is summed every five minutes once vehicles drive.")
        return
    day, at, by = choose(span)
    hours(day, at)
    draw(at, by)


def choose(span: dict[str, Any]) -> tuple[date, datetime, str]:
    """Day, moment and what is coloured, kept in the address."""
    first, last = (span[name].astimezone(live.tz()) for name in ("first_at", "last_at"))
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium", key="toolbar"):
        picked = st.date_input(
            "Day",
            value=last.date(),
            min_value=first.date(),
            max_value=last.date(),
            key="day",
            bind="query-params",
            width=160,
        )
        by = st.segmented_control(
            "By", ["cell", "edge"], default="cell", required=True, key="by", bind="query-params"
        )
    day = picked if isinstance(picked, date) else last.date()
    moment = st.slider(
        "Moment: the five minutes up to it",
        min_value=time(0, 0),
        max_value=time(23, 55),
        value=time(last.hour, last.minute // 5 * 5),
        step=STEP,
        key="at",
        bind="query-params",
    )
    return day, datetime.combine(day, moment, live.tz()).astimezone(UTC), str(by)


def hours(day: date, at: datetime) -> None:
    """The day by hour; the hour of the moment stands out."""
    found = live.ask_slowly(routing_queries.road_hours, day)
    if found is None or found.empty:
        return
    if found["travel_time_index"].isna().all():
        st.caption(
            "No delay can be told of this day: no free-flow speed is known yet of the places driven through."
        )
        return
    shown = text.local(found, live.tz(), "hour")
    shown["hour"] = shown["hour"].dt.strftime("%H:00")
    chart = routing_charts.delay(shown, f"{at.astimezone(live.tz()):%H}:00")
    st.altair_chart(chart, key="delay")


def draw(at: datetime, by: str) -> None:
    """The map of the moment; its place and zoom stay while the slider moves."""
    query = routing_queries.edges_at if by == "edge" else routing_queries.cells_at
    found = past.ask(query, at)
    if found is None:
        return
    mode = live.mode()
    network = live.row(live.ask_slowly(fleet_queries.road_networks)) or {}
    layer = fleet_layers.edges(fleet_layers.edge_rows(found)) if by == "edge" else maps.congestion(found)
    st.pydeck_chart(
        maps.deck([*live.roads(network), layer], view(network, found), mode),
        height=live.map_size(MAP_WIDE, MAP_PX)[1],
        key="routing_map",
        alt="Map of the traffic",
    )
    st.html(legends.congestion())
    st.caption(told(found, at))


def told(found: pd.DataFrame, at: datetime) -> str:
    """How much of the map was seen, and how much is what is usual."""
    clock = text.clock(at, live.tz())
    if found.empty:
        return f"No traffic is known at {clock}."
    counts = found["source"].value_counts()
    parts = {
        "live": "seen",
        "profile": "as usual at this hour of the week",
        "none": "too few vehicles to tell",
    }
    words = ", ".join(f"{counts[name]:,} {word}" for name, word in parts.items() if counts.get(name))
    return f"Up to {clock}: {words}."


def view(network: dict[str, Any], found: pd.DataFrame) -> maps.View:
    """Where the map looks first: the roads, else the cells that are shown; kept for the session."""
    kept: maps.View | None = st.session_state.get(VIEW)
    if kept is None:
        if network.get("version"):
            lats, lons = ([network[name] for name in pair] for pair in (("south", "north"), ("west", "east")))
        elif "cell" in found and len(found):
            places = [routing_maps.corner(cell) for cell in found["cell"].unique()]
            lats, lons = ([value for place in places for value in place[n]] for n in (0, 1))
        else:
            return maps.View(30.0, 10.0, 1.5)
        kept = st.session_state[VIEW] = maps.view_of(lats, lons, *live.map_size(MAP_WIDE, MAP_PX))
    return kept
