"""Routing: traffic at any stored moment, where trips go, how good predicted arrivals are."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

import pandas as pd
import streamlit as st

from dashboard.query_cache import SLOW_S, ask, ask_large, ask_slowly
from dashboard.screens.routing import charts, queries
from dashboard.shared import live, maps, text

MAP_PX: Final = 520
STEP: Final = timedelta(minutes=5)
VIEW: Final = "routing_view"
SOURCES: Final = {"live": "seen", "profile": "as usual at this hour of the week", "none": "by few vehicles"}


def _congestion() -> None:
    span, zone = live.first(ask_slowly(queries.road_span)), live.tz()
    if span["last_at"] is None:
        live.nothing(f"No traffic is stored yet: it is summed every five minutes. {text.DRIVE}")
        return
    first, last = (span[name].astimezone(zone) for name in ("first_at", "last_at"))
    with live.toolbar():
        day = live.day("Day", last.date(), "day", min_value=first.date(), max_value=last.date())
        by = live.choice("By", ("cell", "edge"), "by")
    slider: dict[str, Any] = {"min_value": time(0, 0), "max_value": time(23, 55), "step": STEP}
    newest = time(last.hour, last.minute // 5 * 5)
    words = "Moment: the five minutes up to it"
    moment = st.slider(words, value=newest, key="at", bind="query-params", **slider)
    at = datetime.combine(day or last.date(), moment, zone)
    with live.section():
        _hours(at)
    asked = queries.edges_at if by == "edge" else queries.cells_at
    found = live.judged(live.rows(ask_large(asked, at.astimezone(UTC))))
    layer = maps.edges(maps.edge_rows(found)) if by == "edge" else maps.congestion(maps.cell_rows(found))
    size_px = live.map_size(1200, MAP_PX)
    view = live.kept_view(VIEW, None, lambda: maps.view_of_traffic(live.network(), found, size_px))
    live.draw_map([layer], view, MAP_PX, "routing_map", "Map of the traffic", found)
    live.bands(found, span["first_at"])
    clock, counts = text.clock(at, zone), found["source"].value_counts()
    words = ", ".join(f"{counts[name]:,} {word}" for name, word in SOURCES.items() if counts.get(name))
    st.caption(f"No traffic is known at {clock}." if found.empty else f"Up to {clock}: {words}.")


def _hours(at: datetime) -> None:
    found = live.rows(ask_slowly(queries.road_hours, at.date()))
    if found.empty:
        return
    if found["travel_time_index"].isna().all():
        st.caption("No delay by hour yet: free-flow speeds are still being learned where vehicles drove.")
        return
    shown = text.local(found, live.tz(), "hour")
    shown["hour"] = shown["hour"].dt.strftime("%H:00")
    live.chart(charts.delay(shown, f"{at:%H}:00"), "delay")


def _flows() -> None:
    none = f"No trip is over yet. {text.DRIVE}"
    newest = live.rows(ask_slowly(queries.last_trip_day, str(live.tz())), none)
    last: date = newest["day"].iloc[0]
    found = live.rows(ask_slowly(queries.flows, live.day("Day", last, "trip_day") or last))
    named = charts.names(found)
    if not named:
        live.nothing("No flow of this day may be shown: there are no trips, or too few vehicles on each.")
        return
    shown = found[~found["suppressed"].astype(bool)].drop(columns="hidden")
    others = pd.concat([shown["origin_h3_r7"], shown["destination_h3_r7"]]).nunique() - len(named)
    more = f" {others} less busy hexagons have no name and are left out." if others > 0 else ""
    st.caption(
        f"Hexagons of 5.2 km², Z1 the busiest; trips in whole steps of the smallest count. "
        f"{len(shown)} flows are shown, {found['hidden'].iloc[0]} of too few vehicles are suppressed.{more}"
    )
    left, right = st.columns([1, 1.2], gap="medium")
    with left:
        live.chart(charts.matrix(found, named), "matrix")
    with right:
        view = maps.view_of_cells(named, live.map_size(700, MAP_PX)) or maps.WORLD
        layers = charts.flow_layers(found, named)
        live.draw_map(layers, view, MAP_PX, "flow_map", "Map of the flows between hexagons", shown)
        st.caption(
            "An arc is blue where its trips begin and orange where they end, and as wide as they are many."
        )


def _arrivals() -> None:
    quality, open_ones = live.rows(ask(queries.eta_quality)), live.rows(ask(queries.etas))
    if quality.empty:
        live.nothing("No prediction can be graded yet: ask for one with `odograph eta` and let it arrive.")
    else:
        left, right = st.columns(2, gap="medium")
        with left:
            st.markdown("**Mean absolute error, % of the time that it took**")
            live.chart(charts.horizons(quality, "mape_pct", "MAPE, %"), "mape")
        with right:
            st.markdown("**Bias: above 0 predicted too late, below 0 too early**")
            live.chart(charts.horizons(quality, "bias_pct", "bias, %", signed=True), "bias")
        graded = int(quality["predictions"].sum())
        st.caption(f"{graded:,} predictions of vehicles that arrived, made 30 s and more before.")
    none = "Nobody is under way to a destination that was asked for."
    live.listed("Under way", open_ones, none, charts.PREDICTIONS, "etas", alt="Open predictions")


SHOWN: Final = {"Congestion": _congestion, "Origins and destinations": _flows, "Arrival times": _arrivals}

live.header("Routing")
live.part(SHOWN[live.choice("Show", SHOWN, "show", label_visibility="collapsed")], SLOW_S)
