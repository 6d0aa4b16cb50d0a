"""Alerts: what is active and not yet seen comes first."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dashboard import alert_queries, live, tables, text
from dashboard.palette import SEVERITIES

STATUS = {"active": True, "cleared": False, "all": None}


def filters() -> None:
    """Severity and status, kept in the address."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium", key="toolbar"):
        st.segmented_control(
            "Status", list(STATUS), default="active", required=True, key="status_filter", bind="query-params"
        )
        st.pills("Severity", list(SEVERITIES), selection_mode="multi", key="severity", bind="query-params")


def listing() -> None:
    """The alerts; a click on a row opens the vehicle."""
    active = STATUS[st.session_state.get("status_filter") or "active"]
    severities = st.session_state.get("severity") or None
    found = live.ask(alert_queries.alerts, None, severities, active)
    if found is None:
        return
    if found.empty:
        st.success("No alert matches.", icon=":material/check_circle:")
        return
    more = f"; the first {len(found)} are shown" if len(found) == alert_queries.ALERT_LIMIT else ""
    st.caption(f"{len(found)} alerts{more}. Click a row to open the vehicle.")
    table = tables.alerts(found, live.tz(), pd.Timestamp.now(tz="UTC"))
    chosen = st.dataframe(
        tables.tinted(table),
        hide_index=True,
        placeholder=text.NONE,
        height="content" if len(table) < 20 else 720,
        key="alerts",
        on_select="rerun",
        selection_mode="single-cell",
        alt="Alerts",
        column_config={
            "Value": st.column_config.NumberColumn(format="%.1f"),
            "Worst": st.column_config.NumberColumn(format="%.1f"),
            "Limit": st.column_config.NumberColumn(format="%.1f"),
            "Message": st.column_config.TextColumn(width="medium"),
        },
    )
    for place, _ in chosen["selection"]["cells"]:
        live.open_vehicle(table["Vehicle"].iloc[place])


live.header("Alerts")
filters()
st.fragment(listing, run_every=live.every())()
