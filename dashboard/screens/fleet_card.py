"""The card of one vehicle beside the map."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd
import streamlit as st

from dashboard import alert_queries, live, tables, text, vehicle_queries

CARD: Final = "card"
ALERTS: Final = 3
"""Alerts named on a card, the worst first."""


def chosen() -> str | None:
    """The vehicle whose card is open: it is part of the address."""
    return st.query_params.get(CARD)


def open_card(vehicle_id: str) -> None:
    """Show the card of this vehicle."""
    st.query_params[CARD] = vehicle_id


def close() -> None:
    """Show no card."""
    st.query_params.pop(CARD, None)


def card() -> None:
    """What there is to know at a glance, and the way to the vehicle's page."""
    vehicle_id = chosen()
    if vehicle_id is None:
        return
    now = live.row(live.ask(vehicle_queries.vehicle, vehicle_id))
    with st.container(border=True, gap="small", key="card"):
        with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
            st.text(vehicle_id, width="content")
            if st.button("Close", key="close_card", icon=":material/close:", type="tertiary"):
                close()
                st.rerun()
        if now is None:
            st.caption("No data of this vehicle." if live.AWAY not in st.session_state else "Not known yet.")
            return
        facts(now)
        alerts(vehicle_id)
        if st.button("Open its page", key="open_page", type="primary", icon=":material/arrow_forward:"):
            live.open_vehicle(vehicle_id)


def facts(now: dict[str, Any]) -> None:
    """Who it is, where it stands, its figures."""
    words = [now["model"], now["powertrain"], now["vehicle_class"]]
    st.text(" · ".join(str(word) for word in words if word) or "model not known")
    seen = (pd.Timestamp.now(tz="UTC") - now["event_time"]).total_seconds()
    figures = {
        "State": now["state"],
        "Speed": text.number(now["speed_kmh"], "km/h"),
        "Seen": f"{text.duration(seen)} ago",
        "Odometer": text.number(None if now["odometer_m"] is None else now["odometer_m"] / 1000, "km"),
        "Fuel": text.number(now["fuel_level_pct"], "%"),
        "Charge": text.number(now["soc_pct"], "%"),
        "Coolant": text.number(now["coolant_c"], "°C", 1),
        "12 V": text.number(now["battery_v"], "V", 1),
        "Lowest tyre": text.number(now["tyre_min_kpa20"], "kPa"),
    }
    with st.container(key="figures_card"):
        for label, value in figures.items():
            if label in {"State", "Speed", "Seen"} or value != text.NONE:
                st.metric(label, value)


def alerts(vehicle_id: str) -> None:
    """Its worst active alerts in a line each."""
    found = live.ask(alert_queries.alerts, vehicle_id, None, True)
    if found is None or found.empty:
        return
    for alert in found.head(ALERTS).to_dict("records"):
        st.text(f"{tables.severity(alert['severity'])}  {alert['message']}")
    if len(found) > ALERTS:
        st.caption(f"and {len(found) - ALERTS} more")
