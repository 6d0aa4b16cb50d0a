"""The fleet now: map, figures with their trend, the card of a vehicle, and who needs attention."""

from typing import Any, Final

import pandas as pd
import pydeck as pdk
import streamlit as st

from dashboard.query_cache import SLOW_S, ask, ask_slowly, scope, settings, shown
from dashboard.screens.fleet import charts as fleet_charts
from dashboard.screens.fleet import queries
from dashboard.shared import charts, live, maps, pictures, text
from dashboard.shared import queries as shared_queries
from dashboard.shared.theme import SEVERITIES, STATES
from infra.settings.settings import endpoints
from infra.stack.probes import readyz

MAP_PX: Final = 600
INCIDENTS_MOST: Final = 5_000  # active ones that are looked at, the worst first
BANNERS: Final = 3  # incidents of the fleet that have a line, the worst first
PINS: Final = 500  # that are drawn, the worst first
TRAFFIC: Final = ("off", "cells", "roads")
LISTED: Final = 100  # vehicles with incidents, the worst first
CARD_INCIDENTS: Final = 3  # named on a card, the worst first
LEAST: Final = "MAJOR"  # severity that has a pin, unless the reader wants another
CARD: Final = "card"  # in the address: the vehicle whose card is open
VIEW, SEEN, TAKEN = "fleet_view", "clusters_seen", "map_taken"


def _figures() -> None:
    now = live.first(ask(queries.fleet_figures, own=scope() is not None))
    if not now["vehicles"]:
        pages = endpoints(settings(), ()).pages
        late = ", ".join(name for name, where in pages.items() if readyz(where) is not None)
        waits = f"Not ready yet: {late}; see `odograph status`." if late else text.DRIVE
        live.nothing(f"No vehicle has reported yet. {waits}")
        return
    today = live.row(ask_slowly(queries.fleet_today)) or {}
    with st.container(key="figures"):
        for tile in fleet_charts.tiles(now, today, ask_slowly(queries.fleet_hour)):
            with st.container(border=True, gap=None):
                st.metric(tile.label, tile.value, help=tile.help)
                st.html(tile.line())
    st.caption(fleet_charts.severities(now))


def _active() -> pd.DataFrame:
    """The active incidents, the worst first."""
    return live.rows(ask(shared_queries.incidents, active=True, most=INCIDENTS_MOST))


def _of_fleet() -> None:
    """What many vehicles have at once: a line each, with a way to their list."""
    found = _active()
    for row in text.rows_of(found[found["vehicle_id"].isna()].head(BANNERS)):
        number = str(row["incident_no"])
        with st.container(border=True, horizontal=True, vertical_alignment="center", key=f"fleet_{number}"):
            st.text(fleet_charts.of_fleet(row, live.tz(), live.now()), width="stretch")
            look: Any = {"key": f"open_{number}", "icon": ":material/stacks:", "type": "tertiary"}
            if st.button(f"Incident {number}", **look):
                live.open_page("alerts", incident=number)


def _draw() -> None:
    """The map; a click on a vehicle opens its card, one on a bubble goes closer."""
    _of_fleet()
    fleet = live.rows(ask(queries.fleet_latest))
    states: list[str] = st.session_state.get("states") or []
    wanted = fleet[fleet["state"].isin(states)] if states else fleet
    size_px = live.map_size(840, MAP_PX)
    traffic = _traffic(str(st.session_state.get("traffic") or TRAFFIC[0]))
    layers = _layers(fleet, wanted, states, traffic)

    def look() -> maps.View | None:
        return maps.view_of_roads(live.network(), fleet, size_px) or maps.view_of(fleet, size_px)

    view = live.kept_view(VIEW, None, look)
    clicks: Any = {"on_select": "rerun", "selection_mode": "single-object"}
    chosen = live.draw_map(layers, view, MAP_PX, "fleet_map", "Map of the fleet", wanted, **clicks)
    st.html(pictures.states(live.mode(), {str(k): int(v) for k, v in wanted["state"].value_counts().items()}))
    if traffic is not None:
        live.bands(traffic)
    network = live.network()
    if network and not network["version"]:
        st.caption(
            "No road network is stored, so none is drawn and traffic is known by cell only. "
            "`odograph simulate --roads` stores the simulator's."
        )
    if len(wanted) > fleet_charts.MANY:
        words = "A bubble has the colour of its vehicles' most common state and the rim of their worst alert."
        st.caption(words)
    _take(chosen["selection"]["objects"])


def _traffic(kind: str) -> pd.DataFrame | None:
    if kind == TRAFFIC[0]:
        return None
    found = ask_slowly(queries.road_edge_traffic if kind == TRAFFIC[2] else queries.road_cells)
    return None if found is None or found.empty else live.judged(found)


