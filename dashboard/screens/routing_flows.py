"""Where trips of a day go: a matrix and arcs between hexagons; small counts are not shown."""

from __future__ import annotations

from datetime import date

import pandas as pd
import streamlit as st

from dashboard import fleet_queries, live, maps, routing_charts, routing_maps, routing_queries

MAP_PX = 520
MAP_WIDE = 700


def page() -> None:
    """All of it."""
    newest = live.ask_slowly(routing_queries.last_trip_day, str(live.tz()))
    if newest is None:
        return
    if newest.empty:
        live.nothing("No trip is over yet.")
        return
    picked = st.date_input("Day", value=newest["day"].iloc[0], key="trip_day", bind="query-params", width=160)
    day = picked if isinstance(picked, date) else newest["day"].iloc[0]
    found = live.ask_slowly(routing_queries.flows, day)
    if found is None:
        return
    named = routing_maps.names(found)
    if not named:
        live.nothing("No flow of this day may be shown: there are no trips, or too few vehicles on each.")
        return
    st.caption(told(found, named))
    left, right = st.columns([1, 1.2], gap="medium")
    with left:
        st.altair_chart(routing_charts.matrix(found, named), key="matrix")
    with right:
        draw(found, named)


def told(found: pd.DataFrame, named: dict[str, str]) -> str:
    """What is shown and what is not."""
    hidden = int(found["suppressed"].sum())
    ends = pd.concat([found["origin_h3_r7"], found["destination_h3_r7"]])[
        ~pd.concat([found["suppressed"], found["suppressed"]]).astype(bool)
    ]
    others = ends.nunique() - len(named)
    more = f" {others} less busy hexagons have no name and are left out." if others > 0 else ""
    return (
        f"Hexagons of 5.2 km², Z1 the busiest; trips in whole steps of the smallest count. "
        f"{len(found) - hidden} flows are shown, {hidden} of too few vehicles are suppressed.{more}"
    )


def draw(found: pd.DataFrame, named: dict[str, str]) -> None:
    """The arcs: blue where trips begin, orange where they end."""
    mode = live.mode()
    network = live.row(live.ask_slowly(fleet_queries.road_networks)) or {}
    layers = routing_maps.flow_layers(found, named)
    places = [routing_maps.corner(cell) for cell in named]
    lats, lons = ([lat for pair in places for lat in pair[n]] for n in (0, 1))
    view = maps.view_of(lats, lons, *live.map_size(MAP_WIDE, MAP_PX))
    st.pydeck_chart(
        maps.deck([*live.roads(network), *layers], view, mode),
        height=live.map_size(MAP_WIDE, MAP_PX)[1],
        key="flow_map",
        alt="Map of the flows between hexagons",
    )
    st.caption(
        "An arc is blue where its trips begin and orange where they end, and as wide as they are many."
    )
