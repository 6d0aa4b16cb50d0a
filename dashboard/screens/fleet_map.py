"""The live map of the fleet: roads, traffic, vehicles or bubbles of them, alert pins."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd
import pydeck as pdk
import streamlit as st

from dashboard import fleet_layers, fleet_queries, legends, live, maps, shown
from dashboard.palette import SEVERITIES, STATES
from dashboard.screens import fleet_card

MAP_PX: Final = 600
MAP_WIDE: Final = 840
VIEW: Final = "fleet_view"
SEEN: Final = "clusters_seen"
TAKEN: Final = "map_taken"
PINS: Final = 500
"""Alert pins that are drawn, the worst first."""
CLOSER: Final = 2.0
"""Zoom levels that a click on a bubble goes in."""
TRAFFIC: Final = ("off", "cells", "roads")
WORLD: Final = maps.View(30.0, 10.0, 1.5)


def toolbar() -> None:
    """What the map shows, kept in the address."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium", key="toolbar"):
        st.pills("Show", list(STATES), selection_mode="multi", key="states", bind="query-params")
        st.segmented_control(
            "Traffic",
            TRAFFIC,
            default="off",
            required=True,
            key="traffic",
            bind="query-params",
            help="Speed against free flow, last 5 minutes, by hexagon and direction or by road",
        )


def draw() -> None:
    """The map; a click on a vehicle opens its card, one on a bubble goes closer."""
    fleet = live.ask(fleet_queries.fleet_latest)
    if fleet is None:
        return
    network = live.row(live.ask_rarely(fleet_queries.road_networks)) or {}
    states: list[str] = st.session_state.get("states") or []
    kind = str(st.session_state.get("traffic") or TRAFFIC[0])
    wanted = fleet[fleet["state"].isin(states)] if states else fleet
    mode = live.mode()
    chosen = st.pydeck_chart(
        maps.deck(layers(fleet, wanted, states, kind, network), view(fleet, network), mode),
        height=live.map_size(MAP_WIDE, MAP_PX)[1],
        key="fleet_map",
        on_select="rerun",
        selection_mode="single-object",
        alt="Map of the fleet",
    )
    st.html(legends.states(mode, {str(k): int(v) for k, v in wanted["state"].value_counts().items()}))
    if kind != TRAFFIC[0]:
        st.html(legends.congestion())
    if not network.get("version"):
        st.caption(
            "No road network is stored, so none is drawn and traffic is known by cell only. "
            "`odograph simulate --roads` stores the simulator's."
        )
    if len(wanted) > fleet_layers.MANY:
        st.caption(
            "A bubble has the colour of its vehicles' most common state and the rim of their worst alert."
        )
    take(chosen["selection"]["objects"])


def layers(
    fleet: pd.DataFrame, wanted: pd.DataFrame, states: list[str], kind: str, network: dict[str, Any]
) -> list[pdk.Layer]:
    """From the ground up. Vehicles travel by an address of their own, once for all readers."""
    sheet, mode = shown.sheet(shown.fleet(), fleet, "fleet"), live.mode()
    many = len(wanted) > fleet_layers.MANY
    address = fleet_layers.address(fleet_layers.VEHICLES_PATH, sheet.number, states)
    found = [*live.roads(network), *traffic(kind), maps.vehicles(address, mode, many)]
    if many:
        found.append(fleet_layers.clusters(sheet.number, states, st.session_state.get(SEEN, 0)))
    found += pins(worst(wanted), many)
    card = fleet_card.chosen()
    return [*found, *(fleet_layers.ring(fleet, card) if card else [])]


def traffic(kind: str) -> list[pdk.Layer]:
    """The layer of traffic by cell or by road; none where it is off or nothing is known."""
    if kind == TRAFFIC[0]:
        return []
    cells = kind == TRAFFIC[1]
    found = live.ask_slowly(fleet_queries.road_cells if cells else fleet_queries.road_edge_traffic)
    if found is None or found.empty:
        return []
    number = shown.sheet(shown.traffic(), found, "traffic").number
    if cells:
        return [maps.congestion(fleet_layers.address(fleet_layers.CELLS_PATH, number))]
    return [fleet_layers.edges(fleet_layers.address(fleet_layers.EDGES_PATH, number))]


def pins(alerted: pd.DataFrame, many: bool) -> list[pdk.Layer]:
    """Alert pins; among thousands of vehicles only critical ones keep their size from afar."""
    if not many:
        return [maps.alert_pins(alerted, live.mode())]
    gravest = alerted["severity"] == next(iter(SEVERITIES))
    return [
        maps.alert_pins(alerted[~gravest], live.mode(), "alerts-other", fade=True),
        maps.alert_pins(alerted[gravest], live.mode()),
    ]


def worst(fleet: pd.DataFrame) -> pd.DataFrame:
    """The vehicles that get a pin."""
    alerted = fleet[fleet["alerts"] > 0]
    if len(alerted) <= PINS:
        return alerted
    order = list(SEVERITIES)
    return alerted.sort_values("severity", key=lambda c: c.map(order.index), kind="stable").head(PINS)


def take(objects: dict[str, list[dict[str, Any]]]) -> None:
    """What was clicked, once: the map goes on telling it with every run."""
    found = next((rows[0] for rows in objects.values() if rows and rows[0]), None)
    if found == st.session_state.get(TAKEN):
        return
    st.session_state[TAKEN] = found
    properties = (found or {}).get("properties", {})
    if found is None:
        fleet_card.close()
    elif "vehicle_id" in found:
        fleet_card.open_card(str(found["vehicle_id"]))
    elif "cluster" in properties:
        lat, lon, zoom = properties["cluster"]
        st.session_state[SEEN] = st.session_state.get(SEEN, 0) + 1
        st.session_state[TAKEN] = None
        look(maps.View(lat, lon, float(zoom) + CLOSER))
    st.rerun()


def look(at: maps.View) -> None:
    """Move the map there."""
    st.session_state[VIEW] = at


def view(fleet: pd.DataFrame, network: dict[str, Any]) -> maps.View:
    """Where the map looks first: the roads, else the fleet.

    Kept for the session, so that the place and zoom a reader has moved to are left alone.
    """
    kept: maps.View | None = st.session_state.get(VIEW)
    if kept is not None:
        return kept
    placed = maps.placed(fleet)
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
