"""Routing: traffic at any stored moment, where trips go, how good predicted arrivals are."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

import pandas as pd
import streamlit as st

from dashboard.query_cache import SLOW_S, ask, ask_large, ask_slowly
from dashboard.screens.routing import charts, queries
from dashboard.shared import live, maps, pictures, text

MAP_PX: Final = 520
TRAFFIC_WIDE: Final = 1200
FLOWS_WIDE: Final = 700
STEP: Final = timedelta(minutes=5)
VIEW: Final = "routing_view"
SOURCES: Final = {
    "live": "seen",
    "profile": "as usual at this hour of the week",
    "none": "too few vehicles to tell",
}


def _congestion() -> None:
    """Traffic at a moment of a stored day: the map under a time slider, and the day by hour."""
    span = live.row(ask_slowly(queries.road_span))
    if span is None:
        return
    if span["last_at"] is None:
        live.nothing("No traffic is stored yet: it is summed every five minutes once vehicles drive.")
        return
    day, at, by = _choose(span)
    _hours(day, at)
    _draw_traffic(at, by)


def _choose(span: dict[str, Any]) -> tuple[date, datetime, str]:
    """Day, moment and what is coloured, kept in the address."""
    first, last = (span[name].astimezone(live.tz()) for name in ("first_at", "last_at"))
    days: dict[str, Any] = {"value": last.date(), "min_value": first.date(), "max_value": last.date()}
    with live.toolbar():
        picked = st.date_input("Day", **days, key="day", bind="query-params", width=160)
        by = live.choice("By", ("cell", "edge"), "by")
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
    return day, datetime.combine(day, moment, live.tz()).astimezone(UTC), by


def _hours(day: date, at: datetime) -> None:
    """The day by hour; the hour of the moment stands out."""
    found = ask_slowly(queries.road_hours, day)
    if found is None or found.empty:
        return
    if found["travel_time_index"].isna().all():
        st.caption("No delay yet: free-flow speeds are still being learned where vehicles drove on this day.")
        return
    shown = text.local(found, live.tz(), "hour")
    shown["hour"] = shown["hour"].dt.strftime("%H:00")
    st.altair_chart(charts.delay(shown, f"{at.astimezone(live.tz()):%H}:00"), key="delay")


def _draw_traffic(at: datetime, by: str) -> None:
    """The map of the moment; its place and zoom stay while the slider moves."""
    found = ask_large(queries.edges_at if by == "edge" else queries.cells_at, at)
    if found is None:
        return
    layer = maps.edges(maps.edge_rows(found)) if by == "edge" else maps.congestion(found)
    live.draw_map([layer], _view(found), MAP_PX, "routing_map", "Map of the traffic")
    st.html(pictures.congestion())
    clock = text.clock(at, live.tz())
    counts = found["source"].value_counts()
    words = ", ".join(f"{counts[name]:,} {word}" for name, word in SOURCES.items() if counts.get(name))
    st.caption(f"No traffic is known at {clock}." if found.empty else f"Up to {clock}: {words}.")


def _view(found: pd.DataFrame) -> maps.View:
    """Where the map looks first: the roads, else the cells that are shown; kept for the session."""
    kept: maps.View | None = st.session_state.get(VIEW)
    if kept is not None:
        return kept
    network, size_px = live.network(), live.map_size(TRAFFIC_WIDE, MAP_PX)
    if network.get("version"):
        kept = maps.view_of_roads(network, size_px)
    elif "cell" in found and len(found):
        kept = maps.view_of_cells(found["cell"].unique(), size_px)
    else:
        return maps.WORLD
    st.session_state[VIEW] = kept
    return kept


def _flows() -> None:
    """Where trips of a day go: a matrix and arcs between hexagons; small counts are not shown."""
    newest = ask_slowly(queries.last_trip_day, str(live.tz()))
    if newest is None:
        return
    if newest.empty:
        live.nothing("No trip is over yet.")
        return
    last = newest["day"].iloc[0]
    picked = st.date_input("Day", value=last, key="trip_day", bind="query-params", width=160)
    found = ask_slowly(queries.flows, picked if isinstance(picked, date) else last)
    if found is None:
        return
    named = charts.names(found)
    if not named:
        live.nothing("No flow of this day may be shown: there are no trips, or too few vehicles on each.")
        return
    shown = found[~found["suppressed"].astype(bool)]
    others = pd.concat([shown["origin_h3_r7"], shown["destination_h3_r7"]]).nunique() - len(named)
    more = f" {others} less busy hexagons have no name and are left out." if others > 0 else ""
    st.caption(
        f"Hexagons of 5.2 km², Z1 the busiest; trips in whole steps of the smallest count. "
        f"{len(shown)} flows are shown, {len(found) - len(shown)} of too few vehicles are suppressed.{more}"
    )
    left, right = st.columns([1, 1.2], gap="medium")
    with left:
        st.altair_chart(charts.matrix(found, named), key="matrix")
    with right:
        view = maps.view_of_cells(named, live.map_size(FLOWS_WIDE, MAP_PX))
        layers = charts.flow_layers(found, named)
        live.draw_map(layers, view, MAP_PX, "flow_map", "Map of the flows between hexagons")
        st.caption(
            "An arc is blue where its trips begin and orange where they end, and as wide as they are many."
        )


def _arrivals() -> None:
    """Predicted arrivals: how far they were off, by how long before, and those that are still open."""
    quality, open_ones = ask(queries.eta_quality), ask(queries.etas)
    if quality is None or open_ones is None:
        return
    if quality.empty:
        live.nothing("No prediction can be graded yet: ask for one with `odograph eta` and let it arrive.")
    else:
        left, right = st.columns(2, gap="medium")
        with left:
            st.markdown("**Mean absolute error, % of the time that it took**")
            st.altair_chart(charts.horizons(quality, "mape_pct", "MAPE, %"), key="mape")
        with right:
            st.markdown("**Bias: above 0 predicted too late, below 0 too early**")
            st.altair_chart(charts.horizons(quality, "bias_pct", "bias, %", signed=True), key="bias")
        graded = int(quality["predictions"].sum())
        st.caption(f"{graded:,} predictions of vehicles that arrived, made 30 s and more before.")
    st.subheader("Under way", anchor=False)
    if open_ones.empty:
        st.caption("Nobody is under way to a destination that was asked for.")
    else:
        live.table(live.made(charts.PREDICTIONS, open_ones), "etas", "Open predictions")


SHOWN: Final = {
    "Congestion": _congestion,
    "Origins and destinations": _flows,
    "Arrival times": _arrivals,
}

live.header("Routing")
live.part(SHOWN[live.choice("Show", SHOWN, "show", label_visibility="collapsed")], SLOW_S)
