"""One vehicle: how it is now, where it was, where it is heading, what was found."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import history_queries, live, text, vehicle_queries
from dashboard.screens import finder, vehicle_health, vehicle_past, vehicle_quality, vehicle_records
from dashboard.spans import FIRST, OWN, SPANS, Span, between, span


def choose() -> str | None:
    """The vehicle and the span of time, kept in the address."""
    chosen = st.query_params.get("vehicle")
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium", key="toolbar"):
        with st.container(width=300):
            finder.search(pick)
        st.segmented_control(
            "Time span", [*SPANS, OWN], default=FIRST, required=True, key="span", bind="query-params"
        )
        if st.session_state.get("span") == OWN:
            for label, key in (("From", "since"), ("To", "until")):
                st.datetime_input(label, key=key, format="YYYY-MM-DD", bind="query-params", width=210)
    return chosen


def pick(vehicle_id: str) -> None:
    """Show this vehicle."""
    st.query_params["vehicle"] = vehicle_id


def newest() -> None:
    """The vehicle as it is now."""
    vehicle_id = st.query_params["vehicle"]
    now = live.row(live.ask(vehicle_queries.vehicle, vehicle_id))
    if now is not None:
        state(now)
        vehicle_health.signals(now)
    elif live.AWAY not in st.session_state:
        live.nothing("No data of this vehicle.")


def state(now: dict[str, Any]) -> None:
    """Who it is and how it is now."""
    place = None if now["lat_deg"] is None else f"at {now['lat_deg']:.5f}, {now['lon_deg']:.5f}"
    words = [now["vehicle_id"], now["model"], now["powertrain"], now["vehicle_class"], place]
    st.text(" · ".join(str(word) for word in words if word))
    seen = (pd.Timestamp.now(tz="UTC") - now["event_time"]).total_seconds()
    tiles = {
        "State": now["state"],
        "Last seen": f"{text.duration(seen)} ago",
        "Speed": text.number(now["speed_kmh"], "km/h"),
        "Limit": text.number(now["speed_limit_kmh"], "km/h"),
        "Odometer": text.number(None if now["odometer_m"] is None else now["odometer_m"] / 1000, "km"),
        "Coolant": text.number(now["coolant_c"], "°C", 1),
        "12 V system": text.number(now["battery_v"], "V", 2),
        "Lowest tyre": text.number(pressure(now["tyre_min_kpa20"]), "kPa"),
        "Fuel": text.number(now["fuel_level_pct"], "%"),
        "Charge": text.number(now["soc_pct"], "%", 1),
        "Active alerts": text.number(now["alerts"]),
    }
    always = {"State", "Last seen", "Speed", "Active alerts"}
    with st.container(key="figures"):
        for label, value in tiles.items():
            if label in always or value != text.NONE:
                st.metric(label, value, border=True)


def pressure(kpa20: float | None) -> float | None:
    """A gauge pressure made comparable (20 °C) is a little below none in a tyre that is flat and warm."""
    return None if kpa20 is None else max(0.0, kpa20)


def past() -> None:
    """Where it was over the chosen span, and how it drove."""
    found = spanned()
    if found is None:
        return
    vehicle_id, shown, extent = found
    vehicle_past.spell_out(shown, extent)
    history = history_of(vehicle_id, shown)
    if history is None:
        return
    left, right = st.columns([1.35, 1], gap="medium")
    with left:
        vehicle_past.draw(vehicle_id, shown)
    with right:
        vehicle_past.driving(history, shown)


def records() -> None:
    """Its trips of the span; what was found of it, and where it is heading, whenever that was."""
    found = spanned(silently=True)
    if found is None:
        return
    vehicle_id, shown, _ = found
    vehicle_records.trips(vehicle_id, shown)
    vehicle_records.findings(vehicle_id)
    vehicle_records.codes(vehicle_id)
    vehicle_records.crashes(vehicle_id)
    vehicle_health.trends(vehicle_id)


def health() -> None:
    """Its signals over the span, and how good its data were."""
    found = spanned(silently=True)
    if found is None:
        return
    vehicle_id, shown, extent = found
    history = history_of(vehicle_id, shown)
    if history is None:
        return
    vehicle_health.panels(history, shown)
    vehicle_quality.quality(vehicle_id, history, shown, extent)


def spanned(silently: bool = False) -> tuple[str, Span, dict[str, Any]] | None:
    """The vehicle, the span, and all the time there is of it; None, and unless ``silently`` why."""
    vehicle_id = st.query_params["vehicle"]
    extent = live.row(live.ask_slowly(vehicle_queries.vehicle_extent, vehicle_id))
    shown = None if extent is None else chosen_span(extent)
    if extent is not None and shown is not None:
        return vehicle_id, shown, extent
    if extent is not None and not silently:
        live.nothing("Choose from when to when.")
    elif live.AWAY not in st.session_state and not silently:
        live.nothing("No window of this vehicle yet.")
    return None


def history_of(vehicle_id: str, shown: Span) -> pd.DataFrame | None:
    """Its windows or roll-ups in the steps of the span: one answer for both parts that draw them."""
    tz = live.settings().tz
    return live.ask_slowly(history_queries.vehicle_history, vehicle_id, *vehicle_past.when(shown), tz)


def chosen_span(extent: dict[str, Any]) -> Span | None:
    """The span in the address; None where its ends are still to be chosen."""
    choice = vehicle_past.choice()
    if choice != OWN:
        return span(choice, extent["first_event"], extent["last_event"], datetime.now(UTC))
    since, until = st.session_state.get("since"), st.session_state.get("until")
    if since is None or until is None:
        return None
    return between(*(t.replace(tzinfo=live.tz()).astimezone(UTC) for t in (since, until)))


live.header("Vehicle")
if choose() is None:
    live.nothing("Find a vehicle here, or click one on the map of the fleet.")
else:
    live.part(newest)
    live.part(past, vehicle_past.refresh_s())
    live.part(records, live.SLOW_S)
    live.part(health, vehicle_past.refresh_s())
