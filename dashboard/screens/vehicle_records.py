"""Parts of the vehicle's page below the charts: trips, alerts, trouble codes, crash records."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from dashboard import (
    alert_queries,
    health_tables,
    live,
    tables,
    text,
    vehicle_health_queries,
    vehicle_queries,
)
from dashboard.screens.vehicle_past import when
from dashboard.spans import Span

ROWS = 8


def findings(vehicle_id: str) -> None:
    """Its alerts, active first."""
    st.subheader("Alerts", anchor=False)
    found = live.ask(alert_queries.alerts, vehicle_id)
    if found is None or found.empty:
        st.caption("No alert of this vehicle.")
        return
    table = tables.alerts(found, live.tz(), pd.Timestamp.now(tz="UTC"), vehicle=False)
    one = st.column_config.NumberColumn(format="%.1f")
    event = st.dataframe(
        tables.tinted(table),
        hide_index=True,
        placeholder=text.NONE,
        key="alerts",
        on_select="rerun",
        selection_mode="single-cell",
        alt="Alerts",
        column_config={"Value": one, "Worst": one, "Limit": one},
    )
    st.caption("Click a row to open the alert with its evidence.")
    for place, _ in event["selection"]["cells"][:1]:
        live.open_page("alerts", alert=str(found["alert_no"].iloc[place]))


def crashes(vehicle_id: str) -> None:
    """Its crash records, the newest first."""
    found = live.ask(vehicle_queries.crash_records, vehicle_id)
    if found is None or found.empty:
        return
    st.subheader("Crash records", anchor=False)
    for record in found.to_dict("records"):
        crash({str(k): v for k, v in record.items()})


def crash(found: dict[str, Any]) -> None:
    """One record in words; the vault has its curves."""
    bag = {True: "deployed", False: "not deployed"}.get(found["airbag_deployed"], "not known")
    hash_words = "hash matches" if found["hash_ok"] else "HASH DOES NOT MATCH"
    words = [
        text.clock(found["event_time"], live.tz()),
        f"delta-V {text.number(found['delta_v_max_kmh'], 'km/h', 1)}",
        f"air bag {bag}",
        "complete" if found["complete"] else "incomplete",
        hash_words,
        found["profile"],
    ]
    st.text(" · ".join(words))
    verdict(found)
    key = "/".join(str(found[name]) for name in ("vehicle_id", "boot_id", "crash_id"))
    if st.button("Open the record with its curves", key=f"crash_{key}", icon=":material/car_crash:"):
        live.open_page("crashes", record=key)


def verdict(found: dict[str, Any]) -> None:
    """What record and telemetry together say, why, and whether the record is whole and locked."""
    defects = found.get("defects")
    missing = text.missing(defects) if not isinstance(defects, list) else False
    whole = "not checked" if missing else f"{len(defects)} defects" if defects else "whole and plausible"
    locked = "open" if text.missing(found["locked_at"]) else f"locked by {found['locked_by']}"
    st.text(f"{found['verdict']} · {whole} · {locked}")
    reasons = [*found["reasons"], *(f"{d['element']}: {d['fault']}: {d['detail']}" for d in defects or [])]
    if reasons:
        with st.expander("Why"):
            st.text("\n".join(reasons))


def trips(vehicle_id: str, shown: Span) -> None:
    """Its trips of the span; a click on a row opens the trip."""
    st.subheader("Trips", anchor=False)
    start, end, _ = when(shown)
    found = live.ask_slowly(vehicle_health_queries.trips, vehicle_id, start, end)
    if found is None:
        return
    if found.empty:
        st.caption("No trip began within this span.")
        return
    one = st.column_config.NumberColumn(format="%.1f")
    event = st.dataframe(
        health_tables.trips(found, live.tz()),
        hide_index=True,
        placeholder=text.NONE,
        height="content" if len(found) <= ROWS else 36 * (ROWS + 1),
        key="trips",
        on_select="rerun",
        selection_mode="single-cell",
        alt="Trips",
        column_config=dict.fromkeys(("km", "Mean km/h", "Top km/h", "l/100 km", "kWh/100 km"), one),
    )
    more = f" The newest {len(found)}." if len(found) == vehicle_health_queries.TRIP_LIMIT else ""
    st.caption(f"Click a row to open the trip.{more}")
    for place, _ in event["selection"]["cells"][:1]:
        live.open_page("trips", trip=str(found["trip_id"].iloc[place]))


def codes(vehicle_id: str) -> None:
    """Its trouble codes, where it has any."""
    found = live.ask_slowly(vehicle_health_queries.codes, vehicle_id)
    if found is None or found.empty:
        return
    st.subheader("Trouble codes", anchor=False)
    table = health_tables.codes(found, live.tz(), pd.Timestamp.now(tz="UTC"))
    st.dataframe(
        tables.tinted(table), hide_index=True, placeholder=text.NONE, key="codes", alt="Trouble codes"
    )
