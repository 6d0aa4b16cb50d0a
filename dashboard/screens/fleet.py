"""The fleet now: map, figures, trends and who needs attention."""

from __future__ import annotations

from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import charts, fleet_queries, legends, live, maps, tables, text
from dashboard.palette import STATES

MAP_PX = 600
MAP_WIDE = 840
TABLE_ROWS = 6
VIEW = "fleet_view"
WORLD = maps.View(30.0, 10.0, 1.5)


def figures() -> None:
    """The fleet in numbers."""
    now = live.row(live.ask(fleet_queries.fleet_figures))
    if now is None:
        return
    if not now["vehicles"]:
        live.nothing("No vehicle has reported yet. Start a fleet: `odograph simulate`.")
        return
    hour = live.ask_slowly(fleet_queries.fleet_hour)
    driven_km = None if hour is None else hour["distance_km"].sum(min_count=1)
    count, shown = partial(count_of, now), text.number
    tiles = {
        "Vehicles": count("vehicles"),
        "Reporting": count("reporting"),
        "Moving": count("moving"),
        "Idling": count("idling"),
        "Parked": count("parked"),
        "Mean speed": shown(now["speed_moving_kmh"], "km/h", 1),
        "Frames/s": shown(now["frames_per_s"]),
        "Driven, 1 h": shown(driven_km, "km"),
        "Active alerts": count("alerts_active"),
    }
    with st.container(key="figures"):
        for label, value in tiles.items():
            st.metric(label, value, border=True)
    st.caption(severities(now))


def count_of(now: dict[str, Any], key: str) -> str:
    """One count of the fleet."""
    return text.number(now[key])


def severities(now: dict[str, Any]) -> str:
    """The active alerts by severity, in words."""
    parts = {"CRITICAL": now["alerts_critical"], "MAJOR": now["major"], "MINOR": now["minor"]}
    parts["WARNING"] = now["warning"]
    words = " · ".join(f"{tables.severity(name)} {n}" for name, n in parts.items())
    return f"Active alerts: {words} · not acknowledged: {now['alerts_unacknowledged']}"


def fleet_map() -> None:
    """The live map; a click on a vehicle opens its page."""
    fleet = live.ask(fleet_queries.fleet_latest, st.session_state.get("states") or None)
    if fleet is None:
        return
    mode, traffic = live.mode(), bool(st.session_state.get("traffic"))
    network = live.row(live.ask(fleet_queries.road_networks)) or {}
    cells = live.ask(fleet_queries.road_cells) if traffic else None
    layers = live.roads(network) + ([] if cells is None else [maps.congestion(cells)])
    layers += [maps.vehicles(fleet, mode), maps.alert_pins(fleet, mode)]
    chosen = st.pydeck_chart(
        maps.deck(layers, view(fleet, network), mode),
        height=live.map_size(MAP_WIDE, MAP_PX)[1],
        key="fleet_map",
        on_select="rerun",
        selection_mode="single-object",
        alt="Map of the fleet",
    )
    st.html(legends.states(mode, {str(k): int(v) for k, v in fleet["state"].value_counts().items()}))
    if traffic:
        st.html(legends.congestion())
    for found in chosen["selection"]["objects"].values():
        if found and "vehicle_id" in found[0]:
            live.open_vehicle(found[0]["vehicle_id"])


def view(fleet: pd.DataFrame, network: dict[str, Any]) -> maps.View:
    """Where the map looks first: the roads, else the fleet.

    Kept for the session, so that the place and zoom a reader has moved to are left alone.
    """
    kept: maps.View | None = st.session_state.get(VIEW)
    if kept is not None:
        return kept
    placed = fleet.dropna(subset=["lat_deg", "lon_deg"])
    if network.get("version"):
        found = maps.view_of(
            [network["south"], network["north"]],
            [network["west"], network["east"]],
            *live.map_size(MAP_WIDE, MAP_PX),
        )
    elif len(placed):
        found = maps.view_of(
            list(placed["lat_deg"]), list(placed["lon_deg"]), *live.map_size(MAP_WIDE, MAP_PX)
        )
    else:
        return WORLD
    st.session_state[VIEW] = found
    return found


def attention() -> None:
    """Vehicles with active alerts; a click on a row opens the vehicle."""
    fleet = live.ask(fleet_queries.fleet_alerted)
    st.subheader("Needs attention", anchor=False)
    if fleet is None:
        return
    if fleet.empty:
        st.caption("No vehicle has an active alert.")
        return
    table = tables.alerted_vehicles(fleet)
    chosen = st.dataframe(
        tables.tinted(table),
        height="content" if len(table) <= TABLE_ROWS else 36 * (TABLE_ROWS + 1),
        hide_index=True,
        placeholder=text.NONE,
        key="attention",
        on_select="rerun",
        selection_mode="single-cell",
        alt="Vehicles with active alerts",
    )
    st.caption("Click a row, or a vehicle on the map, to open the vehicle.")
    for place, _ in chosen["selection"]["cells"]:
        live.open_vehicle(table["Vehicle"].iloc[place])


def trends() -> None:
    """The last hour by minute."""
    minutes = live.ask(fleet_queries.fleet_hour)
    if minutes is None:
        return
    if minutes.empty:
        st.caption("No complete minute of data within the last hour.")
        return
    shown = text.local(minutes, live.tz(), "minute")
    st.markdown("**Mean speed of moving vehicles, last hour**")
    st.altair_chart(charts.trend(shown, "minute", "speed_moving_kmh", "km/h"), key="speed_trend")
    st.markdown("**Frames counted in windows, last hour**")
    st.altair_chart(charts.trend(shown, "minute", "frames_per_s", "frames/s"), key="frames_trend")


def toolbar() -> None:
    """What the map shows, kept in the address; and the way to any vehicle."""
    known = live.ask(fleet_queries.vehicle_ids)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium", key="toolbar"):
        st.pills("Show", list(STATES), selection_mode="multi", key="states", bind="query-params")
        st.toggle(
            "Traffic", key="traffic", bind="query-params", help="Speed against free flow, last 5 minutes"
        )
        if known is not None and len(known):
            st.selectbox(
                "Go to vehicle",
                known["vehicle_id"],
                index=None,
                key="go_to",
                placeholder="Vehicle id",
                width=260,
                on_change=None,
            )
    if st.session_state.get("go_to"):
        live.open_vehicle(st.session_state["go_to"])


def page() -> None:
    """All parts, each with its own clock."""
    st.fragment(figures, run_every=live.every())()
    left, right = st.columns([2.2, 1], gap="medium")
    with left:
        toolbar()
        st.fragment(fleet_map, run_every=live.every())()
    with right:
        st.fragment(attention, run_every=live.every())()
        st.fragment(trends, run_every=live.every(live.SLOW_S))()


live.header("Fleet")
page()