def _layers(
    fleet: pd.DataFrame, wanted: pd.DataFrame, states: list[str], traffic: pd.DataFrame | None
) -> list[pdk.Layer]:
    """From the ground up. Rows have addresses of their own, fetched once for all readers."""
    number, mode = shown("fleet", fleet), live.mode()
    found = []
    if traffic is not None:
        by_cell = "cell" in traffic
        path, layer = (maps.CELLS_PATH, maps.congestion) if by_cell else (maps.EDGES_PATH, maps.edges)
        found.append(layer(maps.address(path, shown("traffic", traffic))))
    many = len(wanted) > fleet_charts.MANY
    found.append(maps.vehicles(maps.address(maps.VEHICLES_PATH, number, states), mode, many))
    least = str(st.session_state.get("from") or LEAST)
    alerted = fleet_charts.incidents_of(wanted, _active(), least).head(PINS)
    if many:  # only critical pins keep their size from afar
        gravest = alerted["severity"] == next(iter(SEVERITIES))
        found.append(fleet_charts.clusters(number, states, st.session_state.get(SEEN, 0)))
        found.append(maps.alert_pins(alerted[~gravest], mode, "alerts-other", fade=True))
        alerted = alerted[gravest]
    found.append(maps.alert_pins(alerted, mode))
    card = st.query_params.get(CARD)
    return [*found, *(fleet_charts.ring(fleet, card) if card else [])]


def _take(objects: dict[str, list[dict[str, Any]]]) -> None:
    """What was clicked, once: the map goes on reporting it with every run."""
    found = next((rows[0] for rows in objects.values() if rows and rows[0]), None)
    state = st.session_state
    if found == state.get(TAKEN):
        return
    state[TAKEN] = found
    properties = (found or {}).get("properties", {})
    if found is None:
        st.query_params.pop(CARD, None)
    elif "vehicle_id" in found:
        _open_card(str(found["vehicle_id"]))
    elif "cluster" in properties:
        lat, lon, zoom = properties["cluster"]
        state[SEEN], state[TAKEN] = state.get(SEEN, 0) + 1, None
        state[VIEW] = (None, maps.View(lat, lon, float(zoom) + 2.0))
    st.rerun()


def _open_card(vehicle_id: str) -> None:
    st.query_params[CARD] = vehicle_id


def _card() -> None:
    vehicle_id = st.query_params.get(CARD)
    if vehicle_id is None:
        return
    known = ask(shared_queries.vehicle, vehicle_id)
    with st.container(border=True, gap="small", key="card"):
        with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
            st.text(vehicle_id, width="content")
            if st.button("Close", key="close_card", icon=":material/close:", type="tertiary"):
                st.query_params.pop(CARD, None)
                st.rerun()
        if known is None or known.empty:
            st.caption("Not known yet." if known is None else "No data of this vehicle.")
            return
        now = live.first(known)
        st.text(text.joined(now["model"], now["powertrain"], now["vehicle_class"]) or "model not known")
        tiles = text.vehicle(now, live.now())
        live.figures("figures_card", tiles, always={"State", "Last seen", "Speed"}, border=False)
        found = ask(shared_queries.incidents, vehicle_id, None, True)
        if found is not None:
            for incident in text.rows_of(found.head(CARD_INCIDENTS)):
                st.text(f"{text.severity(incident['severity'])}  {incident['message']}")
            if len(found) > CARD_INCIDENTS:
                st.caption(f"and {len(found) - CARD_INCIDENTS} more")
        icon = ":material/arrow_forward:"
        live.vehicle_button("Open its page", vehicle_id, key="open_page", type="primary", icon=icon)


def _attention() -> None:
    live.renew()
    fleet = ask(queries.fleet_latest)
    st.subheader("Needs attention", anchor=False)
    alerted = None if fleet is None else fleet_charts.incidents_of(fleet, _active())
    worst = live.rows(alerted, f"No vehicle has an active incident. {text.RAISE}", st.caption)
    alt = "Vehicles with active incidents"
    shown = worst.head(LISTED)
    live.clickable(shown, fleet_charts.ALERTED, "attention", alt, _open_card, data=worst, most=6)
    more = f" The worst {LISTED} of {len(worst):,}." if len(worst) > LISTED else ""
    st.caption(f"Click a row, or a vehicle on the map, for its card.{more}")


def _trends() -> None:
    none = f"No complete minute of data within the last hour. {text.DRIVE}"
    minutes = text.local(live.rows(ask_slowly(queries.fleet_hour), none, st.caption), live.tz(), "minute")
    st.markdown("**Mean speed of moving vehicles, last hour**")
    live.chart(charts.trend(minutes, "minute", "speed_moving_kmh", "km/h"), "speed_trend")
    st.markdown("**Frames counted in windows, last hour**")
    live.chart(charts.trend(minutes, "minute", "frames_per_s", "frames/s"), "frames_trend")


live.header("Fleet")
live.part(_figures)
left, right = st.columns([2.2, 1], gap="medium")
with left:
    with live.toolbar():
        st.pills("Show", list(STATES), selection_mode="multi", key="states", bind="query-params")
        hint = "Speed against free flow, last 5 minutes, by hexagon and direction or by road"
        live.choice("Traffic", TRAFFIC, "traffic", help=hint)
        hint = "The least severity that has a pin on the map"
        live.choice("Incidents from", SEVERITIES, "from", LEAST, help=hint)
        live.report_button()
    live.part(_draw)
with right:
    live.search(_open_card)
    if st.query_params.get(CARD):
        live.part(_card)
    live.part(_attention)
    live.part(_trends, SLOW_S)
