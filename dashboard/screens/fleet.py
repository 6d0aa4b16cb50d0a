"""The fleet now: map, figures with their trend, the card of a vehicle, and who needs attention."""

from __future__ import annotations

from typing import Any

import streamlit as st

from dashboard import charts, fleet_figures, fleet_queries, live, tables, text
from dashboard.screens import finder, fleet_card, fleet_map

TABLE_ROWS = 6
LISTED = 100  # vehicles with alerts, the worst first


def figures() -> None:
    """The fleet in numbers, with the last hour behind them."""
    now = live.row(live.ask(fleet_queries.fleet_figures))
    if now is None:
        return
    if not now["vehicles"]:
        live.nothing("No vehicle has reported yet. Start a fleet: `odograph simulate`.")
        return
    today = live.row(live.ask_slowly(fleet_queries.fleet_today)) or {}
    tiles = fleet_figures.tiles(now, today, live.ask_slowly(fleet_queries.fleet_hour))
    with st.container(key="figures"):
        for tile in tiles:
            with st.container(border=True, gap=None):
                st.metric(tile.label, tile.value, help=tile.help)
                st.html(tile.line())
    st.caption(severities(now))


def severities(now: dict[str, Any]) -> str:
    """The active alerts by severity, in words."""
    parts = {"CRITICAL": now["alerts_critical"], "MAJOR": now["major"], "MINOR": now["minor"]}
    parts["WARNING"] = now["warning"]
    words = " · ".join(f"{tables.severity(name)} {n}" for name, n in parts.items())
    return f"Active alerts: {words} · not acknowledged: {now['alerts_unacknowledged']}"


def attention() -> None:
    """Vehicles with active alerts; a click on a row opens the vehicle's card."""
    fleet = live.ask(fleet_queries.fleet_latest)
    st.subheader("Needs attention", anchor=False)
    if fleet is None:
        return
    alerted = fleet[fleet["alerts"] > 0]
    if alerted.empty:
        st.caption("No vehicle has an active alert.")
        return
    table = tables.alerted_vehicles(alerted).head(LISTED)
    finder.clickable(table, "attention", TABLE_ROWS, "Vehicles with active alerts", fleet_card.open_card)
    more = f" The worst {LISTED} of {len(alerted):,}." if len(alerted) > LISTED else ""
    st.caption(f"Click a row, or a vehicle on the map, for its card.{more}")


def trends() -> None:
    """The last hour by minute."""
    minutes = live.ask_slowly(fleet_queries.fleet_hour)
    if minutes is None:
        return
    if minutes.empty:
        st.caption("No complete minute of data within the last hour.")
        return
    shown = text.local(minutes, live.tz(), "minute")
    st.markdown("**Mean speed of moving vehicles, last hour**")
    live.chart(charts.trend(shown, "minute", "speed_moving_kmh", "km/h"), "speed_trend")
    st.markdown("**Frames counted in windows, last hour**")
    live.chart(charts.trend(shown, "minute", "frames_per_s", "frames/s"), "frames_trend")


def page() -> None:
    """All parts, each with its own clock."""
    live.part(figures)
    left, right = st.columns([2.2, 1], gap="medium")
    with left:
        fleet_map.toolbar()
        live.part(fleet_map.draw)
    with right:
        finder.search(fleet_card.open_card)
        if fleet_card.chosen():
            live.part(fleet_card.card)
        live.part(attention)
        live.part(trends, live.SLOW_S)


live.header("Fleet")
page()
