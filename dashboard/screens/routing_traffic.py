"""Traffic at a moment of a stored day: the map under a time slider, and the day by hour."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import (
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
    layer = routing_maps.edges(found) if by == "edge" else maps.congestion(found)
    st.pydeck_chart(
        maps.deck([*live.roads(network), layer], view(network), mode),
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


def view(network: dict[str, Any]) -> maps.View:
    """Where the map looks first: the roads; kept for the session."""
    kept: maps.View | None = st.session_state.get(VIEW)
    if kept is None:
        if not network.get("version"):
            return maps.View(30.0, 10.0, 1.5)
        south, north, west, east = (network[name] for name in ("south", "north", "west", "east"))
        kept = maps.view_of([south, north], [west, east], *live.map_size(MAP_WIDE, MAP_PX))
        st.session_state[VIEW] = kept
    return kept
